package io.github.tierkit.kafka;

import java.io.ByteArrayOutputStream;
import java.io.Closeable;
import java.io.File;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.SecureRandom;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import org.apache.kafka.common.config.ConfigException;

/**
 * Runs the daemon as a child: starts it, tells it its settings and a fresh token over a pipe (arguments and environment can be read by others),
 * starts it again when it ends or does not answer any more. The pipe stays open; its end, which a kill -9 of the broker brings too, is the daemon's
 * order to stop.
 */
final class Supervisor implements Daemon {
    private static final long FIRST_PAUSE_MS = 200;
    private static final long LONGEST_PAUSE_MS = 10_000;
    private static final long HEALTHY_MS = 60_000; // who ran so long is started again at once
    private static final int MAX_LINE_BYTES = 64 << 10;

    private final Settings settings;
    private final Metrics metrics;
    private final Timing timing;
    private final CompletableFuture<Void> first = new CompletableFuture<>();
    private final Thread thread = new Thread(this::run, "tierkit-supervisor");
    private final Object lock = new Object();
    private boolean closed; // under lock
    private Process process; // under lock; the one to stop
    private volatile Endpoint endpoint; // null: not up
    private volatile String trouble = "it is being started";

    /** How often the daemon is asked how it is, how long it may be silent, and how long its stop is waited for. */
    static final class Timing {
        long checkMs = 5000;
        long silentMs = 60_000;
        long stopMs = 10_000;
    }

    Supervisor(Settings settings, Metrics metrics, Timing timing) {
        this.settings = settings;
        this.metrics = metrics;
        this.timing = timing;
        thread.setDaemon(true);
    }

    /** Settings that the daemon refuses, or a command that cannot be run, are the caller's mistake; what may pass is tried again for ever. */
    private static final class RefusedException extends IOException {
        private static final long serialVersionUID = 1;

        RefusedException(String message, Throwable cause) {
            super(message, cause);
        }
    }

    /** Starts it and waits until it is up, or has refused, or the time for that is over. */
    void start() {
        long ms = settings.number(Settings.START_TIMEOUT);
        thread.start();
        try {
            first.get(ms, TimeUnit.MILLISECONDS);
        } catch (TimeoutException e) {
            Log.error("tierkit: the daemon is not up after " + ms + " ms: " + trouble + ". It is tried again; until then nothing is tiered or read");
        } catch (ExecutionException e) {
            close();
            throw new ConfigException("tierkit serve: " + e.getCause().getMessage() + " (its log: " + settings.logFile() + ")");
        } catch (InterruptedException e) {
            close();
            Thread.currentThread().interrupt();
            throw new ConfigException("interrupted while tierkit serve started");
        }
    }

    @Override
    public Endpoint endpoint() throws IOException {
        Endpoint e = endpoint;
        if (e == null) {
            throw new IOException("tierkit serve is not up: " + trouble);
        }
        return e;
    }

    @Override
    public Endpoint afterRefusal(Endpoint refused) throws IOException {
        return endpoint();
    }

    @Override
    public void afterSilence(Endpoint silent) {
        // It is watched, and its place is known as soon as it has another one.
    }

    private void run() {
        Backoff pause = new Backoff(FIRST_PAUSE_MS, LONGEST_PAUSE_MS);
        while (true) {
            long began = System.nanoTime();
            try {
                life();
            } catch (RefusedException e) {
                trouble = e.getMessage();
                if (first.completeExceptionally(e)) {
                    return;
                }
            } catch (IOException | RuntimeException e) {
                trouble = e.getMessage();
            } catch (InterruptedException e) {
                return; // nobody interrupts it but the end of the JVM
            }
            if (TimeUnit.NANOSECONDS.toMillis(System.nanoTime() - began) > HEALTHY_MS) {
                pause.reset();
            }
            if (!pause(pause.next())) {
                return;
            }
        }
    }

    /** Waits; false when it is over. */
    private boolean pause(long ms) {
        synchronized (lock) {
            if (closed) {
                return false;
            }
            Log.warn("tierkit: the daemon is not up: " + trouble + ". It is started again in " + ms + " ms; its log: " + settings.logFile());
            try {
                lock.wait(ms);
            } catch (InterruptedException e) {
                return false;
            }
            return !closed;
        }
    }

    /** One life of the daemon. Returns or throws when it is over. */
    private void life() throws IOException, InterruptedException {
        String token = token();
        try (Child child = new Child(launch(), greeting(token))) {
            Map<String, Object> hello = child.hello(settings.number(Settings.START_TIMEOUT));
            endpoint = new Endpoint("http://127.0.0.1:" + port(hello), token, null);
            Log.info("tierkit: the daemon " + hello.get("version") + " is up at " + endpoint.base + ", its log: " + settings.logFile());
            warn(hello.get("warnings"));
            first.complete(null);
            watch(child.process, endpoint);
        } finally {
            endpoint = null;
        }
    }

    private Process launch() throws IOException {
        List<String> command = new ArrayList<>(settings.command());
        command.add("serve");
        command.add("--supervised");
        File log = settings.logFile().toAbsolutePath().toFile();
        synchronized (lock) {
            if (closed) {
                throw new IOException("the broker stops");
            }
            try {
                Path dir = log.toPath().getParent();
                if (!Files.isDirectory(dir)) {
                    Files.createDirectories(dir);
                }
                // A file, and not a pipe that must be read; appended to, so that it can be rotated by copying and truncating.
                process = new ProcessBuilder(command).redirectError(ProcessBuilder.Redirect.appendTo(log)).start();
            } catch (IOException e) {
                throw new RefusedException(e.getMessage(), e);
            }
        }
        metrics.starts.increment();
        return process;
    }

    private static String token() {
        byte[] random = new byte[32];
        new SecureRandom().nextBytes(random);
        StringBuilder hex = new StringBuilder();
        for (byte b : random) {
            hex.append(String.format("%02x", b));
        }
        return hex.toString();
    }

    private byte[] greeting(String token) {
        Map<String, Object> m = new LinkedHashMap<>();
        m.put("protocol", 1);
        m.put("token", token);
        m.put("brokerId", settings.brokerId);
        m.put("prefix", "rsm.config.");
        m.put("settings", settings.all());
        byte[] json = Json.bytes(m);
        byte[] line = java.util.Arrays.copyOf(json, json.length + 1);
        line[json.length] = '\n';
        return line;
    }

    private static long port(Map<String, Object> hello) throws IOException {
        Object port = hello.get("port");
        if (!Long.valueOf(1).equals(hello.get("protocol"))) {
            throw new RefusedException("it speaks protocol " + hello.get("protocol") + ", this plug-in 1: their versions do not fit", null);
        }
        if (hello.get("error") != null) {
            if (Boolean.TRUE.equals(hello.get("retriable"))) { // such as the state directory that an earlier daemon still holds
                throw new IOException(String.valueOf(hello.get("error")));
            }
            throw new RefusedException(String.valueOf(hello.get("error")), null);
        }
        if (!(port instanceof Long) || (Long) port < 1 || (Long) port > 65535) {
            throw new IOException("it gives no port");
        }
        return (Long) port;
    }

    private static void warn(Object warnings) {
        if (warnings instanceof List) {
            for (Object w : (List<?>) warnings) {
                Log.warn("tierkit: " + w);
            }
        }
    }

    /** Returns never; throws when the daemon has ended, or was killed because it did not answer. */
    private void watch(Process p, Endpoint at) throws IOException, InterruptedException {
        Client client = new Client(new Fixed(at), new Metrics());
        long answered = System.nanoTime();
        while (!p.waitFor(timing.checkMs, TimeUnit.MILLISECONDS)) {
            try {
                client.call("GET", "/v1/health", null, Deadline.in(Math.max(timing.silentMs / 4, 100)));
                answered = System.nanoTime();
            } catch (IOException e) {
                long silent = TimeUnit.NANOSECONDS.toMillis(System.nanoTime() - answered);
                if (silent > timing.silentMs && p.isAlive()) {
                    throw new IOException("it did not answer for " + silent + " ms and was killed: " + e.getMessage());
                }
            }
        }
        throw new IOException("it has ended with exit code " + p.exitValue());
    }

    /** A daemon of which one life is meant. */
    private static final class Fixed implements Daemon {
        private final Endpoint at;

        Fixed(Endpoint at) {
            this.at = at;
        }

        @Override
        public Endpoint endpoint() {
            return at;
        }

        @Override
        public Endpoint afterRefusal(Endpoint refused) {
            return at;
        }

        @Override
        public void afterSilence(Endpoint silent) {
            // It is tried until its time is over.
        }

        @Override
        public void close() {
            // Nothing to close.
        }
    }

    /** A started process, with the thread that talks to it: neither the write of the settings nor the read of the answer may hang the supervisor. */
    private static final class Child implements Closeable {
        final Process process;
        private final CompletableFuture<byte[]> line = new CompletableFuture<>();

        Child(Process process, byte[] greeting) {
            this.process = process;
            Thread t = new Thread(() -> talk(greeting), "tierkit-supervisor-pipe");
            t.setDaemon(true);
            t.start();
        }

        private void talk(byte[] greeting) {
            try {
                OutputStream in = process.getOutputStream(); // stays open
                in.write(greeting);
                in.flush();
            } catch (IOException e) {
                // It has ended; perhaps it said why.
            }
            try (InputStream out = process.getInputStream()) {
                line.complete(line(out));
                byte[] scratch = new byte[1024];
                while (out.read(scratch) >= 0) {
                    // Nothing comes, but what is not read would stop it.
                }
            } catch (IOException e) {
                line.completeExceptionally(e);
            }
        }

        private static byte[] line(InputStream in) throws IOException {
            ByteArrayOutputStream line = new ByteArrayOutputStream();
            for (int b = in.read(); b != '\n'; b = in.read()) {
                if (b < 0) {
                    throw new IOException("it ended before it said where it is");
                }
                if (line.size() > MAX_LINE_BYTES) {
                    throw new IOException("it does not say where it is");
                }
                line.write(b);
            }
            return line.toByteArray();
        }

        Map<String, Object> hello(long ms) throws IOException, InterruptedException {
            try {
                return Json.object(line.get(ms, TimeUnit.MILLISECONDS));
            } catch (ExecutionException e) {
                boolean ended = process.waitFor(1, TimeUnit.SECONDS);
                throw new IOException(e.getCause().getMessage() + (ended ? " (exit code " + process.exitValue() + ")" : ""), e);
            } catch (TimeoutException e) {
                throw new IOException("it did not say within " + ms + " ms where it is", e);
            }
        }

        /** It is over with this one, whatever it does. */
        @Override
        public void close() {
            process.destroyForcibly();
        }
    }

    /** Orders it to stop and waits a little for that. What it still cleans up it does without us. */
    @Override
    public void close() {
        Process p;
        synchronized (lock) {
            closed = true;
            p = process;
            lock.notifyAll();
        }
        if (p == null) {
            return;
        }
        try {
            p.getOutputStream().close();
            if (!p.waitFor(timing.stopMs, TimeUnit.MILLISECONDS)) {
                Log.info("tierkit: the daemon still cleans up, and ends when that is done");
            }
        } catch (IOException e) {
            Log.warn("tierkit: the daemon cannot be told to stop: " + e);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
    }
}

package io.github.tierkit.kafka;

import java.io.BufferedInputStream;
import java.io.Closeable;
import java.io.EOFException;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.net.BindException;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.net.SocketException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Base64;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.atomic.AtomicInteger;

/** The API of tierkit serve over a map, on plain sockets so that a test can break whatever it wants. */
final class FakeDaemon implements Closeable {
    static final String TOKEN = "the-token-of-the-test";

    /** Looks at a request first. True: it has answered, or broken, what it wanted. */
    interface Fault {
        boolean handle(Request r, Socket s) throws IOException, InterruptedException;
    }

    record Request(String method, String path, Map<String, String> headers, byte[] body) {
        Map<String, Object> json() throws IOException {
            return Json.object(body);
        }

        String segment() throws IOException {
            return (String) ((Map<?, ?>) json().get("segment")).get("segmentId");
        }
    }

    static final class Operation {
        final Map<String, Object> files;
        final Map<String, byte[]> content = new ConcurrentHashMap<>();
        final Set<String> wanted = ConcurrentHashMap.newKeySet();
        volatile String state = "running";
        volatile boolean held;

        Operation(Map<String, Object> files) {
            this.files = files;
        }
    }

    final Map<String, Map<String, byte[]>> store = new ConcurrentHashMap<>(); // segment id to file name to content
    final Map<String, Operation> operations = new ConcurrentHashMap<>();
    final Set<String> ordered = ConcurrentHashMap.newKeySet(); // deletes in the journal
    final List<String> log = new CopyOnWriteArrayList<>();
    volatile Fault fault = (r, s) -> false;
    volatile String token = TOKEN;
    volatile byte[] customMetadata;
    volatile boolean stream; // can open no file
    volatile boolean holdCopies; // copies do not end
    volatile int connections;
    private final int port;
    private volatile ServerSocket server;
    private final List<ServerSocket> others = new CopyOnWriteArrayList<>();
    private final AtomicInteger unsent = new AtomicInteger(); // answers
    private final Set<Socket> open = ConcurrentHashMap.newKeySet();

    /** Ports that some test has had: one that is free since its daemon was killed is not for another daemon. Below those of outgoing connections. */
    private static final Set<Integer> PORTS = ConcurrentHashMap.newKeySet();

    FakeDaemon() throws IOException {
        server = listen();
        port = server.getLocalPort();
        accept(server);
    }

    /** Listens on a port that no other test gets, also when nobody listens on it for a while. */
    static ServerSocket listen() throws IOException {
        while (true) {
            int port = ThreadLocalRandom.current().nextInt(20_000, 32_000);
            if (PORTS.add(port)) {
                try {
                    return new ServerSocket(port, 50, InetAddress.getLoopbackAddress());
                } catch (BindException e) {
                    continue; // somebody else's
                }
            }
        }
    }

    /** Answers on another socket too, until it is killed. */
    void alsoOn(ServerSocket socket) {
        others.add(socket);
        accept(socket);
    }

    String url() {
        return "http://127.0.0.1:" + port;
    }

    /** Waits until every answer is on its way, whole. */
    void awaitSent() throws Exception {
        CopyTest.await(() -> unsent.get() == 0);
    }

    /** Ends as kill -9 does: what was known of operations is gone, what is stored is not. */
    void kill() throws IOException {
        server.close();
        for (ServerSocket s : others) {
            s.close();
        }
        for (Socket s : open) {
            try {
                s.setSoLinger(true, 0);
                s.close();
            } catch (SocketException e) {
                continue; // closed meanwhile
            }
        }
        operations.clear();
    }

    void restart() throws IOException, InterruptedException {
        for (int tries = 0; ; tries++) {
            try {
                server = new ServerSocket(port, 50, InetAddress.getLoopbackAddress());
                break;
            } catch (BindException e) {
                if (tries > 1000) {
                    throw e;
                }
                Thread.sleep(10); // a connection of the killed one is still on its way out
            }
        }
        accept(server);
    }

    @Override
    public void close() throws IOException {
        kill();
    }

    private void accept(ServerSocket on) {
        daemonThread(() -> {
            while (true) {
                Socket s;
                try {
                    s = on.accept();
                    open.add(s); // first: a kill that comes now closes it, or is seen here
                    if (on.isClosed()) { // an accept that waits may still get one
                        s.close();
                        return;
                    }
                } catch (IOException e) {
                    return;
                }
                connections++;
                daemonThread(() -> serve(s));
            }
        });
    }

    private static void daemonThread(Runnable r) {
        Thread t = new Thread(r, "fake-daemon");
        t.setDaemon(true);
        t.start();
    }

    private void serve(Socket s) {
        try (s) {
            s.setTcpNoDelay(true);
            InputStream in = new BufferedInputStream(s.getInputStream());
            for (Request r = read(in); r != null; r = read(in)) {
                log.add(r.method + " " + r.path);
                unsent.incrementAndGet();
                try {
                    if (!fault.handle(r, s)) {
                        answer(r, s);
                    }
                } finally {
                    unsent.decrementAndGet();
                }
                if (s.isClosed()) {
                    return;
                }
            }
        } catch (IOException | InterruptedException e) {
            // The test broke it, or has ended.
        } finally {
            open.remove(s);
        }
    }

    private static Request read(InputStream in) throws IOException {
        String first = line(in);
        if (first == null) {
            return null;
        }
        Map<String, String> headers = new LinkedHashMap<>();
        for (String l = line(in); l != null && !l.isEmpty(); l = line(in)) {
            headers.put(l.substring(0, l.indexOf(':')).toLowerCase(Locale.ROOT), l.substring(l.indexOf(':') + 1).trim());
        }
        byte[] body = in.readNBytes(Integer.parseInt(headers.getOrDefault("content-length", "0")));
        String[] words = first.split(" ");
        return new Request(words[0], words[1], headers, body);
    }

    private static String line(InputStream in) throws IOException {
        StringBuilder s = new StringBuilder();
        for (int b = in.read(); b != '\n'; b = in.read()) {
            if (b < 0) {
                if (s.length() > 0) {
                    throw new EOFException();
                }
                return null;
            }
            if (b != '\r') {
                s.append((char) b);
            }
        }
        return s.toString();
    }

    static void reply(Socket s, int status, byte[] body) throws IOException {
        head(s, status, body.length);
        s.getOutputStream().write(body);
    }

    /** A head alone, for bodies that do not fit it. */
    static void head(Socket s, int status, long length) throws IOException {
        OutputStream out = s.getOutputStream();
        out.write(("HTTP/1.1 " + status + " X\r\nTierkit-Protocol: 1\r\nContent-Length: " + length + "\r\n\r\n").getBytes(StandardCharsets.US_ASCII));
    }

    static void json(Socket s, int status, Map<String, Object> value) throws IOException {
        reply(s, status, Json.bytes(value));
    }

    static void error(Socket s, int status, String kind, boolean retriable) throws IOException {
        json(s, status, Map.of("error", Map.of("kind", kind, "message", "the test's " + kind, "retriable", retriable)));
    }

    void answer(Request r, Socket s) throws IOException, InterruptedException {
        if (!("Bearer " + token).equals(r.headers.get("authorization"))) {
            error(s, 403, "forbidden", false);
        } else if (r.path.equals("/v1/health")) {
            json(s, 200, Map.of("protocol", 1));
        } else if (r.path.equals("/v1/copies")) {
            json(s, 200, state(begin(r)));
        } else if (r.path.startsWith("/v1/copies/")) {
            copies(r, s);
        } else if (r.path.equals("/v1/fetch")) {
            fetch(r, s);
        } else if (r.path.startsWith("/v1/index/")) {
            index(r, s);
        } else if (r.path.equals("/v1/delete")) {
            delete(r, s);
        } else {
            error(s, 404, "unknown_path", false);
        }
    }

    private Operation begin(Request r) throws IOException {
        String id = r.segment();
        Operation known = operations.get(id);
        if (known != null) {
            return known;
        }
        @SuppressWarnings("unchecked")
        Map<String, Object> files = (Map<String, Object>) r.json().get("files");
        Operation op = new Operation(files);
        op.content.put("leader-epoch", Base64.getDecoder().decode((String) r.json().get("leaderEpochs")));
        op.held = holdCopies;
        for (Map.Entry<String, Object> e : files.entrySet()) {
            if (e.getValue() == null) {
                continue;
            }
            Map<?, ?> f = (Map<?, ?>) e.getValue();
            String name = name(e.getKey());
            if (stream) {
                op.wanted.add(name);
                continue;
            }
            Path path = Path.of((String) f.get("path"));
            Map<String, Object> a = Files.readAttributes(path, "unix:dev,ino,size");
            if (!a.get("dev").equals(f.get("device")) || !a.get("ino").equals(f.get("inode")) || !a.get("size").equals(f.get("size"))) {
                throw new IOException("another file: " + f + ", " + a);
            }
            op.content.put(name, Files.readAllBytes(path));
        }
        operations.put(id, op);
        end(id, op);
        return op;
    }

    private static String name(String key) {
        return switch (key) {
            case "log" -> "log";
            case "offsetIndex" -> "offset-index";
            case "timeIndex" -> "time-index";
            case "producerSnapshot" -> "producer-snapshot";
            default -> "transaction-index";
        };
    }

    private void end(String id, Operation op) {
        if (op.wanted.isEmpty() && !op.held && op.state.equals("running")) {
            store.put(id, Map.copyOf(op.content));
            op.state = "done";
        }
    }

    private Map<String, Object> state(Operation op) {
        Map<String, Object> m = new LinkedHashMap<>();
        if (!op.wanted.isEmpty() && op.state.equals("running")) {
            m.put("state", "wants");
            m.put("files", new ArrayList<>(op.wanted));
            return m;
        }
        m.put("state", op.state);
        if (op.state.equals("done")) {
            m.put("customMetadata", customMetadata == null ? null : Base64.getEncoder().encodeToString(customMetadata));
        }
        return m;
    }

    private void copies(Request r, Socket s) throws IOException, InterruptedException {
        String[] parts = r.path.substring("/v1/copies/".length()).split("[/?]");
        Operation op = operations.get(parts[0]);
        if (op == null) {
            error(s, 404, "unknown_operation", true);
            return;
        }
        switch (r.method) {
            case "GET" -> {
                for (int i = 0; i < 40 && op.state.equals("running") && op.wanted.isEmpty(); i++) {
                    Thread.sleep(10);
                }
                json(s, 200, state(op));
            }
            case "PUT" -> {
                String key = Arrays.stream(op.files.keySet().toArray(new String[0])).filter(k -> name(k).equals(parts[2])).findFirst().orElseThrow();
                if (!((Map<?, ?>) op.files.get(key)).get("size").equals((long) r.body.length)) {
                    error(s, 400, "invalid_argument", false);
                    return;
                }
                op.content.put(parts[2], r.body);
                op.wanted.remove(parts[2]);
                end(parts[0], op);
                s.getOutputStream().write("HTTP/1.1 204 X\r\nTierkit-Protocol: 1\r\n\r\n".getBytes(StandardCharsets.US_ASCII));
            }
            default -> {
                op.state = op.state.equals("running") ? "cancelled" : op.state;
                json(s, 202, Map.of());
            }
        }
    }

    private void fetch(Request r, Socket s) throws IOException {
        Map<String, byte[]> files = store.get(r.segment());
        if (files == null) {
            error(s, 404, "not_found", false);
            return;
        }
        byte[] log = files.get("log");
        int start = ((Long) r.json().get("start")).intValue();
        int end = (int) Math.min((Long) r.json().get("end"), log.length - 1);
        reply(s, 200, Arrays.copyOfRange(log, start, end + 1));
    }

    private void index(Request r, Socket s) throws IOException {
        Map<String, byte[]> files = store.get(r.segment());
        String type = r.path.substring("/v1/index/".length());
        byte[] index = files == null ? null : files.get(switch (type) {
            case "offset" -> "offset-index";
            case "timestamp" -> "time-index";
            case "transaction" -> "transaction-index";
            default -> type;
        });
        if (index == null) {
            error(s, 404, files == null ? "not_found" : "no_index", false);
            return;
        }
        reply(s, 200, index);
    }

    private void delete(Request r, Socket s) throws IOException {
        if (Boolean.TRUE.equals(r.json().get("journal"))) {
            ordered.add(r.segment());
            json(s, 202, Map.of("state", "journaled"));
            return;
        }
        store.remove(r.segment());
        json(s, 200, Map.of("state", "done"));
    }
}

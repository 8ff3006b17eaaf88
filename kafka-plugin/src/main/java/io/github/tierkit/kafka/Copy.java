package io.github.tierkit.kafka;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Base64;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.server.log.remote.storage.LogSegmentData;
import org.apache.kafka.server.log.remote.storage.RemoteLogSegmentMetadata;

/**
 * One copy. It is an operation of the daemon's that is begun by one request and asked about by others, so that a lost answer, a restart of the daemon
 * and an interrupt are all survived: none of the requests blocks for long.
 */
final class Copy {
    private static final int POLL_MS = 400;
    private static final long ANSWER_MS = 30_000; // of one request
    private static final long CREATE_READ_MS = 10_000; // the daemon opens five files, within 5 s
    private static final long READ_MS = 2500; // the daemon answers within 0.5 s; this long an interrupt may wait
    private static final long CANCEL_MS = 5000;
    /** A daemon that dies of a copy does so again: after so many times the copy fails, and the broker says so. */
    private static final int MOST_BEGINNINGS = 5;

    private final Client client;
    private final Retry retry;
    private final Uploads uploads;
    private final RemoteLogSegmentMetadata md;
    private final LogSegmentData data;
    private final Deadline deadline;
    private final long lostMs;
    private final Brake.Sleep sleep;
    private final String path;
    private final Map<String, Wanted> files = new LinkedHashMap<>();
    private byte[] begin;
    private int beginnings;
    private int brokenUploads;
    private long answered; // System.nanoTime() of the daemon's last answer
    private boolean asked; // the daemon may know of it
    private boolean ended; // nothing of it runs in the daemon, and nothing is left but what it returned

    /** A file of the segment, as it was when the copy began. */
    private static final class Wanted {
        final Path path;
        final long size;

        Wanted(Path path, long size) {
            this.path = path;
            this.size = size;
        }
    }

    Copy(Client client, Retry retry, Uploads uploads, RemoteLogSegmentMetadata md, LogSegmentData data, long timeoutMs, long lostMs, Brake.Sleep sleep) {
        this.client = client;
        this.retry = retry;
        this.uploads = uploads;
        this.md = md;
        this.data = data;
        this.deadline = Deadline.in(timeoutMs, CREATE_READ_MS);
        this.lostMs = lostMs;
        this.sleep = sleep;
        this.path = "/v1/copies/" + Segments.id(md);
    }

    /** Copies, and returns the custom metadata, null for none. An InterruptedException comes after the end of the copy, or 5 s. */
    byte[] run(Deletion deletion) throws Exception {
        begin = request();
        try {
            return poll();
        } catch (InterruptedException e) {
            cancel();
            throw e;
        } finally {
            if (asked && !ended) {
                boolean interrupted = Thread.interrupted();
                deletion.clear(md);
                if (interrupted) {
                    Thread.currentThread().interrupt();
                }
            }
        }
    }

    private byte[] request() throws IOException {
        Map<String, Object> described = new LinkedHashMap<>();
        described.put("log", describe("log", data.logSegment()));
        described.put("offsetIndex", describe("offset-index", data.offsetIndex()));
        described.put("timeIndex", describe("time-index", data.timeIndex()));
        described.put("producerSnapshot", describe("producer-snapshot", data.producerSnapshotIndex()));
        described.put("transactionIndex", data.transactionIndex().isPresent() ? describe("transaction-index", data.transactionIndex().get()) : null);
        ByteBuffer epochs = data.leaderEpochIndex().duplicate();
        byte[] bytes = new byte[epochs.remaining()];
        epochs.get(bytes);
        Map<String, Object> r = Segments.request(md);
        r.put("leaderEpochs", Base64.getEncoder().encodeToString(bytes));
        r.put("files", described);
        return Json.bytes(r);
    }

    private Map<String, Object> describe(String name, Path file) throws IOException {
        Map<String, Object> d = new LinkedHashMap<>();
        d.put("path", file.toAbsolutePath().toString());
        if (file.getFileSystem().supportedFileAttributeViews().contains("unix")) {
            Map<String, Object> a = Files.readAttributes(file, "unix:dev,ino,size");
            d.put("device", a.get("dev"));
            d.put("inode", a.get("ino"));
            d.put("size", a.get("size"));
        } else { // the daemon will ask for a stream
            d.put("device", 0);
            d.put("inode", 0);
            d.put("size", Files.size(file));
        }
        files.put(name, new Wanted(file, (Long) d.get("size")));
        return d;
    }

    /** Begins the copy and asks about it until it has ended, again and again while the daemon is lost. */
    private byte[] poll() throws IOException, InterruptedException {
        Backoff backoff = Retry.backoff();
        boolean begun = false;
        answered = System.nanoTime();
        while (true) {
            if (Thread.interrupted()) {
                throw new InterruptedException();
            }
            Client.check(deadline);
            long asked = System.nanoTime();
            try {
                boolean waited = begun; // the daemon answers at once that it has begun
                Map<String, Object> answer = begun ? state() : begin();
                begun = true;
                backoff.reset();
                if (ended(answer)) {
                    return customMetadata(answer);
                }
                if ("wants".equals(answer.get("state"))) {
                    send(answer.get("files"));
                } else if (waited) {
                    pause(asked);
                }
            } catch (IOException e) {
                begun = begun && !unknown(e);
                if (!unknown(e)) {
                    lost(e);
                    deadline.sleep(backoff.next());
                }
            }
        }
    }

    private Map<String, Object> begin() throws IOException {
        if (++beginnings > MOST_BEGINNINGS) {
            throw new DaemonException(DaemonException.UNKNOWN, "the daemon has lost the copy " + MOST_BEGINNINGS + " times: it ends or restarts again and again", false);
        }
        asked = true;
        try {
            return answer("POST", "/v1/copies", begin, deadline.part(ANSWER_MS, CREATE_READ_MS));
        } catch (IOException e) {
            if (Retry.lost(e)) {
                beginnings--; // it has not begun
            }
            throw e;
        }
    }

    private Map<String, Object> state() throws IOException {
        return answer("GET", path + "?waitMs=" + POLL_MS, null, deadline.part(ANSWER_MS, READ_MS));
    }

    private Map<String, Object> answer(String method, String to, byte[] body, Deadline within) throws IOException {
        Map<String, Object> a = client.call(method, to, body, within);
        answered = System.nanoTime();
        return a;
    }

    private static boolean unknown(IOException e) {
        return e instanceof DaemonException && ((DaemonException) e).is(DaemonException.UNKNOWN_OPERATION);
    }

    /** Throws what cannot be waited out. */
    private void lost(IOException e) throws IOException {
        if (!Retry.lost(e) || e instanceof Client.FileException || retry.closed()) {
            throw e;
        }
        if (TimeUnit.NANOSECONDS.toMillis(System.nanoTime() - answered) > lostMs) {
            throw new IOException("the daemon has not answered for " + lostMs + " ms: " + e.getMessage(), e);
        }
    }

    /** Whether the copy has ended well; if it has ended otherwise, throws. */
    private boolean ended(Map<String, Object> answer) throws DaemonException {
        Object state = answer.get("state");
        if ("done".equals(state)) {
            ended = true;
            return true;
        }
        if ("failed".equals(state)) {
            ended = true;
            throw DaemonException.of(answer.get("error"), "the daemon does not say why");
        }
        if ("cancelled".equals(state)) {
            ended = true;
            throw new DaemonException(DaemonException.UNKNOWN, "the copy was cancelled: nobody asked about it for too long, or its segment was deleted", false);
        }
        if (!"running".equals(state) && !"wants".equals(state)) {
            throw new DaemonException(DaemonException.UNKNOWN, "the daemon says of a copy that it is " + state, false);
        }
        return false;
    }

    private byte[] customMetadata(Map<String, Object> answer) throws DaemonException {
        Object cm = answer.get("customMetadata");
        if (cm == null) {
            return null;
        }
        try {
            return Base64.getDecoder().decode((String) cm);
        } catch (ClassCastException | IllegalArgumentException e) {
            ended = false; // without it the segment cannot be found again
            throw new DaemonException(DaemonException.UNKNOWN, "the daemon's custom metadata is not base64", false);
        }
    }

    /** The daemon waits before it says "running"; should it not, this does. */
    private void pause(long asked) throws InterruptedException {
        sleep.sleep(Math.max(0, POLL_MS / 4 - TimeUnit.NANOSECONDS.toMillis(System.nanoTime() - asked)));
    }

    /** Sends the files that the daemon cannot open itself, one after the other, and looks after the copy meanwhile. */
    private void send(Object names) throws IOException, InterruptedException {
        if (!(names instanceof List) || ((List<?>) names).isEmpty()) {
            throw new DaemonException(DaemonException.UNKNOWN, "the daemon wants files and does not say which", false);
        }
        for (Object name : (List<?>) names) {
            Wanted file = files.get(name);
            if (file == null) {
                throw new DaemonException(DaemonException.UNKNOWN, "the daemon wants a file that there is not: " + name, false);
            }
            upload(path + "/files/" + name, file);
        }
    }

    private void upload(String to, Wanted file) throws IOException, InterruptedException {
        try {
            uploads.send(to, file.path.toFile(), file.size, deadline, this::lookAfter);
        } catch (IOException e) {
            if (++brokenUploads >= MOST_BEGINNINGS) {
                throw new DaemonException(DaemonException.UNKNOWN, brokenUploads + " times a file did not reach the daemon: " + e.getMessage(), false);
            }
            throw e; // asking for the state tells why, or wants it again
        }
    }

    /** Asked while a file is on its way; throws when there is no copy any more that wants it. */
    private void lookAfter() throws IOException {
        try {
            ended(state());
        } catch (DaemonException e) {
            throw e;
        } catch (IOException e) {
            Client.check(deadline); // the upload will notice for itself
        }
    }

    /** Ends the copy in the daemon, and waits a little for that. */
    private void cancel() {
        if (!asked) {
            return;
        }
        Deadline soon = Deadline.in(CANCEL_MS);
        try {
            retry.run(soon, d -> client.call("DELETE", path, null, d));
            while (!soon.passed()) {
                Object state = client.call("GET", path + "?waitMs=" + POLL_MS, null, soon).get("state");
                if ("cancelled".equals(state) || "failed".equals(state)) {
                    ended = true;
                    return;
                }
                if ("done".equals(state)) {
                    return; // it is stored and nobody will know: to be deleted
                }
                soon.sleep(POLL_MS / 4);
            }
        } catch (IOException e) {
            ended = false; // perhaps it left something
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt(); // once more: the broker is in a hurry
        }
    }
}

package io.github.tierkit.kafka;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assertions.fail;

import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.FutureTask;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.concurrent.atomic.AtomicBoolean;
import org.apache.kafka.server.log.remote.storage.RemoteStorageException;
import org.apache.kafka.server.log.remote.storage.RemoteStorageManager.IndexType;
import org.apache.kafka.server.log.remote.storage.RetriableRemoteStorageException;
import org.junit.jupiter.api.DynamicTest;
import org.junit.jupiter.api.TestFactory;
import org.junit.jupiter.api.io.TempDir;

/** Each fault against each call: a right result or the exception that a broker expects, never later than promised, never a wrong byte. */
class FaultTest {
    /** On top of the deadline, for a machine that does much else. */
    private static final long SLACK_MS = 15_000;

    @TempDir
    Path dir;

    enum Want {
        GOOD,
        /** RemoteStorageException or IOException, and not the retriable one. */
        FAILS,
        /** The retriable exception, but of a copy. */
        PASSING,
    }

    /** What a broker does to an RSM. */
    enum Op {
        COPY, FETCH, INDEX, DELETE
    }

    /** Of a call that runs into it. */
    private static final long SHORT_MS = 3000;
    /** Of a call that gets its answer, if not at the first try; a try takes a quarter. */
    private static final long LONG_MS = 16_000;

    private interface Setup {
        void prepare(Bench b) throws Exception;
    }

    private record Case(String name, Want want, Setup setup, List<Op> ops) {
    }

    private static final List<Op> ALL = List.of(Op.values());
    private static final List<Op> READS = List.of(Op.FETCH, Op.INDEX);

    private static Setup always(FakeDaemon.Fault fault) {
        return b -> b.daemon.fault = fault;
    }

    private static Setup once(FakeDaemon.Fault fault) {
        AtomicBoolean done = new AtomicBoolean();
        return b -> b.daemon.fault = (r, s) -> done.compareAndSet(false, true) && fault.handle(r, s);
    }

    private static Map<String, Case> cases() {
        List<Case> list = new ArrayList<>();
        list.add(new Case("none", Want.GOOD, b -> { }, ALL));
        list.add(new Case("daemon down", Want.PASSING, b -> b.daemon.kill(), ALL));
        list.add(new Case("daemon restarted", Want.GOOD, FaultTest::restartSoon, ALL));
        list.add(new Case("daemon hangs", Want.PASSING, always(DeleteTest::hang), ALL));
        list.add(new Case("daemon hangs once", Want.GOOD, once(DeleteTest::hang), ALL));
        list.add(new Case("daemon slow", Want.GOOD, always((r, s) -> {
            Thread.sleep(200);
            return false;
        }), ALL));
        list.add(new Case("answer in single bytes for ever", Want.PASSING, b -> b.daemon.fault = (r, s) -> trickle(b, r, s), ALL));
        list.add(new Case("500 without a body", Want.FAILS, always((r, s) -> status(s, "500 Internal Server Error", "")), ALL));
        list.add(new Case("500 with text", Want.FAILS, always((r, s) -> reply(s, 500, "oops")), ALL));
        list.add(new Case("500 failed", Want.FAILS, always((r, s) -> error(s, 500, "failed", false)), ALL));
        list.add(new Case("corrupt", Want.FAILS, always((r, s) -> error(s, 500, "corrupt", false)), ALL));
        list.add(new Case("disk full", Want.PASSING, always((r, s) -> error(s, 503, "unavailable", true)), ALL));
        list.add(new Case("store unreachable", Want.PASSING, always((r, s) -> error(s, 504, "timeout", true)), ALL));
        list.add(new Case("late", Want.PASSING, always((r, s) -> error(s, 503, "late", true)), ALL));
        list.add(new Case("daemon leaves", Want.PASSING, always((r, s) -> error(s, 503, "closed", true)), ALL));
        list.add(new Case("token wrong", Want.FAILS, b -> b.daemon.token = "another", ALL));
        list.add(new Case("token changed", Want.GOOD, b -> {
            b.daemon.token = "changed";
            Files.writeString(b.dir.resolve("token"), "changed");
        }, ALL));
        list.add(new Case("not_found of another path", Want.FAILS, always((r, s) -> error(s, 404, "unknown_path", false)), ALL));
        list.add(new Case("closed without an answer", Want.PASSING, always((r, s) -> close(s)), ALL));
        list.add(new Case("closed without an answer once", Want.GOOD, once((r, s) -> close(s)), ALL));
        list.add(new Case("body cut", Want.PASSING, b -> b.daemon.fault = (r, s) -> cut(b, r, s, true), ALL));
        list.add(new Case("body cut once", Want.GOOD, b -> once((r, s) -> cut(b, r, s, true)).prepare(b), ALL));
        list.add(new Case("body short once", Want.GOOD, b -> once((r, s) -> cut(b, r, s, false)).prepare(b), ALL));
        list.add(new Case("body short of its Content-Length", Want.PASSING, b -> b.daemon.fault = (r, s) -> cut(b, r, s, false), ALL));
        list.add(new Case("reads cut in the middle, each time", Want.GOOD, b -> b.daemon.fault = (r, s) -> half(b, r, s), READS));
        list.add(new Case("an empty object for an answer", Want.FAILS, always((r, s) -> reply(s, 200, "{}")), List.of(Op.COPY, Op.FETCH, Op.DELETE)));
        list.add(new Case("answers too long", Want.FAILS, always((r, s) -> blob(s, 3 << 20)), List.of(Op.FETCH)));
        list.add(new Case("JSON too long", Want.PASSING, always((r, s) -> blob(s, 3 << 20)), List.of(Op.COPY, Op.DELETE)));
        list.add(new Case("a state that is none", Want.FAILS, always((r, s) -> reply(s, 200, "{\"state\":7}")), List.of(Op.COPY, Op.DELETE)));
        list.add(new Case("wants nothing", Want.FAILS, always((r, s) -> reply(s, 200, "{\"state\":\"wants\",\"files\":[]}")), List.of(Op.COPY)));
        list.add(new Case("wants what there is not", Want.FAILS, always((r, s) -> reply(s, 200, "{\"state\":\"wants\",\"files\":[\"transaction-index\"]}")), List.of(Op.COPY)));
        list.add(new Case("custom metadata that are none", Want.FAILS, always((r, s) -> reply(s, 200, "{\"state\":\"done\",\"customMetadata\":\"?\"}")), List.of(Op.COPY)));
        list.add(new Case("another program answers", Want.PASSING, always((r, s) -> raw(s, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")), ALL));
        list.add(new Case("no HTTP", Want.PASSING, always((r, s) -> raw(s, "SSH-2.0-OpenSSH_9\r\n") && close(s)), ALL));
        list.add(new Case("401", Want.FAILS, always((r, s) -> status(s, "401 Unauthorized", "WWW-Authenticate: Basic realm=\"x\"\r\n")), ALL));
        list.add(new Case("302", Want.FAILS, always((r, s) -> status(s, "302 Found", "Location: /v1/health\r\n")), ALL));
        list.add(new Case("chunked", Want.PASSING, always((r, s) -> raw(s, "HTTP/1.1 200 OK\r\nTierkit-Protocol: 1\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n")), ALL));
        Map<String, Case> named = new LinkedHashMap<>();
        for (Case c : list) {
            assertEquals(null, named.put(c.name, c));
        }
        return named;
    }

    private static void restartSoon(Bench b) throws IOException {
        b.daemon.kill();
        Thread t = new Thread(() -> {
            try {
                Thread.sleep(300);
                b.daemon.restart();
            } catch (IOException | InterruptedException e) {
                throw new IllegalStateException(e);
            }
        });
        t.setDaemon(true);
        t.start();
    }

    /** The right bytes, and far too slowly: each read gets something, and the whole never comes. */
    private static boolean trickle(Bench b, FakeDaemon.Request r, Socket s) throws IOException, InterruptedException {
        byte[] body = new byte[100_000];
        Arrays.fill(body, (byte) ' ');
        if (r.path().equals("/v1/fetch")) {
            int start = ((Long) r.json().get("start")).intValue();
            body = Arrays.copyOfRange(b.daemon.store.get(r.segment()).get("log"), start, start + length(r));
        } else if (r.path().startsWith("/v1/index/")) {
            body = b.daemon.store.get(r.segment()).get("offset-index");
        }
        FakeDaemon.head(s, 200, body.length);
        for (byte one : body) {
            s.getOutputStream().write(one);
            Thread.sleep(100);
        }
        return true;
    }

    private static int length(FakeDaemon.Request r) throws IOException {
        return (int) ((Long) r.json().get("end") - (Long) r.json().get("start") + 1);
    }

    private static boolean close(Socket s) throws IOException {
        s.close();
        return true;
    }

    private static boolean error(Socket s, int status, String kind, boolean retriable) throws IOException {
        FakeDaemon.error(s, status, kind, retriable);
        return true;
    }

    private static boolean reply(Socket s, int status, String body) throws IOException {
        FakeDaemon.reply(s, status, body.getBytes(StandardCharsets.US_ASCII));
        return true;
    }

    private static boolean blob(Socket s, int size) throws IOException {
        FakeDaemon.reply(s, 200, new byte[size]);
        return true;
    }

    private static boolean raw(Socket s, String text) throws IOException {
        s.getOutputStream().write(text.getBytes(StandardCharsets.US_ASCII));
        return true;
    }

    private static boolean status(Socket s, String status, String headers) throws IOException {
        return raw(s, "HTTP/1.1 " + status + "\r\nTierkit-Protocol: 1\r\n" + headers + "Content-Length: 0\r\n\r\n");
    }

    /** No byte of what was announced, and then the end, rude or clean. */
    private static boolean cut(Bench b, FakeDaemon.Request r, Socket s, boolean reset) throws IOException {
        int length = 100_000;
        if (r.path().equals("/v1/fetch")) {
            length = length(r);
        } else if (r.path().startsWith("/v1/index/")) {
            length = b.daemon.store.get(r.segment()).get("offset-index").length;
        }
        FakeDaemon.head(s, 200, length);
        s.setSoLinger(reset, 0);
        s.close();
        return true;
    }

    /** A clean end after half of the body, again and again: each time it goes on from there. */
    private static boolean half(Bench b, FakeDaemon.Request r, Socket s) throws IOException {
        Map<String, byte[]> files = b.daemon.store.get(r.segment());
        byte[] body = files.get("offset-index");
        if (r.path().equals("/v1/fetch")) {
            int start = ((Long) r.json().get("start")).intValue();
            body = Arrays.copyOfRange(files.get("log"), start, start + length(r));
        }
        FakeDaemon.head(s, 200, body.length);
        OutputStream out = s.getOutputStream();
        // At first less than half; the index is whole in the end, since it is always sent from its beginning.
        int sent = r.path().equals("/v1/fetch") ? (body.length + 1) / 2 : Math.min(body.length, 30 * b.daemon.log.size());
        out.write(body, 0, sent);
        if (sent < body.length) {
            s.close();
        }
        return true;
    }

    @TestFactory
    List<DynamicTest> table() {
        List<DynamicTest> tests = new ArrayList<>();
        for (Case c : cases().values()) {
            for (Op op : c.ops) {
                tests.add(DynamicTest.dynamicTest(c.name + ": " + op, () -> run(c, op)));
            }
        }
        return tests;
    }

    private void run(Case c, Op op) throws Exception {
        Path own = Files.createTempDirectory(dir, "case");
        long deadline = c.want == Want.PASSING ? SHORT_MS : LONG_MS;
        try (Bench b = new Bench(own).deadlines(deadline).with("tierkit.plugin.lost.timeout.ms", String.valueOf(deadline / 2)).configured()) {
            Sample s = new Sample(own, 3 << 20, false);
            if (op != Op.COPY) {
                s.into(b.daemon);
            }
            c.setup.prepare(b);
            FutureTask<Throwable> call = new FutureTask<>(() -> outcome(b, s, op));
            Thread t = new Thread(call, "a-thread-of-the-broker");
            t.setDaemon(true);
            t.start();
            Throwable got;
            try {
                got = call.get(deadline + SLACK_MS, TimeUnit.MILLISECONDS);
            } catch (TimeoutException e) {
                fail("still running: " + Arrays.toString(t.getStackTrace()));
                return;
            } catch (ExecutionException e) {
                throw new AssertionError(e.getCause());
            }
            judge(c, op, got);
        }
    }

    private static void judge(Case c, Op op, Throwable got) {
        if (c.want == Want.GOOD) {
            if (got != null) {
                throw new AssertionError(c.name + ": " + op, got);
            }
            return;
        }
        assertTrue(got instanceof RemoteStorageException || op != Op.COPY && op != Op.DELETE && got instanceof IOException, () -> c.name + ": " + op + ": got " + got);
        if (op == Op.COPY || c.want == Want.FAILS) {
            assertFalse(got instanceof RetriableRemoteStorageException, () -> c.name + ": " + op + ": got " + got);
        } else if (got instanceof RemoteStorageException) {
            assertInstanceOf(RetriableRemoteStorageException.class, got);
        }
    }

    /** What the call throws, null if it ends well. A wrong byte is neither. */
    private static Throwable outcome(Bench b, Sample s, Op op) throws Exception {
        try {
            switch (op) {
                case COPY -> {
                    b.rsm.copyLogSegmentData(s.md, s.data);
                    assertArrayEquals(s.log, b.daemon.store.get(s.id()).get("log"));
                }
                case FETCH -> check(s.log, b.rsm.fetchLogSegment(s.finished(), 0));
                case INDEX -> check(s.indexes.get(IndexType.OFFSET), b.rsm.fetchIndex(s.finished(), IndexType.OFFSET));
                default -> {
                    b.rsm.deleteLogSegmentData(s.finished());
                    assertFalse(b.daemon.store.containsKey(s.id()));
                }
            }
            return null;
        } catch (RemoteStorageException | IOException e) {
            return e;
        }
    }

    /** Reads as a broker does, and looks at each byte before the stream has a chance to fail. */
    private static void check(byte[] want, InputStream in) throws IOException {
        try (in) {
            byte[] buffer = new byte[100_000];
            int at = 0;
            for (int n = in.read(buffer); n >= 0; n = in.read(buffer)) {
                assertTrue(n > 0 && at + n <= want.length, "read " + n + " at " + at);
                assertArrayEquals(Arrays.copyOfRange(want, at, at + n), Arrays.copyOf(buffer, n));
                at += n;
            }
            assertEquals(want.length, at, "a short stream");
        }
    }
}

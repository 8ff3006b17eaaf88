package io.github.tierkit.kafka;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.io.InputStream;
import java.net.Socket;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Semaphore;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.kafka.server.log.remote.storage.RemoteResourceNotFoundException;
import org.apache.kafka.server.log.remote.storage.RemoteStorageException;
import org.apache.kafka.server.log.remote.storage.RemoteStorageManager.IndexType;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class KnownTest {
    private static final long MS = 1_000_000;

    @TempDir
    Path dir;

    private final AtomicLong now = new AtomicLong(Long.MAX_VALUE - 50 * MS); // it goes over the end, as System.nanoTime may
    private final AtomicInteger held = new AtomicInteger();
    private final Metrics metrics = new Metrics();
    private final Known known = new Known(new Brake(ms -> held.incrementAndGet(), () -> { }), metrics, now::get);
    private final AtomicInteger asked = new AtomicInteger();

    private static DaemonException failure(long retryAfterMs) {
        Map<String, Object> error = new HashMap<>();
        error.put("kind", "corrupt");
        error.put("message", "other bytes");
        error.put("retryAfterMs", retryAfterMs);
        return DaemonException.of(error, "");
    }

    private DaemonException fails(String segment, String what, long retryAfterMs) {
        return assertThrows(DaemonException.class, () -> known.ask(segment, what, () -> {
            asked.incrementAndGet();
            throw failure(retryAfterMs);
        }));
    }

    @Test
    void whatTheDaemonSaidIsSaidAgainForAsLongAsItWould() throws Exception {
        assertTrue(fails("a", "0", 100).getStackTrace().length > 0);
        now.addAndGet(99 * MS);
        for (int i = 0; i < 10; i++) {
            DaemonException again = fails("a", "0", 100);
            assertEquals("corrupt other bytes 0", again.kind + " " + again.getMessage() + " " + again.getStackTrace().length);
        }
        assertEquals("1 asked, 10 held, 10 counted", asked + " asked, " + held + " held, " + metrics.getFailuresRepeated() + " counted");
        fails("a", "1", 0); // another range
        fails("b", "0", 0); // another segment
        assertEquals(3, asked.get());
        now.addAndGet(MS);
        fails("a", "0", 200);
        now.addAndGet(199 * MS);
        fails("a", "0", 200);
        assertEquals(4, asked.get());
        now.addAndGet(MS);
        known.ask("a", "0", asked::incrementAndGet);
        known.ask("a", "0", asked::incrementAndGet);
        assertEquals(6, asked.get());
    }

    @Test
    void noLongerThanFiveSeconds() {
        fails("a", "0", Long.MAX_VALUE);
        now.addAndGet(5000 * MS);
        fails("a", "0", Long.MAX_VALUE);
        assertEquals(2, asked.get());
    }

    @Test
    void oneCallFindsOutWhetherItIsStillSo() throws Exception {
        fails("a", "0", 100);
        now.addAndGet(100 * MS);
        known.ask("a", "0", () -> {
            fails("a", "0", 100); // meanwhile
            assertEquals(1, asked.get());
            return null;
        });
        known.ask("a", "0", asked::incrementAndGet);
        assertEquals(2, asked.get());
        // One that gets no answer leaves it to the next.
        fails("a", "0", 100);
        now.addAndGet(100 * MS);
        assertThrows(IOException.class, () -> known.ask("a", "0", () -> {
            throw new IOException("lost");
        }));
        known.ask("a", "0", asked::incrementAndGet);
        assertEquals(4, asked.get());
    }

    @Test
    void aSegmentIsForgotten() throws Exception {
        fails("a", "0", 100);
        fails("a", "OFFSET", 100);
        fails("b", "0", 100);
        known.forget("a");
        known.ask("a", "0", asked::incrementAndGet);
        known.ask("a", "OFFSET", asked::incrementAndGet);
        assertEquals(5, asked.get());
        fails("b", "0", 100);
        assertEquals(5, asked.get());
    }

    @Test
    void thereAreNotMoreAndMore() throws Exception {
        for (int i = 0; i < 5000; i++) {
            fails("a", String.valueOf(i), 100);
        }
        known.ask("a", "4999", asked::incrementAndGet); // had no room
        assertEquals(5001, asked.get());
        now.addAndGet(100 * MS);
        fails("b", "0", 100);
        fails("b", "0", 100);
        assertEquals(5002, asked.get());
    }

    @Test
    void noneIsHeldForLong() throws Exception {
        AtomicLong longest = new AtomicLong();
        new Brake(longest::set, () -> { }).hold(System.nanoTime());
        assertTrue(longest.get() <= 200, () -> "held for " + longest);
        new Brake(ms -> longest.set(-1), () -> { }).hold(System.nanoTime() - 200 * MS);
        assertTrue(longest.get() >= 0, "a call that took its time already was held");
    }

    /** Ten of a broker's readers at the same moment: two are held, the others are answered as soon as no other thread has work. */
    @Test
    void twoAreHeld() throws Exception {
        Semaphore sleeping = new Semaphore(0);
        CountDownLatch wake = new CountDownLatch(1);
        CountDownLatch answered = new CountDownLatch(8);
        CountDownLatch all = new CountDownLatch(10);
        AtomicInteger yielded = new AtomicInteger();
        Brake brake = new Brake(ms -> {
            sleeping.release();
            wake.await();
        }, yielded::incrementAndGet);
        ExecutorService readers = Executors.newFixedThreadPool(10);
        try {
            for (int i = 0; i < 10; i++) {
                readers.submit(() -> {
                    brake.hold(System.nanoTime() + 60_000 * MS); // as if it began later: a slow machine holds all the same
                    all.countDown();
                    answered.countDown(); // last: whoever waits for it looks at the others
                    return null;
                });
            }
            sleeping.acquire(2);
            answered.await();
            assertEquals("2 held, 8 after all other threads", all.getCount() + " held, " + yielded + " after all other threads");
        } finally {
            wake.countDown();
            readers.shutdown();
        }
        all.await();
    }

    /** What fails in the middle of a stream is asked for again from there, by every reader that comes to it. */
    @Test
    void aFailureInTheMiddleIsKnownToo() throws Exception {
        try (Bench b = new Bench(dir).configured()) {
            Sample s = new Sample(dir, 3 << 20, false);
            s.into(b.daemon);
            AtomicInteger middle = new AtomicInteger();
            b.daemon.fault = (r, socket) -> r.path().equals("/v1/fetch") && (Long) r.json().get("start") > 0 && middle.incrementAndGet() > 0 && refuse(socket);
            try (InputStream in = b.rsm.fetchLogSegment(s.finished(), 0)) {
                in.skipNBytes(SegmentStream.FIRST_WINDOW);
                for (int i = 0; i < 3; i++) {
                    assertThrows(IOException.class, () -> in.read());
                }
            }
            assertEquals(1, middle.get());
        }
    }

    @Test
    void theBrokerSeesTheSameExceptionWithoutATrace() throws Exception {
        try (Bench b = new Bench(dir).configured()) {
            Sample s = new Sample(dir, 1000, false);
            s.into(b.daemon);
            b.daemon.fault = (r, socket) -> "client".equals(r.headers().get("tierkit-holds")) && refuse(socket);
            RemoteStorageException first = assertThrows(RemoteStorageException.class, () -> b.rsm.fetchLogSegment(s.finished(), 0));
            RemoteStorageException again = assertThrows(RemoteStorageException.class, () -> b.rsm.fetchLogSegment(s.finished(), 0));
            assertInstanceOf(RemoteResourceNotFoundException.class, again);
            assertTrue(first.getMessage().endsWith(": gone") && first.getStackTrace().length > 0, first::getMessage);
            assertTrue(again.getMessage().contains(s.id()) && again.getMessage().contains("not_found"), again::getMessage);
            assertEquals("0 null", again.getStackTrace().length + " " + again.getCause());
            assertSame(again, assertThrows(RemoteStorageException.class, () -> b.rsm.fetchLogSegment(s.finished(), 0)), "another one would cost more");
            assertEquals(1, b.daemon.log.size());
            assertThrows(RemoteStorageException.class, () -> b.rsm.fetchIndex(s.finished(), IndexType.OFFSET)); // is another question
            assertEquals(2, b.daemon.log.size());
            b.daemon.fault = (r, socket) -> false;
            b.rsm.deleteLogSegmentData(s.finished());
            s.into(b.daemon);
            b.rsm.fetchLogSegment(s.finished(), 0).close();
        }
    }

    private static boolean refuse(Socket s) throws IOException {
        FakeDaemon.reply(s, 404, "{\"error\":{\"kind\":\"not_found\",\"message\":\"gone\",\"retriable\":false,\"retryAfterMs\":3600000}}".getBytes("US-ASCII"));
        return true;
    }
}

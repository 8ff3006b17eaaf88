package io.github.tierkit.kafka;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.File;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.FutureTask;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.kafka.server.log.remote.storage.RemoteStorageException;
import org.apache.kafka.server.log.remote.storage.RetriableRemoteStorageException;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class CopyTest {
    @TempDir
    Path dir;

    /** A copy on a thread that can be interrupted. */
    private static final class Running {
        final AtomicBoolean flag = new AtomicBoolean();
        final FutureTask<Throwable> task;
        final Thread thread;

        Running(Bench b, Sample s) {
            task = new FutureTask<>(() -> {
                try {
                    b.rsm.copyLogSegmentData(s.md, s.data);
                    return null;
                } catch (RemoteStorageException e) {
                    return e;
                } finally {
                    flag.set(Thread.currentThread().isInterrupted());
                }
            });
            thread = new Thread(task, "kafka-rlm-copy-thread-pool-0");
            thread.setDaemon(true);
            thread.start();
        }

        Throwable result() throws Exception {
            return task.get(60, TimeUnit.SECONDS);
        }
    }

    static void await(Callable<Boolean> condition) throws Exception {
        long end = System.nanoTime() + TimeUnit.SECONDS.toNanos(60);
        while (!condition.call()) {
            assertTrue(System.nanoTime() < end, "it does not come");
            Thread.sleep(5);
        }
    }

    @Test
    void anInterruptCancelsAndKeepsTheFlag() throws Exception {
        try (Bench b = new Bench(dir).configured()) {
            b.daemon.holdCopies = true;
            Sample s = new Sample(dir, 1000, false);
            Running copy = new Running(b, s);
            await(() -> b.daemon.operations.containsKey(s.id()));
            copy.thread.interrupt();
            assertInstanceOf(RemoteStorageException.class, copy.result());
            assertTrue(copy.flag.get(), "the interrupt flag is set again");
            assertEquals("cancelled", b.daemon.operations.get(s.id()).state);
            assertFalse(b.daemon.ordered.contains(s.id()), "nothing is left that had to be deleted");
        }
    }

    /** It ended just then: the broker does not know of the segment and 4.x does not ask for it to be deleted. */
    @Test
    void anInterruptAfterTheEndDeletes() throws Exception {
        try (Bench b = new Bench(dir).configured()) {
            b.daemon.holdCopies = true;
            b.daemon.fault = (r, s) -> {
                if (r.method().equals("DELETE")) {
                    b.daemon.operations.values().forEach(op -> op.state = "done");
                }
                return false;
            };
            Sample s = new Sample(dir, 1000, false);
            Running copy = new Running(b, s);
            await(() -> b.daemon.operations.containsKey(s.id()));
            copy.thread.interrupt();
            assertInstanceOf(RemoteStorageException.class, copy.result());
            assertTrue(copy.flag.get());
            await(() -> b.daemon.ordered.contains(s.id())); // to be deleted; the copy waits less than a second for the answer
        }
    }

    @Test
    void anInterruptOfACopyWhoseDaemonIsGoneWritesTheJournal() throws Exception {
        anInterruptWritesTheJournal(b -> b.daemon.kill());
    }

    /** The broker waits for the thread: a daemon that hangs does not keep it until the copy's deadline. */
    @Test
    void anInterruptOfACopyWhoseDaemonHangsWritesTheJournal() throws Exception {
        anInterruptWritesTheJournal(b -> b.daemon.fault = DeleteTest::hang);
    }

    private interface Loss {
        void of(Bench b) throws Exception;
    }

    private void anInterruptWritesTheJournal(Loss loss) throws Exception {
        try (Bench b = new Bench(dir).configured()) {
            b.daemon.holdCopies = true;
            Path journal = b.journal();
            Sample s = new Sample(dir, 1000, false);
            Running copy = new Running(b, s);
            await(() -> b.daemon.operations.containsKey(s.id()));
            loss.of(b);
            copy.thread.interrupt();
            assertInstanceOf(RemoteStorageException.class, copy.result());
            assertTrue(copy.flag.get());
            assertTrue(Files.exists(journal.resolve(s.id() + ".json")));
        }
    }

    @Test
    void anInterruptBeforehandTouchesNothing() throws Exception {
        try (Bench b = new Bench(dir).configured()) {
            Sample s = new Sample(dir, 1000, false);
            Thread.currentThread().interrupt();
            assertThrows(RemoteStorageException.class, () -> b.rsm.copyLogSegmentData(s.md, s.data));
            assertTrue(Thread.interrupted());
            assertTrue(b.daemon.log.isEmpty(), () -> b.daemon.log.toString());
        }
    }

    @Test
    void aLostDaemonFailsTheCopyAndWritesTheJournal() throws Exception {
        try (Bench b = new Bench(dir).with("tierkit.plugin.lost.timeout.ms", "1500").configured()) {
            b.daemon.holdCopies = true;
            Path journal = b.journal();
            Sample s = new Sample(dir, 1000, false);
            Running copy = new Running(b, s);
            await(() -> b.daemon.operations.containsKey(s.id()));
            b.daemon.kill();
            Throwable e = copy.result();
            assertEquals(RemoteStorageException.class, e.getClass());
            assertTrue(e.getMessage().contains("has not answered for 1500 ms"), e.getMessage());
            assertTrue(Files.exists(journal.resolve(s.id() + ".json")));
        }
    }

    @Test
    void aRestartedDaemonBeginsAnew() throws Exception {
        try (Bench b = new Bench(dir).configured()) {
            b.daemon.holdCopies = true;
            Sample s = new Sample(dir, 1000, false);
            Running copy = new Running(b, s);
            await(() -> b.daemon.operations.containsKey(s.id()));
            b.daemon.kill();
            b.daemon.holdCopies = false;
            b.daemon.restart();
            assertEquals(null, copy.result());
            assertArrayEquals(s.log, b.daemon.store.get(s.id()).get("log"));
        }
    }

    @Test
    void aDaemonThatDiesOfACopyIsNotAskedForEver() throws Exception {
        try (Bench b = new Bench(dir).configured()) {
            b.daemon.holdCopies = true;
            b.daemon.fault = (r, s) -> {
                if (r.method().equals("GET")) {
                    b.daemon.operations.clear();
                }
                return false;
            };
            Sample s = new Sample(dir, 1000, false);
            Throwable e = new Running(b, s).result();
            assertEquals(RemoteStorageException.class, e.getClass());
            assertTrue(e.getMessage().contains("again and again"), e.getMessage());
            assertEquals(5, b.daemon.log.stream().filter("POST /v1/copies"::equals).count());
        }
    }

    @Test
    void aCopyThatDoesNotEndFailsAtItsDeadline() throws Exception {
        try (Bench b = new Bench(dir).with("tierkit.plugin.copy.timeout.ms", "1500").configured()) {
            b.daemon.holdCopies = true;
            Sample s = new Sample(dir, 1000, false);
            assertEquals(RemoteStorageException.class, new Running(b, s).result().getClass());
            await(() -> b.daemon.ordered.contains(s.id())); // to be deleted; the copy waits less than a second for the answer
        }
    }

    @Test
    void failuresAreNeverRetriable() throws Exception {
        try (Bench b = new Bench(dir).configured()) {
            b.daemon.fault = (r, s) -> {
                FakeDaemon.reply(s, 200, "{\"state\":\"failed\",\"error\":{\"kind\":\"unavailable\",\"message\":\"no bucket today\",\"retriable\":true}}".getBytes());
                return true;
            };
            Sample s = new Sample(dir, 1000, false);
            RemoteStorageException e = assertThrows(RemoteStorageException.class, () -> b.rsm.copyLogSegmentData(s.md, s.data));
            assertFalse(e instanceof RetriableRemoteStorageException);
            assertTrue(e.getMessage().contains("no bucket today"), e.getMessage());
            assertEquals(1, b.daemon.log.size(), "the daemon has cleaned up: " + b.daemon.log);
        }
    }

    @Test
    void aFileThatIsGoneOrShrankFailsTheCopy() throws Exception {
        for (boolean gone : new boolean[] {true, false}) {
            Path own = Files.createTempDirectory(dir, "case");
            try (Bench b = new Bench(own).configured()) {
                b.daemon.stream = true;
                Sample s = new Sample(own, 1000, false);
                b.daemon.fault = (r, socket) -> {
                    if (r.path().equals("/v1/copies")) {
                        File log = s.data.logSegment().toFile();
                        assertTrue(gone ? log.delete() : log.exists());
                        if (!gone) {
                            Files.write(log.toPath(), new byte[10]);
                        }
                    }
                    return false;
                };
                RemoteStorageException e = assertThrows(RemoteStorageException.class, () -> b.rsm.copyLogSegmentData(s.md, s.data));
                assertTrue(e.getMessage().contains(gone ? "FileNotFoundException" : "shorter"), e.getMessage());
                await(() -> b.daemon.ordered.contains(s.id())); // to be deleted: the copy does not go on
            }
        }
    }

    @Test
    void uploadsThatNeverArriveFailTheCopy() throws Exception {
        try (Bench b = new Bench(dir).configured()) {
            b.daemon.stream = true;
            AtomicInteger puts = new AtomicInteger();
            b.daemon.fault = (r, s) -> {
                if (r.method().equals("PUT")) {
                    puts.incrementAndGet();
                    s.close();
                    return true;
                }
                return false;
            };
            Sample s = new Sample(dir, 1000, false);
            assertThrows(RemoteStorageException.class, () -> b.rsm.copyLogSegmentData(s.md, s.data));
            assertEquals(5, puts.get());
        }
    }

    /** A pause after the first answer would be one of every copy. One after "running" keeps off a daemon that answers without waiting. */
    @Test
    void aCopyThatHasBegunIsAskedAboutAtOnce() throws Exception {
        try (Bench b = new Bench(dir)) {
            AtomicInteger states = new AtomicInteger();
            b.daemon.holdCopies = true;
            b.daemon.fault = (r, s) -> {
                if (!r.method().equals("GET")) {
                    return false;
                }
                FakeDaemon.json(s, 200, Map.of("state", states.incrementAndGet() < 3 ? "running" : "done"));
                return true;
            };
            Metrics metrics = new Metrics();
            Client client = new Client(new ForeignDaemon(b.daemon.url(), dir.resolve("token"), null), metrics);
            Retry retry = new Retry(metrics);
            Sample s = new Sample(dir, 1000, false);
            try (Uploads uploads = new Uploads(client, metrics)) {
                new Copy(client, retry, uploads, s.md, s.data, 120_000, 120_000, ms -> b.daemon.log.add("pause")).run(new Deletion(client, retry, null, 120_000));
            }
            String state = "GET /v1/copies/" + s.id() + "?waitMs=400";
            assertEquals(List.of("POST /v1/copies", state, "pause", state, "pause", state), b.daemon.log);
        }
    }

    @Test
    void customMetadataThatABrokerRefusesAreCounted() throws Exception {
        try (Bench b = new Bench(dir).with("tierkit.plugin.custom.metadata.max.bytes", "4").configured()) {
            Sample s = new Sample(dir, 10, false);
            b.daemon.customMetadata = new byte[4];
            b.rsm.copyLogSegmentData(s.md, s.data);
            assertEquals(0L, MetricsTest.attribute(b, "CustomMetadataTooLong"));
            b.daemon.operations.clear();
            b.daemon.customMetadata = new byte[5];
            assertEquals(5, b.rsm.copyLogSegmentData(s.md, s.data).orElseThrow().value().length);
            assertEquals(1L, MetricsTest.attribute(b, "CustomMetadataTooLong"));
            assertEquals(5L, MetricsTest.attribute(b, "CustomMetadataLongestBytes"));
        }
    }

    @Test
    void tenAtOnce() throws Exception {
        try (Bench b = new Bench(dir).configured()) {
            ExecutorService pool = Executors.newFixedThreadPool(10);
            List<Future<Sample>> running = new ArrayList<>();
            for (int i = 0; i < 20; i++) {
                Path own = Files.createDirectories(dir.resolve("log" + i));
                running.add(pool.submit(() -> {
                    Sample s = new Sample(own, 300_000, true);
                    b.rsm.copyLogSegmentData(s.md, s.data);
                    return s;
                }));
            }
            for (Future<Sample> f : running) {
                Sample s = f.get(60, TimeUnit.SECONDS);
                assertArrayEquals(s.log, b.daemon.store.get(s.id()).get("log"));
            }
            pool.shutdown();
        }
    }

    @Test
    void noHandOnFilesThatCannotBeRead() throws IOException {
        try (Bench b = new Bench(dir).configured()) {
            Sample s = new Sample(dir, 10, false);
            assertTrue(s.data.offsetIndex().toFile().delete());
            assertThrows(RemoteStorageException.class, () -> b.rsm.copyLogSegmentData(s.md, s.data));
            assertTrue(b.daemon.log.isEmpty(), () -> b.daemon.log.toString());
        }
    }
}

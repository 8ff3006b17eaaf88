package io.github.tierkit.kafka;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.net.Socket;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.FutureTask;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.apache.kafka.server.log.remote.storage.RemoteStorageException;
import org.apache.kafka.server.log.remote.storage.RetriableRemoteStorageException;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

class DeleteTest {
    private static final String LOADER = "kafka-1-metadata-loader-event-handler";
    private static final String EXPIRATION = "kafka-rlm-expiration-thread-pool-3";

    @TempDir
    Path dir;

    /** What a delete on a thread of that name throws, null if nothing. */
    private static Throwable delete(Bench b, Sample s, String thread) throws Exception {
        FutureTask<Throwable> task = new FutureTask<>(() -> {
            try {
                b.rsm.deleteLogSegmentData(s.finished());
                return null;
            } catch (RemoteStorageException e) {
                return e;
            }
        });
        Thread t = new Thread(task, thread);
        t.setDaemon(true);
        t.start();
        return task.get(60, TimeUnit.SECONDS);
    }

    static boolean hang(FakeDaemon.Request r, Socket s) throws InterruptedException {
        while (!s.isClosed()) {
            Thread.sleep(20);
        }
        return true;
    }

    @ParameterizedTest
    @ValueSource(strings = {LOADER, "data-plane-kafka-request-handler-7", "control-plane-kafka-request-handler-0"})
    void whereNobodyMayWaitItIsOrdered(String thread) throws Exception {
        try (Bench b = new Bench(dir).configured()) {
            Sample s = new Sample(dir, 10, false);
            s.into(b.daemon);
            b.journal(); // a daemon that needs more than 900 ms to answer is not asked again
            assertNull(delete(b, s, thread));
            CopyTest.await(() -> b.daemon.ordered.contains(s.id()));
            assertEquals(List.of("POST /v1/delete"), b.daemon.log);
        }
    }

    @ParameterizedTest
    @ValueSource(strings = {EXPIRATION, "kafka-rlm-copy-thread-pool-1", "some-other-thread"})
    void elsewhereItIsWaitedFor(String thread) throws Exception {
        try (Bench b = new Bench(dir).configured()) {
            Sample s = new Sample(dir, 10, false);
            s.into(b.daemon);
            AtomicInteger polls = new AtomicInteger();
            b.daemon.fault = (r, socket) -> {
                assertEquals(false, r.json().get("journal"));
                if (polls.incrementAndGet() < 4) {
                    FakeDaemon.json(socket, 200, Map.of("state", "running"));
                    return true;
                }
                return false;
            };
            assertNull(delete(b, s, thread));
            assertFalse(b.daemon.store.containsKey(s.id()));
            assertEquals(4, polls.get());
            b.daemon.fault = (r, socket) -> {
                FakeDaemon.error(socket, 503, "unavailable", true);
                return true;
            };
            assertInstanceOf(RetriableRemoteStorageException.class, delete(b, s, thread));
        }
    }

    @Test
    void aDeleteThatRunsOnForEverFails() throws Exception {
        try (Bench b = new Bench(dir).deadlines(3000).configured()) {
            Sample s = new Sample(dir, 10, false);
            b.daemon.fault = (r, socket) -> {
                FakeDaemon.json(socket, 200, Map.of("state", "running"));
                return true;
            };
            assertInstanceOf(RemoteStorageException.class, delete(b, s, EXPIRATION));
            assertTrue(b.daemon.log.size() < 100, "asked " + b.daemon.log.size() + " times in 3 s");
        }
    }

    @Test
    void whileTheDaemonHangsThePluginWritesTheJournal() throws Exception {
        try (Bench b = new Bench(dir).configured()) {
            Path journal = b.journal();
            b.daemon.fault = DeleteTest::hang;
            Sample first = new Sample(dir, 10, false);
            assertNull(delete(b, first, LOADER));
            // The file is the API's.
            Map<String, Object> order = Json.object(Files.readAllBytes(journal.resolve(first.id() + ".json")));
            assertEquals(Map.of("version", 1L, "segment", Json.object(Json.bytes(Segments.json(first.finished())))), order);
            // A topic has thousands of segments: the daemon is not asked for each.
            int asked = b.daemon.log.size();
            long began = System.nanoTime();
            for (int i = 0; i < 100; i++) {
                assertNull(delete(b, new Sample(dir, 10, false), LOADER));
            }
            long seconds = TimeUnit.NANOSECONDS.toSeconds(System.nanoTime() - began);
            assertTrue(b.daemon.log.size() <= asked + 2 + seconds / 5, "asked " + b.daemon.log.size() + " times in " + seconds + " s");
            try (Stream<Path> files = Files.list(journal)) {
                List<Path> all = files.collect(Collectors.toList());
                assertEquals(101, all.size());
                assertTrue(all.stream().allMatch(f -> f.toString().endsWith(".json")), all::toString);
            }
            assertNull(delete(b, first, LOADER), "once more is the same");
        }
    }

    @Test
    void whereTheJournalCannotBeWrittenTheDeleteIsDone() throws Exception {
        try (Bench b = new Bench(dir).configured()) { // the directory is not there, and not ours to make
            Sample s = new Sample(dir, 10, false);
            s.into(b.daemon);
            b.daemon.fault = (r, socket) -> {
                if (Boolean.TRUE.equals(r.json().get("journal"))) {
                    FakeDaemon.error(socket, 503, "unavailable", true); // the disk is full
                    return true;
                }
                return false;
            };
            assertNull(delete(b, s, LOADER));
            assertFalse(b.daemon.store.containsKey(s.id()));
        }
    }

    @Test
    void neitherOrderedNorDoneIsAFailure() throws Exception {
        try (Bench b = new Bench(dir).deadlines(3000).configured()) {
            Sample s = new Sample(dir, 10, false);
            b.daemon.kill();
            assertInstanceOf(RemoteStorageException.class, delete(b, s, LOADER), "neither ordered nor done");
        }
    }

    @Test
    void withoutAStateDirectoryTooTheDeleteIsOrderedOrDone() throws Exception {
        try (Bench b = new Bench(dir)) {
            b.settings.remove("tierkit.state.dir");
            b.configured();
            Sample s = new Sample(dir, 10, false);
            assertNull(delete(b, s, LOADER));
            CopyTest.await(() -> b.daemon.ordered.contains(s.id()));
        }
    }

    /** 3.9 brokers delete right after they interrupted a copy, on the same thread. */
    @Test
    void anInterruptBeforehandDoesNotKeepItFromDeleting() throws Exception {
        try (Bench b = new Bench(dir).configured()) {
            Sample s = new Sample(dir, 10, false);
            s.into(b.daemon);
            Thread.currentThread().interrupt();
            b.rsm.deleteLogSegmentData(s.finished());
            assertTrue(Thread.interrupted(), "the flag is set again");
            assertFalse(b.daemon.store.containsKey(s.id()));
        }
    }

    @Test
    void anInterruptMeanwhileEndsIt() throws Exception {
        try (Bench b = new Bench(dir).configured()) {
            b.daemon.kill();
            Sample s = new Sample(dir, 10, false);
            FutureTask<Boolean> task = new FutureTask<>(() -> {
                try {
                    b.rsm.deleteLogSegmentData(s.finished());
                    return false;
                } catch (RemoteStorageException e) {
                    return Thread.currentThread().isInterrupted();
                }
            });
            Thread t = new Thread(task, EXPIRATION);
            t.start();
            CopyTest.await(() -> t.getState() == Thread.State.TIMED_WAITING);
            t.interrupt();
            assertTrue(task.get(60, TimeUnit.SECONDS), "failed, with the flag set");
        }
    }

    @Test
    void theJournalIsWrittenUnderAnInterrupt() throws Exception {
        Sample s = new Sample(dir, 10, false);
        Path journal = dir.resolve("a/broker-1/deletes");
        Metrics metrics = new Metrics();
        Thread.currentThread().interrupt();
        new Journal(journal, true, metrics).write(s.md);
        assertTrue(Thread.interrupted());
        assertTrue(Files.exists(journal.resolve(s.id() + ".json")));
        assertEquals(1, metrics.journalEntries.sum());
        assertEquals("rwx------", PosixFilePermissions.toString(Files.getPosixFilePermissions(journal)));
    }

    /** The thread that orders deletes applies cluster metadata: it must not hang with a disk, nor may threads pile up behind it. */
    @Test
    @Timeout(60)
    void aDiskThatHangsHoldsNobody() throws Exception {
        Sample s = new Sample(dir, 10, false);
        CountDownLatch answers = new CountDownLatch(1);
        AtomicInteger begun = new AtomicInteger();
        Journal journal = new Journal(dir, false, new Metrics()) {
            @Override
            void put(String id, byte[] text) throws IOException {
                begun.incrementAndGet();
                try {
                    answers.await();
                } catch (InterruptedException e) {
                    throw new IOException(e);
                }
            }
        };
        List<Thread> callers = new ArrayList<>();
        AtomicInteger failed = new AtomicInteger();
        for (int i = 0; i < Journal.MAX_SLOW + 5; i++) {
            Thread t = new Thread(() -> {
                try {
                    journal.write(s.md);
                } catch (IOException e) {
                    failed.incrementAndGet();
                }
            });
            callers.add(t);
            t.start();
        }
        for (Thread t : callers) {
            t.join();
        }
        assertEquals(callers.size(), failed.get());
        assertEquals(Journal.MAX_SLOW, begun.get());
        answers.countDown();
    }

    @Test
    void noHalfEntryStays() throws Exception {
        Sample s = new Sample(dir, 10, false);
        Path journal = Files.createDirectories(dir.resolve("deletes"));
        Files.createDirectories(journal.resolve(s.id() + ".json/in-the-way")); // so that the rename fails
        assertThrows(IOException.class, () -> new Journal(journal, true, new Metrics()).write(s.md));
        try (Stream<Path> files = Files.list(journal)) {
            assertEquals(1, files.count());
        }
    }
}

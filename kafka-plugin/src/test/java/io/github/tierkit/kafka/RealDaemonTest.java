package io.github.tierkit.kafka;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStream;
import java.io.InputStreamReader;
import java.nio.file.FileVisitResult;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.nio.file.SimpleFileVisitor;
import java.nio.file.attribute.BasicFileAttributes;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.FutureTask;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.stream.Collectors;
import org.apache.kafka.common.config.ConfigException;
import org.apache.kafka.server.log.remote.storage.RemoteLogSegmentMetadata;
import org.apache.kafka.server.log.remote.storage.RemoteLogSegmentMetadata.CustomMetadata;
import org.apache.kafka.server.log.remote.storage.RemoteResourceNotFoundException;
import org.apache.kafka.server.log.remote.storage.RemoteStorageException;
import org.apache.kafka.server.log.remote.storage.RemoteStorageManager.IndexType;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.condition.EnabledIfSystemProperty;
import org.junit.jupiter.api.io.TempDir;

/** Against tierkit itself, as it is started for a broker. The Go tests say where it is, and look that these do run. */
@EnabledIfSystemProperty(named = "tierkit", matches = ".+")
class RealDaemonTest {
    @TempDir
    Path dir;

    private Path store;
    private Path program;

    @BeforeEach
    void ownProgram() throws IOException {
        store = Files.createDirectories(dir.resolve("store"));
        // A name of its own tells its processes from those of tests that run at the same time.
        program = Files.createLink(dir.resolve("tierkit-of-this-test"), Path.of(System.getProperty("tierkit")));
    }

    /** As an operator writes them who comes from Aiven's plug-in: its lines, and two of ours. */
    private Map<String, Object> settings() {
        Map<String, Object> m = new HashMap<>();
        m.put("broker.id", 1);
        m.put("tierkit.serve.command", "\"" + program + "\"");
        m.put("tierkit.state.dir", dir.resolve("state").toString());
        m.put("storage.backend.class", "io.aiven.kafka.tieredstorage.storage.filesystem.FileSystemStorage");
        m.put("storage.root", store.toString());
        m.put("storage.overwrite.enabled", "true");
        m.put("chunk.size", "65536");
        m.put("compression.enabled", "true");
        m.put("key.prefix", "tiered/");
        m.put("custom.metadata.fields.include", "REMOTE_SIZE");
        return m;
    }

    private RemoteStorageManager start(Map<String, Object> settings) {
        RemoteStorageManager rsm = new RemoteStorageManager();
        rsm.configure(settings);
        return rsm;
    }

    private List<ProcessHandle> daemons() {
        return ProcessHandle.allProcesses().filter(p -> p.info().command().filter(c -> c.startsWith(program.toString())).isPresent()).collect(Collectors.toList());
    }

    /** Objects in the store. */
    private List<String> objects() throws IOException {
        List<String> found = new ArrayList<>();
        Files.walkFileTree(store, new SimpleFileVisitor<>() {
            @Override
            public FileVisitResult visitFile(Path f, BasicFileAttributes a) {
                String name = store.relativize(f).toString();
                if (!name.startsWith(".tierkit")) {
                    found.add(name);
                }
                return FileVisitResult.CONTINUE;
            }

            @Override
            public FileVisitResult visitFileFailed(Path f, IOException e) throws IOException {
                if (e instanceof NoSuchFileException) { // the daemon removes directories that are empty
                    return FileVisitResult.CONTINUE;
                }
                throw e;
            }
        });
        return found;
    }

    private static void check(byte[] want, InputStream in) throws IOException {
        try (in) {
            assertArrayEquals(want, in.readAllBytes());
        }
    }

    private static void checkAll(RemoteStorageManager rsm, Sample s, RemoteLogSegmentMetadata md) throws Exception {
        check(s.log, rsm.fetchLogSegment(md, 0));
        for (Map.Entry<IndexType, byte[]> e : s.indexes.entrySet()) {
            check(e.getValue(), rsm.fetchIndex(md, e.getKey()));
        }
    }

    @Test
    void allCalls() throws Exception {
        RemoteStorageManager rsm = start(settings());
        try {
            Sample s = new Sample(dir.resolve("logs"), 9_000_000, true);
            Optional<CustomMetadata> custom = rsm.copyLogSegmentData(s.md, s.data);
            assertTrue(custom.isPresent());
            assertEquals(3, objects().size(), () -> "log, indexes and manifest");
            RemoteLogSegmentMetadata md = s.finished(custom);
            checkAll(rsm, s, md);
            check(Arrays.copyOfRange(s.log, 8_999_000, 9_000_000), rsm.fetchLogSegment(md, 8_999_000));
            check(Arrays.copyOfRange(s.log, 60_000, 70_001), rsm.fetchLogSegment(md, 60_000, 70_000));
            rsm.deleteLogSegmentData(md);
            assertEquals(List.of(), objects());
            rsm.deleteLogSegmentData(md);
            assertThrows(RemoteResourceNotFoundException.class, () -> rsm.fetchLogSegment(md, 0));

            Sample plain = new Sample(dir.resolve("logs"), 100, false);
            RemoteLogSegmentMetadata finished = plain.finished(rsm.copyLogSegmentData(plain.md, plain.data));
            assertThrows(RemoteResourceNotFoundException.class, () -> rsm.fetchIndex(finished, IndexType.TRANSACTION));
            rsm.deleteLogSegmentData(finished);
            RemoteStorageException e = assertThrows(RemoteStorageException.class, () -> rsm.fetchIndex(finished, IndexType.TRANSACTION));
            assertTrue(!(e instanceof RemoteResourceNotFoundException), e.toString());

            Sample empty = new Sample(dir.resolve("logs"), 0, false);
            RemoteLogSegmentMetadata none = empty.finished(rsm.copyLogSegmentData(empty.md, empty.data));
            checkAll(rsm, empty, none);
        } finally {
            rsm.close();
        }
        assertEquals(List.of(), daemons(), "ended with its standard input");
    }

    /** A directory that is no partition's is none that the daemon opens files in. */
    @Test
    void filesThatItDoesNotOpenAreSent() throws Exception {
        RemoteStorageManager rsm = start(settings());
        try {
            Sample s = new Sample(dir.resolve("logs"), 5_000_000, true);
            Path elsewhere = Files.move(dir.resolve("logs/orders-0"), dir.resolve("logs/elsewhere"));
            Sample moved = s.in(elsewhere);
            RemoteLogSegmentMetadata md = moved.finished(rsm.copyLogSegmentData(moved.md, moved.data));
            checkAll(rsm, moved, md);
        } finally {
            rsm.close();
        }
    }

    @Test
    void refusedSettings() {
        Map<String, Object> settings = settings();
        settings.put("chunk.sise", "1");
        ConfigException e = assertThrows(ConfigException.class, () -> start(settings));
        assertTrue(e.getMessage().contains("chunk.sise"), e.getMessage());
        assertEquals(List.of(), daemons());
    }

    @Test
    void killedDuringCopiesAndFetches() throws Exception {
        RemoteStorageManager rsm = start(settings());
        AtomicBoolean over = new AtomicBoolean();
        FutureTask<Integer> killer = new FutureTask<>(() -> {
            int kills = 0;
            // Each pause before a restart is twice the one before, so it is not for ever.
            for (; !over.get() && kills < 5; Thread.sleep(700)) {
                for (ProcessHandle p : daemons()) {
                    kills += p.destroyForcibly() ? 1 : 0;
                }
            }
            return kills;
        });
        ExecutorService pool = Executors.newFixedThreadPool(5);
        try {
            List<Future<Integer>> running = new ArrayList<>();
            for (int i = 0; i < 4; i++) {
                Path own = dir.resolve("log" + i);
                running.add(pool.submit(() -> segments(rsm, own)));
            }
            pool.submit(killer);
            int good = 0;
            for (Future<Integer> f : running) {
                good += f.get(5, TimeUnit.MINUTES);
            }
            assertTrue(killer.get(1, TimeUnit.MINUTES) > 0);
            assertTrue(good > 0, "none of the copies got through");
            // What the broker gave up is removed from the journal, and nothing is left.
            CopyTest.await(() -> objects().isEmpty());
        } finally {
            over.set(true);
            pool.shutdownNow();
            rsm.close();
        }
    }

    /** Copies, reads and deletes as a broker does, and counts what went well. */
    private static int segments(RemoteStorageManager rsm, Path own) throws Exception {
        int good = 0;
        for (int n = 0; n < 6; n++) {
            Sample s = new Sample(own, 3_000_000, true);
            RemoteLogSegmentMetadata md = s.md;
            try {
                md = s.finished(rsm.copyLogSegmentData(s.md, s.data));
                checkAll(rsm, s, md);
                good++;
            } catch (RemoteStorageException | IOException e) {
                // The broker would try again.
            }
            delete(rsm, md);
        }
        return good;
    }

    private static void delete(RemoteStorageManager rsm, RemoteLogSegmentMetadata md) throws RemoteStorageException {
        for (int tries = 0; ; tries++) {
            try {
                rsm.deleteLogSegmentData(md);
                return;
            } catch (RemoteStorageException e) {
                if (tries == 10) {
                    throw e;
                }
            }
        }
    }

    @Test
    void interruptedCopiesLeaveNothing() throws Exception {
        Map<String, Object> settings = settings();
        settings.put("upload.rate.limit.bytes.per.second", "1048576"); // so that it is interrupted in the middle
        RemoteStorageManager rsm = start(settings);
        try {
            Sample s = new Sample(dir.resolve("logs"), 64 << 20, false);
            AtomicBoolean flag = new AtomicBoolean();
            FutureTask<Throwable> copy = new FutureTask<>(() -> {
                try {
                    rsm.copyLogSegmentData(s.md, s.data);
                    return null;
                } catch (RemoteStorageException e) {
                    flag.set(Thread.currentThread().isInterrupted());
                    return e;
                }
            });
            Thread t = new Thread(copy);
            t.start();
            Thread.sleep(1000);
            t.interrupt();
            assertEquals(RemoteStorageException.class, copy.get(1, TimeUnit.MINUTES).getClass());
            assertTrue(flag.get());
            CopyTest.await(() -> objects().isEmpty());
        } finally {
            rsm.close();
        }
    }

    @Test
    void aTopicDeletedWhileTheDaemonIsDown() throws Exception {
        RemoteStorageManager rsm = start(settings());
        Sample s = new Sample(dir.resolve("logs"), 1_000_000, false);
        RemoteLogSegmentMetadata md = s.finished(rsm.copyLogSegmentData(s.md, s.data));
        rsm.close();
        assertEquals(3, objects().size());
        // The plug-in of another life, whose daemon hangs in its start.
        Map<String, Object> hanging = settings();
        hanging.put("tierkit.serve.command", "sleep 600");
        hanging.put("tierkit.serve.start.timeout.ms", "1000");
        RemoteStorageManager down = start(hanging);
        FutureTask<Void> delete = new FutureTask<>(() -> {
            down.deleteLogSegmentData(md);
            return null;
        });
        new Thread(delete, "kafka-1-metadata-loader-event-handler").start();
        delete.get(1, TimeUnit.MINUTES);
        assertEquals(3, objects().size());
        down.close();
        RemoteStorageManager up = start(settings());
        CopyTest.await(() -> objects().isEmpty());
        up.close();
    }

    /** A broker that is killed takes its daemon with it. */
    @Test
    void killedBroker() throws Exception {
        Process broker = new ProcessBuilder(Path.of(System.getProperty("java.home"), "bin", "java").toString(), "-cp", System.getProperty("java.class.path"),
                Broker.class.getName(), program.toString(), dir.resolve("state").toString(), store.toString()).redirectError(ProcessBuilder.Redirect.INHERIT).start();
        BufferedReader out = new BufferedReader(new InputStreamReader(broker.getInputStream()));
        assertEquals("up", out.readLine());
        assertEquals(1, daemons().size());
        broker.destroyForcibly();
        CopyTest.await(() -> daemons().isEmpty());
    }

    /** What of a broker is needed to be killed. */
    static final class Broker {
        private Broker() {
        }

        public static void main(String[] args) throws Exception {
            RemoteStorageManager rsm = new RemoteStorageManager();
            rsm.configure(Map.of("broker.id", 1, "tierkit.serve.command", args[0], "tierkit.state.dir", args[1], "storage.backend", "fs", "storage.root", args[2]));
            System.out.println("up");
            Thread.sleep(600_000);
        }
    }
}

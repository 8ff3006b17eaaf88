package io.github.tierkit.kafka;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.InputStream;
import java.lang.management.ManagementFactory;
import java.nio.file.Path;
import javax.management.JMException;
import javax.management.ObjectName;
import org.apache.kafka.server.log.remote.storage.RemoteStorageException;
import org.apache.kafka.server.log.remote.storage.RemoteStorageManager.IndexType;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class MetricsTest {
    @TempDir
    Path dir;

    private static ObjectName name(Bench b) throws JMException {
        return new ObjectName("io.github.tierkit:type=KafkaPlugin,broker=" + b.settings.get("broker.id"));
    }

    static Object attribute(Bench b, String attribute) throws JMException {
        return ManagementFactory.getPlatformMBeanServer().getAttribute(name(b), attribute);
    }

    @Test
    void callsAreCounted() throws Exception {
        try (Bench b = new Bench(dir).with("tierkit.plugin.delete.timeout.ms", "20000").configured()) {
            Sample s = new Sample(dir, 2 << 20, false);
            b.rsm.copyLogSegmentData(s.md, s.data);
            try (InputStream in = b.rsm.fetchLogSegment(s.finished(), 0)) {
                in.readAllBytes();
            }
            try (InputStream in = b.rsm.fetchIndex(s.finished(), IndexType.OFFSET)) {
                in.readAllBytes();
            }
            assertThrows(RemoteStorageException.class, () -> b.rsm.fetchIndex(s.finished(), IndexType.TRANSACTION));
            b.rsm.deleteLogSegmentData(s.finished());
            b.daemon.fault = (r, socket) -> {
                FakeDaemon.error(socket, 500, "failed", false);
                return true;
            };
            assertThrows(RemoteStorageException.class, () -> b.rsm.deleteLogSegmentData(s.finished()));
            Object[][] want = {
                {"CopyCalls", 1L}, {"CopyFailures", 0L}, {"CopiesRunning", 0L}, {"CopyBytes", 2L << 20}, {"FetchCalls", 1L}, {"FetchFailures", 0L},
                {"FetchBytes", 2L << 20}, {"IndexCalls", 2L}, {"IndexFailures", 1L}, {"IndexBytes", 80L}, {"DeleteCalls", 2L}, {"DeleteFailures", 1L},
                {"StreamsResumed", 0L}, {"RequestsUnanswered", 0L}, {"DaemonAnswering", true}, {"FilesStreamed", 0L}, {"FailuresRepeated", 0L}, {"JournalEntriesWritten", 0L},
            };
            for (Object[] w : want) {
                assertEquals(w[1], attribute(b, (String) w[0]), (String) w[0]);
            }
            b.daemon.kill();
            assertThrows(RemoteStorageException.class, () -> b.rsm.deleteLogSegmentData(s.finished()));
            assertEquals(false, attribute(b, "DaemonAnswering"));
            assertTrue((Long) attribute(b, "RequestsRetried") > 0);
            assertTrue((Long) attribute(b, "RequestsUnanswered") > 0);
            b.rsm.close();
            assertFalse(ManagementFactory.getPlatformMBeanServer().isRegistered(name(b)));
        }
    }
}

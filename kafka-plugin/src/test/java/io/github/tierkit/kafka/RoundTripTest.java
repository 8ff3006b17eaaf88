package io.github.tierkit.kafka;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.io.InputStream;
import java.net.Proxy;
import java.net.ProxySelector;
import java.net.SocketAddress;
import java.net.URI;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.Callable;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.kafka.server.log.remote.storage.RemoteLogSegmentMetadata.CustomMetadata;
import org.apache.kafka.server.log.remote.storage.RemoteResourceNotFoundException;
import org.apache.kafka.server.log.remote.storage.RemoteStorageException;
import org.apache.kafka.server.log.remote.storage.RemoteStorageManager.IndexType;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

class RoundTripTest {
    @TempDir
    Path dir;

    @ParameterizedTest
    @ValueSource(booleans = {false, true})
    void copyThenReadThenDelete(boolean streamed) throws Exception {
        try (Bench b = new Bench(dir).configured()) {
            b.daemon.stream = streamed;
            b.daemon.customMetadata = new byte[] {1, 2, 3};
            Sample s = new Sample(dir, 6 << 20, true);
            Optional<CustomMetadata> custom = b.rsm.copyLogSegmentData(s.md, s.data);
            assertArrayEquals(new byte[] {1, 2, 3}, custom.orElseThrow().value());
            try (InputStream in = b.rsm.fetchLogSegment(s.finished(custom), 0)) {
                assertArrayEquals(s.log, in.readAllBytes());
            }
            for (Map.Entry<IndexType, byte[]> e : s.indexes.entrySet()) {
                try (InputStream in = b.rsm.fetchIndex(s.finished(custom), e.getKey())) {
                    assertArrayEquals(e.getValue(), in.readAllBytes(), e.getKey().toString());
                }
            }
            b.rsm.deleteLogSegmentData(s.finished(custom));
            assertFalse(b.daemon.store.containsKey(s.id()));
        }
    }

    /** A proxy of the JVM's is for others: what goes to the daemon holds its token, and all of the data. */
    @Test
    void noProxyIsAskedFor() throws Exception {
        AtomicInteger asked = new AtomicInteger();
        ProxySelector others = ProxySelector.getDefault();
        try (Bench b = new Bench(dir).configured()) {
            ProxySelector.setDefault(new ProxySelector() {
                @Override
                public List<Proxy> select(URI uri) {
                    if (uri.getPort() == URI.create(b.daemon.url()).getPort()) {
                        asked.incrementAndGet();
                    }
                    return List.of(Proxy.NO_PROXY);
                }

                @Override
                public void connectFailed(URI uri, SocketAddress proxy, IOException e) {
                    throw new AssertionError(uri);
                }
            });
            Sample s = new Sample(dir, 1000, false);
            b.rsm.copyLogSegmentData(s.md, s.data);
            b.rsm.fetchLogSegment(s.finished(), 0).close();
        } finally {
            ProxySelector.setDefault(others);
        }
        assertEquals(0, asked.get());
    }

    @Test
    void noCustomMetadataIsEmpty() throws Exception {
        try (Bench b = new Bench(dir).configured()) {
            Sample s = new Sample(dir, 10, false);
            assertEquals(Optional.empty(), b.rsm.copyLogSegmentData(s.md, s.data));
        }
    }

    @Test
    void anEmptyLog() throws Exception {
        try (Bench b = new Bench(dir).configured()) {
            b.daemon.stream = true;
            Sample s = new Sample(dir, 0, false);
            b.rsm.copyLogSegmentData(s.md, s.data);
            try (InputStream in = b.rsm.fetchLogSegment(s.finished(), 0)) {
                assertEquals(-1, in.read());
            }
        }
    }

    @Test
    void rangesAreInclusiveAndClipped() throws Exception {
        try (Bench b = new Bench(dir).configured()) {
            Sample s = new Sample(dir, 1000, false);
            s.into(b.daemon);
            for (int[] r : new int[][] {{0, 0}, {3, 7}, {0, 999}, {990, 5000}, {999, Integer.MAX_VALUE}}) {
                try (InputStream in = b.rsm.fetchLogSegment(s.finished(), r[0], r[1])) {
                    assertArrayEquals(Arrays.copyOfRange(s.log, r[0], (int) Math.min(r[1] + 1L, 1000)), in.readAllBytes());
                }
            }
            try (InputStream in = b.rsm.fetchLogSegment(s.finished(), 1000)) {
                assertEquals(-1, in.read());
            }
            for (int[] r : new int[][] {{-1, 3}, {5, 4}, {1001, 2000}}) {
                assertThrows(RemoteStorageException.class, () -> b.rsm.fetchLogSegment(s.finished(), r[0], r[1]));
            }
        }
    }

    @Test
    void windowsAndEarlyClose() throws Exception {
        try (Bench b = new Bench(dir).configured()) {
            Sample s = new Sample(dir, 12 << 20, false);
            s.into(b.daemon);
            for (int i = 0; i < 5; i++) { // as a broker does: 1 MiB and a little, then close
                try (InputStream in = b.rsm.fetchLogSegment(s.finished(), 0)) {
                    assertArrayEquals(Arrays.copyOf(s.log, (1 << 20) + 5000), in.readNBytes((1 << 20) + 5000));
                    b.daemon.awaitSent(); // the close waits 10 ms for the rest
                }
            }
            assertEquals(5, b.daemon.log.size(), "one request for each");
            assertEquals(1, b.daemon.connections, "closing early keeps the connection");
            try (InputStream in = b.rsm.fetchLogSegment(s.finished(), 0)) {
                assertArrayEquals(s.log, in.readAllBytes());
            }
            assertEquals(5 + 5, b.daemon.log.size(), "windows of 1 MiB + 64 KiB, again, then 4 MiB");
            InputStream closed = b.rsm.fetchLogSegment(s.finished(), 0);
            closed.close();
            closed.close();
            assertThrows(IOException.class, closed::read);
        }
    }

    /** A broker reads the batch before the wanted one whole, that one, and what its buffer of 1 MiB still takes; or its buffer is larger. */
    @Test
    void aWindowIsWhatTheReaderNeeds() throws Exception {
        int mib = 1 << 20;
        int[][] takes = {{17, 1_000_000 - 17, 17, 1_000_000 - 17, mib - 1_000_000}, {17, 16_000, mib}, {17, 16_000, 3 * mib}, {17, 3_000_000, 17, 3_000_000}};
        int[][] requests = {{2, 2, 1}, {1, 1, 1}, {2, 2, 1}, {3, 3, 2}}; // as often as was taken the last two times comes at once, up to 4 MiB
        try (Bench b = new Bench(dir).configured()) {
            for (int i = 0; i < takes.length; i++) {
                Sample s = new Sample(dir, 12 << 20, false);
                s.into(b.daemon);
                for (int round = 0; round < requests[i].length; round++) {
                    b.daemon.log.clear();
                    assertTaken(b, s, takes[i]);
                    assertEquals(Collections.nCopies(requests[i][round], "PUT /v1/fetch"), b.daemon.log, "fetch " + round + " of " + Arrays.toString(takes[i]));
                }
                assertTaken(b, s, new int[] {17}); // as for a lookup by time
                b.daemon.log.clear();
                assertTaken(b, s, new int[] {mib});
                assertEquals(1, b.daemon.log.size());
            }
        }
    }

    /** Reads pieces as a broker does: until it has each. */
    private static void assertTaken(Bench b, Sample s, int[] pieces) throws Exception {
        assertTaken(b, s, pieces, () -> null);
    }

    private static void assertTaken(Bench b, Sample s, int[] pieces, Callable<Void> beforeClose) throws Exception {
        int at = 1000;
        try (InputStream in = b.rsm.fetchLogSegment(s.finished(), at)) {
            for (int n : pieces) {
                byte[] got = new byte[n];
                assertEquals(n, in.readNBytes(got, 0, n));
                assertArrayEquals(Arrays.copyOfRange(s.log, at, at + n), got);
                at += n;
            }
            beforeClose.call();
        }
    }

    /** What is left over of a window is so little that the connection is kept. */
    @Test
    void fetchesOfLargeBatchesKeepTheConnection() throws Exception {
        try (Bench b = new Bench(dir).configured()) {
            Sample s = new Sample(dir, 12 << 20, false);
            s.into(b.daemon);
            for (int i = 0; i < 5; i++) {
                assertTaken(b, s, new int[] {17, 1_000_000 - 17, 17, 1_000_000 - 17, (1 << 20) - 1_000_000}, () -> {
                    b.daemon.awaitSent(); // the close waits 10 ms for the rest
                    return null;
                });
            }
            assertEquals(1, b.daemon.connections);
        }
    }

    @Test
    void absentIsNotFoundOnlyWhereThatIsHarmless() throws Exception {
        try (Bench b = new Bench(dir).configured()) {
            Sample s = new Sample(dir, 10, false);
            s.into(b.daemon);
            assertThrows(RemoteResourceNotFoundException.class, () -> b.rsm.fetchIndex(s.finished(), IndexType.TRANSACTION));
            b.daemon.store.clear();
            RemoteStorageException e = assertThrows(RemoteStorageException.class, () -> b.rsm.fetchIndex(s.finished(), IndexType.TRANSACTION));
            assertFalse(e instanceof RemoteResourceNotFoundException, "a missing manifest does not mean: no aborted transactions");
            for (IndexType type : List.of(IndexType.OFFSET, IndexType.TIMESTAMP, IndexType.PRODUCER_SNAPSHOT, IndexType.LEADER_EPOCH)) {
                assertThrows(RemoteResourceNotFoundException.class, () -> b.rsm.fetchIndex(s.finished(), type));
            }
            assertThrows(RemoteResourceNotFoundException.class, () -> b.rsm.fetchLogSegment(s.finished(), 0));
            b.rsm.deleteLogSegmentData(s.finished());
        }
    }

    @Test
    void nothingUncheckedWhateverIsPassed() throws Exception {
        RemoteStorageManager rsm = new RemoteStorageManager();
        Sample s = new Sample(dir, 10, false);
        rsm.close();
        assertThrows(RemoteStorageException.class, () -> rsm.fetchLogSegment(s.md, 0));
        try (Bench b = new Bench(dir).configured()) {
            assertThrows(RemoteStorageException.class, () -> b.rsm.copyLogSegmentData(null, null));
            assertThrows(RemoteStorageException.class, () -> b.rsm.fetchLogSegment(null, 0));
            assertThrows(RemoteStorageException.class, () -> b.rsm.fetchIndex(s.md, null));
            assertThrows(RemoteStorageException.class, () -> b.rsm.deleteLogSegmentData(null));
            assertTrue(b.daemon.log.isEmpty());
        }
    }

    @Test
    void theSegmentObjectIsComplete() throws Exception {
        Sample s = new Sample(dir, 77, false);
        Map<String, Object> j = Json.object(Json.bytes(Segments.json(s.finished(Optional.of(new CustomMetadata(new byte[] {(byte) 0xff, 0}))))));
        assertEquals(Map.ofEntries(
                Map.entry("topic", "orders"), Map.entry("topicId", s.md.topicIdPartition().topicId().toString()), Map.entry("partition", 0L),
                Map.entry("segmentId", s.id()), Map.entry("startOffset", 0L), Map.entry("endOffset", 41L), Map.entry("maxTimestampMs", 1_700_000_000_000L),
                Map.entry("brokerId", 1L), Map.entry("eventTimestampMs", 1_700_000_000_123L), Map.entry("segmentSizeInBytes", 77L),
                Map.entry("state", "COPY_SEGMENT_FINISHED"), Map.entry("segmentLeaderEpochs", Map.of("0", 0L, "3", 17L)),
                Map.entry("customMetadata", "/wA="), Map.entry("txnIdxEmpty", false)), j);
    }
}

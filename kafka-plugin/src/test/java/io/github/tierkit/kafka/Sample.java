package io.github.tierkit.kafka;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Map;
import java.util.Optional;
import java.util.Random;
import java.util.TreeMap;
import org.apache.kafka.common.TopicIdPartition;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.server.log.remote.storage.LogSegmentData;
import org.apache.kafka.server.log.remote.storage.RemoteLogSegmentId;
import org.apache.kafka.server.log.remote.storage.RemoteLogSegmentMetadata;
import org.apache.kafka.server.log.remote.storage.RemoteLogSegmentMetadata.CustomMetadata;
import org.apache.kafka.server.log.remote.storage.RemoteLogSegmentState;
import org.apache.kafka.server.log.remote.storage.RemoteStorageManager.IndexType;

/** A segment with its files, of bytes that are like no others. */
final class Sample {
    final RemoteLogSegmentMetadata md;
    final LogSegmentData data;
    final byte[] log;
    final Map<IndexType, byte[]> indexes = new TreeMap<>();

    Sample(Path dir, int size, boolean transactions) throws IOException {
        this(dir, size, transactions, RemoteLogSegmentState.COPY_SEGMENT_STARTED);
    }

    private Sample(Path dir, int size, boolean transactions, RemoteLogSegmentState state) throws IOException {
        TopicIdPartition tp = new TopicIdPartition(Uuid.randomUuid(), new TopicPartition("orders", 0));
        md = new RemoteLogSegmentMetadata(new RemoteLogSegmentId(tp, Uuid.randomUuid()), 0, 41, 1_700_000_000_000L, 1, 1_700_000_000_123L, size,
                Optional.empty(), state, new TreeMap<>(Map.of(0, 0L, 3, 17L)));
        Path partition = Files.createDirectories(dir.resolve("orders-0"));
        Random random = new Random(md.remoteLogSegmentId().id().hashCode());
        log = bytes(random, size);
        indexes.put(IndexType.OFFSET, bytes(random, 80));
        indexes.put(IndexType.TIMESTAMP, bytes(random, 120));
        indexes.put(IndexType.PRODUCER_SNAPSHOT, bytes(random, 54));
        indexes.put(IndexType.LEADER_EPOCH, "0\n2\n0 0\n3 17\n".getBytes(StandardCharsets.US_ASCII));
        Path txn = partition.resolve("00000000000000000000.txnindex");
        if (transactions) {
            indexes.put(IndexType.TRANSACTION, bytes(random, 68));
            Files.write(txn, indexes.get(IndexType.TRANSACTION));
        }
        data = new LogSegmentData(
                Files.write(partition.resolve("00000000000000000000.log"), log),
                Files.write(partition.resolve("00000000000000000000.index"), indexes.get(IndexType.OFFSET)),
                Files.write(partition.resolve("00000000000000000000.timeindex"), indexes.get(IndexType.TIMESTAMP)),
                transactions ? Optional.of(txn) : Optional.empty(),
                Files.write(partition.resolve("00000000000000000042.snapshot"), indexes.get(IndexType.PRODUCER_SNAPSHOT)),
                ByteBuffer.wrap(indexes.get(IndexType.LEADER_EPOCH)));
    }

    private Sample(Sample other, Path partition) {
        md = other.md;
        log = other.log;
        indexes.putAll(other.indexes);
        LogSegmentData d = other.data;
        data = new LogSegmentData(partition.resolve(d.logSegment().getFileName()), partition.resolve(d.offsetIndex().getFileName()),
                partition.resolve(d.timeIndex().getFileName()), d.transactionIndex().map(f -> partition.resolve(f.getFileName())),
                partition.resolve(d.producerSnapshotIndex().getFileName()), d.leaderEpochIndex());
    }

    /** The same with its files in another directory. */
    Sample in(Path partition) {
        return new Sample(this, partition);
    }

    private static byte[] bytes(Random random, int size) {
        byte[] b = new byte[size];
        random.nextBytes(b);
        return b;
    }

    /** The metadata as they are after the copy. */
    RemoteLogSegmentMetadata finished(Optional<CustomMetadata> custom) {
        return new RemoteLogSegmentMetadata(md.remoteLogSegmentId(), md.startOffset(), md.endOffset(), md.maxTimestampMs(), md.brokerId(),
                md.eventTimestampMs(), md.segmentSizeInBytes(), custom, RemoteLogSegmentState.COPY_SEGMENT_FINISHED, md.segmentLeaderEpochs());
    }

    RemoteLogSegmentMetadata finished() {
        return finished(Optional.empty());
    }

    String id() {
        return md.remoteLogSegmentId().id().toString();
    }

    /** Puts it into a store as if it had been copied. */
    void into(FakeDaemon daemon) {
        Map<String, byte[]> files = new TreeMap<>();
        files.put("log", log);
        files.put("offset-index", indexes.get(IndexType.OFFSET));
        files.put("time-index", indexes.get(IndexType.TIMESTAMP));
        files.put("producer-snapshot", indexes.get(IndexType.PRODUCER_SNAPSHOT));
        files.put("leader-epoch", indexes.get(IndexType.LEADER_EPOCH));
        if (indexes.containsKey(IndexType.TRANSACTION)) {
            files.put("transaction-index", indexes.get(IndexType.TRANSACTION));
        }
        daemon.store.put(id(), files);
    }
}

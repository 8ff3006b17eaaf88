package io.github.tierkit.compat;

import com.fasterxml.jackson.annotation.JsonCreator;
import com.fasterxml.jackson.annotation.JsonIgnoreProperties;
import com.fasterxml.jackson.annotation.JsonProperty;
import com.fasterxml.jackson.annotation.JsonSubTypes;
import com.fasterxml.jackson.annotation.JsonTypeInfo;
import java.util.Objects;
import javax.crypto.SecretKey;

/**
 * The manifest object. One version exists, "1", and everything in it is mandatory but the encryption; what the writer
 * put under remoteLogSegmentMetadata is not looked at.
 */
@JsonTypeInfo(use = JsonTypeInfo.Id.NAME, include = JsonTypeInfo.As.PROPERTY, property = "version")
@JsonSubTypes({@JsonSubTypes.Type(value = Manifest.V1.class, name = "1")})
interface Manifest {
    ChunkIndex chunkIndex();

    SegmentIndexes segmentIndexes();

    boolean compression();

    /** Null for a segment that is not encrypted. */
    Encryption encryption();

    @JsonIgnoreProperties("remoteLogSegmentMetadata")
    final class V1 implements Manifest {
        private final ChunkIndex chunkIndex;
        private final SegmentIndexes segmentIndexes;
        private final boolean compression;
        private final Encryption encryption;

        @JsonCreator
        V1(@JsonProperty(value = "chunkIndex", required = true) final ChunkIndex chunkIndex,
           @JsonProperty(value = "segmentIndexes", required = true) final SegmentIndexes segmentIndexes,
           @JsonProperty(value = "compression", required = true) final boolean compression,
           @JsonProperty("encryption") final Encryption encryption) {
            this.chunkIndex = Objects.requireNonNull(chunkIndex, "chunkIndex cannot be null");
            this.segmentIndexes = Objects.requireNonNull(segmentIndexes, "segmentIndexes cannot be null");
            this.compression = compression;
            this.encryption = encryption;
        }

        @Override
        public ChunkIndex chunkIndex() {
            return chunkIndex;
        }

        @Override
        public SegmentIndexes segmentIndexes() {
            return segmentIndexes;
        }

        @Override
        public boolean compression() {
            return compression;
        }

        @Override
        public Encryption encryption() {
            return encryption;
        }
    }

    /** The data key, unwrapped while the JSON is read, and the AAD of every piece of the segment. */
    final class Encryption {
        final SecretKey dataKey;
        final byte[] aad;

        @JsonCreator
        Encryption(@JsonProperty(value = "dataKey", required = true) final SecretKey dataKey,
                   @JsonProperty(value = "aad", required = true) final byte[] aad) {
            this.dataKey = Objects.requireNonNull(dataKey, "dataKey cannot be null");
            this.aad = Objects.requireNonNull(aad, "aad cannot be null");
        }
    }

    /** Where each index lies in the object of the indexes. Only the transaction index may be null. */
    final class SegmentIndexes {
        final IndexPart offset;
        final IndexPart timestamp;
        final IndexPart producerSnapshot;
        final IndexPart leaderEpoch;
        final IndexPart transaction;

        @JsonCreator
        SegmentIndexes(@JsonProperty(value = "offset", required = true) final IndexPart offset,
                       @JsonProperty(value = "timestamp", required = true) final IndexPart timestamp,
                       @JsonProperty(value = "producerSnapshot", required = true) final IndexPart producerSnapshot,
                       @JsonProperty(value = "leaderEpoch", required = true) final IndexPart leaderEpoch,
                       @JsonProperty(value = "transaction", required = true) final IndexPart transaction) {
            this.offset = Objects.requireNonNull(offset, "offset cannot be null");
            this.timestamp = Objects.requireNonNull(timestamp, "timestamp cannot be null");
            this.producerSnapshot = Objects.requireNonNull(producerSnapshot, "producerSnapshot cannot be null");
            this.leaderEpoch = Objects.requireNonNull(leaderEpoch, "leaderEpoch cannot be null");
            this.transaction = transaction;
        }

        IndexPart of(final String type) {
            return switch (type) {
                case "OFFSET" -> offset;
                case "TIMESTAMP" -> timestamp;
                case "PRODUCER_SNAPSHOT" -> producerSnapshot;
                case "LEADER_EPOCH" -> leaderEpoch;
                case "TRANSACTION" -> transaction;
                default -> throw new IllegalArgumentException("No such index type: " + type);
            };
        }
    }

    /** Position and size of one index as stored. */
    final class IndexPart {
        final int position;
        final int size;

        @JsonCreator
        IndexPart(@JsonProperty(value = "position", required = true) final int position,
                  @JsonProperty(value = "size", required = true) final int size) {
            this.position = Checks.nonNegative(position, "Position");
            this.size = Checks.nonNegative(size, "Size");
        }
    }
}

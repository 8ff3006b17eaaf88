package io.github.tierkit.compat;

import com.fasterxml.jackson.annotation.JsonCreator;
import com.fasterxml.jackson.annotation.JsonProperty;
import com.fasterxml.jackson.annotation.JsonSubTypes;
import com.fasterxml.jackson.annotation.JsonTypeInfo;
import com.fasterxml.jackson.databind.annotation.JsonDeserialize;
import java.util.List;

/** Maps positions of the segment file to stored chunks. Everything is an int, as in the plug-in. */
@JsonTypeInfo(use = JsonTypeInfo.Id.NAME, include = JsonTypeInfo.As.PROPERTY, property = "type")
@JsonSubTypes({
    @JsonSubTypes.Type(value = ChunkIndex.Fixed.class, name = "fixed"),
    @JsonSubTypes.Type(value = ChunkIndex.Variable.class, name = "variable")
})
abstract class ChunkIndex {
    final int originalChunkSize;
    final int originalFileSize;

    private ChunkIndex(final int originalChunkSize, final int originalFileSize) {
        this.originalChunkSize = Checks.positive(originalChunkSize, "Original chunk size");
        this.originalFileSize = Checks.nonNegative(originalFileSize, "Original file size");
    }

    /** A chunk: where it begins in the segment file and where it lies in the stored object. */
    record Chunk(int id, int originalPosition, int storedPosition, int storedSize) {
    }

    abstract int count();

    abstract int storedSize(int id);

    final Chunk chunk(final int id) {
        int position = 0;
        for (int i = 0; i < id; i++) {
            position = Math.addExact(position, storedSize(i));
        }
        return new Chunk(id, Math.multiplyExact(id, originalChunkSize), position, storedSize(id));
    }

    /** The number of the chunk that holds a position. A position behind the file belongs to the last chunk. */
    final int find(final int position) {
        return position >= originalFileSize ? count() - 1 : position / originalChunkSize;
    }

    static final class Fixed extends ChunkIndex {
        private final int transformedChunkSize;
        private final int finalTransformedChunkSize;

        @JsonCreator
        Fixed(@JsonProperty(value = "originalChunkSize", required = true) final int originalChunkSize,
              @JsonProperty(value = "originalFileSize", required = true) final int originalFileSize,
              @JsonProperty(value = "transformedChunkSize", required = true) final int transformedChunkSize,
              @JsonProperty(value = "finalTransformedChunkSize", required = true)
              final int finalTransformedChunkSize) {
            super(originalChunkSize, originalFileSize);
            this.transformedChunkSize = Checks.nonNegative(transformedChunkSize, "Transformed chunk size");
            this.finalTransformedChunkSize =
                Checks.nonNegative(finalTransformedChunkSize, "Final transformed chunk size");
        }

        @Override
        int count() {
            final long chunks = (originalFileSize + (long) originalChunkSize - 1) / originalChunkSize;
            return (int) Math.max(1, chunks);
        }

        @Override
        int storedSize(final int id) {
            return id == count() - 1 ? finalTransformedChunkSize : transformedChunkSize;
        }
    }

    static final class Variable extends ChunkIndex {
        private final List<Integer> transformedChunks;

        @JsonCreator
        Variable(@JsonProperty(value = "originalChunkSize", required = true) final int originalChunkSize,
                 @JsonProperty(value = "originalFileSize", required = true) final int originalFileSize,
                 @JsonProperty(value = "transformedChunks", required = true)
                 @JsonDeserialize(using = ChunkSizes.Deserializer.class) final List<Integer> transformedChunks) {
            super(originalChunkSize, originalFileSize);
            if (transformedChunks.isEmpty()) {
                throw new IllegalArgumentException("Transformed chunks cannot be empty");
            }
            this.transformedChunks = transformedChunks;
        }

        @Override
        int count() {
            return transformedChunks.size();
        }

        @Override
        int storedSize(final int id) {
            return transformedChunks.get(id);
        }
    }
}

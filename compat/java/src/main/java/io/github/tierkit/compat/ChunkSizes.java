package io.github.tierkit.compat;

import com.fasterxml.jackson.core.JsonParser;
import com.fasterxml.jackson.databind.DeserializationContext;
import com.fasterxml.jackson.databind.deser.std.StdDeserializer;
import com.github.luben.zstd.Zstd;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Base64;
import java.util.List;

/** The text form of a variable chunk index: base64 of a zstd frame of the packed sizes. */
final class ChunkSizes {
    private static final int MAX_PACKED_BYTES = 10 * 1024 * 1024;

    private ChunkSizes() {
    }

    static final class Deserializer extends StdDeserializer<List<Integer>> {
        private static final long serialVersionUID = 1L;

        Deserializer() {
            super(List.class);
        }

        @Override
        public List<Integer> deserialize(final JsonParser parser, final DeserializationContext context)
            throws IOException {
            final byte[] frame = Base64.getDecoder().decode(parser.getText());
            final long size = Zstd.getFrameContentSize(frame);
            if (size < 0 || size > MAX_PACKED_BYTES) {
                throw new IOException("Invalid decompressed size: " + size);
            }
            return unpack(ByteBuffer.wrap(Zstd.decompress(frame, (int) size)));
        }
    }

    /**
     * count(4); one entry: the value(4); more: base(4), width(1), count-1 deltas of that width, the last value(4). All
     * big endian.
     */
    static List<Integer> unpack(final ByteBuffer packed) {
        final int count = Checks.nonNegative(packed.getInt(), "Count");
        final List<Integer> sizes = new ArrayList<>();
        if (count == 0) {
            return sizes;
        }
        if (count > 1) {
            final int base = packed.getInt();
            final int width = packed.get();
            if (width < 1 || width > 4) {
                throw new IllegalArgumentException("Width must be within 1..4, " + width + " given");
            }
            for (int i = 0; i < count - 1; i++) {
                long delta = 0;
                for (int j = 0; j < width; j++) {
                    delta = delta << 8 | packed.get() & 0xff;
                }
                sizes.add(Checks.nonNegative(Math.toIntExact(base + delta), "Size"));
            }
        }
        sizes.add(Checks.nonNegative(packed.getInt(), "Size"));
        return sizes;
    }
}

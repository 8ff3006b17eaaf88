package io.github.tierkit.compat;

import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.text.NumberFormat;
import java.util.HashMap;
import java.util.Locale;
import java.util.Map;

/** The keys of a segment's objects, from the settings and, for all but the manifest, from the custom metadata. */
final class ObjectKeys {
    private static final int TAG_OBJECT_PREFIX = 1;
    private static final int TAG_OBJECT_KEY = 2;

    private final String configured;
    private final String recorded;

    ObjectKeys(final Job job) {
        final NumberFormat digits = NumberFormat.getInstance(job.locale() == null
            ? Locale.ROOT : Locale.forLanguageTag(job.locale()));
        digits.setMinimumIntegerDigits(20);
        digits.setMaximumFractionDigits(0);
        digits.setGroupingUsed(false);
        final String prefix = job.config().getOrDefault("key.prefix", "");
        final String main = job.topic() + "-" + job.topicId() + "/" + job.partition() + "/"
            + digits.format(job.startOffset()) + "-" + job.segmentId();
        final Map<Integer, byte[]> fields = customMetadata(job.customMetadata());
        configured = prefix + main;
        recorded = (fields.containsKey(TAG_OBJECT_PREFIX) ? compactString(fields.get(TAG_OBJECT_PREFIX)) : prefix)
            + (fields.containsKey(TAG_OBJECT_KEY) ? compactString(fields.get(TAG_OBJECT_KEY)) : main);
    }

    /** Always where the settings say, whatever the custom metadata holds. */
    String manifest() {
        return configured + ".rsm-manifest";
    }

    String log() {
        return recorded + ".log";
    }

    String indexes() {
        return recorded + ".indexes";
    }

    /** Kafka's tagged fields: uvarint count, then tag, length, bytes each, tags strictly ascending. */
    private static Map<Integer, byte[]> customMetadata(final byte[] bytes) {
        final Map<Integer, byte[]> fields = new HashMap<>();
        if (bytes == null || bytes.length == 0) {
            return fields;
        }
        final ByteBuffer in = ByteBuffer.wrap(bytes);
        int previous = -1;
        for (int left = uvarint(in); left > 0; left--) {
            final int tag = uvarint(in);
            if (tag <= previous) {
                throw new IllegalArgumentException("Invalid or out-of-order tag " + tag);
            }
            previous = tag;
            final byte[] value = new byte[uvarint(in)];
            in.get(value);
            fields.put(tag, value);
        }
        return fields;
    }

    private static String compactString(final byte[] field) {
        final ByteBuffer in = ByteBuffer.wrap(field);
        final byte[] text = new byte[uvarint(in) - 1];
        in.get(text);
        return new String(text, StandardCharsets.UTF_8);
    }

    private static int uvarint(final ByteBuffer in) {
        int value = 0;
        for (int shift = 0; shift <= 28; shift += 7) {
            final byte b = in.get();
            value |= (b & 0x7f) << shift;
            if (b >= 0) {
                return value;
            }
        }
        throw new IllegalArgumentException("Varint is too long");
    }
}

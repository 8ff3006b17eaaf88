package io.github.tierkit.kafka;

import java.util.LinkedHashMap;
import java.util.Map;
import org.apache.kafka.common.TopicIdPartition;

/**
 * How much is read of a fetch. A broker takes the same again and again: 1 MiB and a batch, or two batches where they are large, or what its consumer has
 * set. What the last two fetches of a partition have taken is what the next one asks for at once.
 */
final class Appetite {
    private static final int PARTITIONS = 1024;

    /** The last take, and the one before it; the partition used longest ago first. */
    private final Map<TopicIdPartition, long[]> takes = new LinkedHashMap<TopicIdPartition, long[]>(16, 0.75f, true) {
        private static final long serialVersionUID = 1;

        @Override
        protected boolean removeEldestEntry(Map.Entry<TopicIdPartition, long[]> eldest) {
            return size() > PARTITIONS;
        }
    };

    /** What both of the last two fetches have taken at least, 0 if that is not known. */
    synchronized long of(TopicIdPartition tp) {
        long[] last = takes.get(tp);
        return last == null ? 0 : Math.min(last[0], last[1]);
    }

    synchronized void took(TopicIdPartition tp, long bytes) {
        long[] last = takes.computeIfAbsent(tp, p -> new long[2]);
        last[1] = last[0];
        last[0] = bytes;
    }
}

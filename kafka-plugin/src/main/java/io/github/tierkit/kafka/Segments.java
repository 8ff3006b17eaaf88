package io.github.tierkit.kafka;

import java.lang.reflect.Method;
import java.util.Base64;
import java.util.LinkedHashMap;
import java.util.Map;
import org.apache.kafka.common.TopicIdPartition;
import org.apache.kafka.server.log.remote.storage.RemoteLogSegmentMetadata;

/** The segment object of the API. */
final class Segments {
    /** isTxnIdxEmpty of Kafka 4.0 and later; null before. */
    private static final Method TXN_INDEX_EMPTY = txnIndexEmpty();

    private Segments() {
    }

    private static Method txnIndexEmpty() {
        try {
            return RemoteLogSegmentMetadata.class.getMethod("isTxnIdxEmpty");
        } catch (NoSuchMethodException e) {
            return null;
        }
    }

    static String id(RemoteLogSegmentMetadata md) {
        return md.remoteLogSegmentId().id().toString();
    }

    /** What messages call a segment. Takes null, since it is for messages. */
    static String name(RemoteLogSegmentMetadata md) {
        return md == null ? "a segment" : "segment " + id(md) + " of " + md.topicIdPartition();
    }

    static Map<String, Object> json(RemoteLogSegmentMetadata md) {
        TopicIdPartition tp = md.topicIdPartition();
        Map<String, Object> epochs = new LinkedHashMap<>();
        for (Map.Entry<Integer, Long> e : md.segmentLeaderEpochs().entrySet()) {
            epochs.put(String.valueOf(e.getKey()), e.getValue());
        }
        Map<String, Object> s = new LinkedHashMap<>();
        s.put("topic", tp.topic());
        s.put("topicId", tp.topicId().toString());
        s.put("partition", tp.partition());
        s.put("segmentId", id(md));
        s.put("startOffset", md.startOffset());
        s.put("endOffset", md.endOffset());
        s.put("maxTimestampMs", md.maxTimestampMs());
        s.put("brokerId", md.brokerId());
        s.put("eventTimestampMs", md.eventTimestampMs());
        s.put("segmentSizeInBytes", md.segmentSizeInBytes());
        s.put("state", md.state().name());
        s.put("segmentLeaderEpochs", epochs);
        s.put("customMetadata", md.customMetadata().map(m -> Base64.getEncoder().encodeToString(m.value())).orElse(null));
        s.put("txnIdxEmpty", isTxnIndexEmpty(md));
        return s;
    }

    private static boolean isTxnIndexEmpty(RemoteLogSegmentMetadata md) {
        try {
            return TXN_INDEX_EMPTY != null && Boolean.TRUE.equals(TXN_INDEX_EMPTY.invoke(md));
        } catch (ReflectiveOperationException e) {
            throw new IllegalStateException("isTxnIdxEmpty, which Kafka declares as public", e);
        }
    }

    /** The body of a call that is about a segment, to which the caller adds. */
    static Map<String, Object> request(RemoteLogSegmentMetadata md) {
        Map<String, Object> r = new LinkedHashMap<>();
        r.put("segment", json(md));
        return r;
    }
}

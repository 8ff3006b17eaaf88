package io.github.tierkit.kafka;

import java.io.IOException;
import java.util.Map;
import org.apache.kafka.server.log.remote.storage.RemoteLogSegmentMetadata;

/**
 * The bytes of a log, in windows. A broker asks for "everything from here" and closes when it has what its consumer's fetch takes: 1 MiB and a batch by
 * default, and as much again as a batch has where batches are large. It must get that with few requests and hardly more of it: what was sent and is not
 * read costs the connection, and tells the daemon of a reader that is further than it is. So the first window is what a broker takes by default or, if that
 * is more, what it took the last times; each later one is what the read needs that comes to it. Only who reads small pieces on and on gets large windows.
 */
final class SegmentStream extends DaemonStream {
    static final int SLACK = 64 << 10; // less than what Body reads to its end to keep the connection
    static final long FIRST_WINDOW = (1 << 20) + SLACK;
    static final long MOST_WINDOW = 4 << 20;

    private final Client client;
    private final RemoteLogSegmentMetadata segment;
    private final Appetite appetite;
    private final long start;
    private final long end;
    private Map<String, Object> request; // null: nothing was asked for yet
    private long unknown = FIRST_WINDOW; // the next window, if the read does not tell what is needed

    /** Reads from start up to end, which is exclusive. */
    SegmentStream(Client client, Known known, RemoteLogSegmentMetadata md, long start, long end, Appetite appetite, long limitMs, Retry retry, Metrics.Operation metrics) {
        super(known, Segments.id(md), start, limitMs, retry, metrics);
        this.client = client;
        this.segment = md;
        this.appetite = appetite;
        this.start = start;
        this.end = end;
    }

    @Override
    Body request(long position, int wanted, Deadline deadline) throws IOException {
        long length = Math.min(window(position, wanted), end - position);
        if (request == null) {
            request = Segments.request(segment);
        }
        request.put("start", position);
        request.put("end", position + length - 1);
        Body body = client.open("/v1/fetch", Json.bytes(request), deadline);
        if (body.left() != length) {
            body.abandon();
            throw new DaemonException(DaemonException.UNKNOWN, "asked for " + length + " bytes, the daemon announces " + body.left(), false);
        }
        if (wanted > 0) {
            unknown = MOST_WINDOW;
        }
        return body;
    }

    private long window(long position, int wanted) {
        if (wanted > SLACK) {
            return Math.min((long) wanted + SLACK, MOST_WINDOW);
        }
        return position == start ? Math.min(Math.max(unknown, appetite.of(segment.topicIdPartition()) + SLACK), MOST_WINDOW) : unknown;
    }

    @Override
    void closed(long position) {
        if (position < end) { // else it might have taken more
            appetite.took(segment.topicIdPartition(), position - start);
        }
    }

    @Override
    String place(long position) {
        return String.valueOf(position);
    }

    @Override
    long end() {
        return end;
    }
}

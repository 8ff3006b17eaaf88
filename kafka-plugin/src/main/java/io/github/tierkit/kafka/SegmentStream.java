package io.github.tierkit.kafka;

import java.io.IOException;
import java.util.Map;
import org.apache.kafka.server.log.remote.storage.RemoteLogSegmentMetadata;

/**
 * The bytes of a log, in windows. A broker asks for "everything from here" and closes after about 1 MiB and one batch; it gets just a little more
 * than that asked for in the store, and large windows if it goes on.
 */
final class SegmentStream extends DaemonStream {
    static final long FIRST_WINDOW = (1 << 20) + (64 << 10);
    static final long NEXT_WINDOW = 4 << 20;

    private final Client client;
    private final Map<String, Object> request;
    private final long end;
    private long window = FIRST_WINDOW;

    /** Reads from start up to end, which is exclusive. */
    SegmentStream(Client client, RemoteLogSegmentMetadata md, long start, long end, long limitMs, Retry retry, Metrics.Operation metrics)
            throws ReflectiveOperationException {
        super(start, limitMs, retry, metrics);
        this.client = client;
        this.request = Segments.request(md);
        this.end = end;
    }

    @Override
    Body request(long position, Deadline deadline) throws IOException {
        long length = Math.min(window, end - position);
        request.put("start", position);
        request.put("end", position + length - 1);
        Body body = client.open("/v1/fetch", Json.bytes(request), deadline);
        if (body.left() != length) {
            body.abandon();
            throw new DaemonException(DaemonException.UNKNOWN, "asked for " + length + " bytes, the daemon announces " + body.left(), false);
        }
        window = NEXT_WINDOW;
        return body;
    }

    @Override
    long end() {
        return end;
    }
}

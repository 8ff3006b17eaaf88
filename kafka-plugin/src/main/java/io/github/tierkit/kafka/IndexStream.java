package io.github.tierkit.kafka;

import java.io.IOException;
import java.util.Locale;
import org.apache.kafka.server.log.remote.storage.RemoteLogSegmentMetadata;
import org.apache.kafka.server.log.remote.storage.RemoteStorageManager.IndexType;

/** An index, whole. When it breaks it is asked for again and what was read already is skipped: an index never changes. */
final class IndexStream extends DaemonStream {
    private final Client client;
    private final IndexType type;
    private final String path;
    private final RemoteLogSegmentMetadata segment;
    private long end = -1; // not known yet

    IndexStream(Client client, Known known, RemoteLogSegmentMetadata md, IndexType type, long limitMs, Retry retry, Metrics.Operation metrics) {
        super(known, Segments.id(md), 0, limitMs, retry, metrics);
        this.client = client;
        this.type = type;
        this.path = "/v1/index/" + type.name().toLowerCase(Locale.ROOT).replace('_', '-');
        this.segment = md;
    }

    @Override
    Body request(long position, int wanted, Deadline deadline) throws IOException {
        Body body = client.open(path, Json.bytes(Segments.request(segment)), deadline);
        try {
            if (end >= 0 && body.left() != end) {
                throw new DaemonException(DaemonException.UNKNOWN, "an index of " + end + " bytes has " + body.left() + " when asked for again", false);
            }
            end = body.left();
            body.skip(position, deadline);
            return body;
        } catch (IOException | RuntimeException e) {
            body.abandon();
            throw e;
        }
    }

    @Override
    String place(long position) {
        return type.name();
    }

    @Override
    long end() {
        return end;
    }
}

package io.github.tierkit.kafka;

import java.io.IOException;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import java.util.regex.Pattern;
import org.apache.kafka.server.log.remote.storage.RemoteLogSegmentMetadata;

/** How segments are deleted. */
final class Deletion {
    /**
     * Threads that must not wait and never ask again: the one that applies cluster metadata, and on a 3.9 broker with ZooKeeper the one that
     * handles StopReplica. Both delete the segments of a topic that was deleted.
     */
    private static final Pattern MUST_NOT_WAIT = Pattern.compile("metadata-loader|kafka-request-handler");

    private static final long JOURNAL_MS = 900;
    /** After the daemon did not answer in time, the journal is written here right away: a topic has many segments. */
    private static final long DISTRUST_MS = 5000;
    /** A broker that stops waits for the thread that it has interrupted. */
    private static final long INTERRUPTED_MS = 10_000;
    private static final int POLL_MS = 400;
    private static final long READ_MS = 2500; // several times what an answer may take

    private final Client client;
    private final Retry retry;
    private final Journal journal; // null: no state directory is known
    private final long timeoutMs;
    private volatile long distrustUntil = System.nanoTime();

    Deletion(Client client, Retry retry, Journal journal, long timeoutMs) {
        this.client = client;
        this.retry = retry;
        this.journal = journal;
        this.timeoutMs = timeoutMs;
    }

    /**
     * Deletes a segment. An interrupt that was there before does not keep it from that: 3.9 brokers call it right after they interrupted a copy, to
     * remove what it stored.
     */
    void run(RemoteLogSegmentMetadata md) throws Exception {
        boolean interrupted = Thread.interrupted();
        try {
            if (MUST_NOT_WAIT.matcher(Thread.currentThread().getName()).find()) {
                order(md);
            } else {
                await(md, interrupted ? Math.min(timeoutMs, INTERRUPTED_MS) : timeoutMs);
            }
        } finally {
            if (interrupted) {
                Thread.currentThread().interrupt();
            }
        }
    }

    /** Deletes, and returns when nothing is left. */
    private void await(RemoteLogSegmentMetadata md, long ms) throws Exception {
        Map<String, Object> request = Segments.request(md);
        request.put("journal", false);
        request.put("waitMs", POLL_MS);
        byte[] body = Json.bytes(request);
        Deadline deadline = Deadline.in(ms, READ_MS);
        while (!deadline.passed()) {
            long began = System.nanoTime();
            Object state = retry.run(deadline, d -> client.call("POST", "/v1/delete", body, d)).get("state");
            if ("done".equals(state)) {
                return;
            }
            if (!"running".equals(state)) {
                throw new DaemonException(DaemonException.UNKNOWN, "the daemon says of a delete that it is " + state, false);
            }
            // It has waited on its side; if not, this does.
            long left = POLL_MS / 2 - TimeUnit.NANOSECONDS.toMillis(System.nanoTime() - began);
            deadline.sleep(Math.max(0, left));
        }
        throw new IOException("the delete still runs after " + ms + " ms");
    }

    /** Orders the delete: when it returns the order is on disk, or, where that cannot be, the delete is done. */
    void order(RemoteLogSegmentMetadata md) throws Exception {
        if (ordered(md)) {
            return;
        }
        if (!write(md)) {
            await(md, timeoutMs);
        }
    }

    private boolean ordered(RemoteLogSegmentMetadata md) {
        if (journal != null && distrustUntil - System.nanoTime() > 0) {
            return false;
        }
        Map<String, Object> request = Segments.request(md);
        request.put("journal", true);
        try {
            Object state = client.call("POST", "/v1/delete", Json.bytes(request), Deadline.once(JOURNAL_MS)).get("state");
            return "journaled".equals(state) || "done".equals(state);
        } catch (IOException e) {
            distrustUntil = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(DISTRUST_MS);
            return false;
        }
    }

    /** Writes the order here, without the daemon. False: it is not on disk. */
    private boolean write(RemoteLogSegmentMetadata md) {
        if (journal == null) {
            return false;
        }
        try {
            journal.write(md);
            return true;
        } catch (IOException e) {
            Log.warn("tierkit: the order to delete " + Segments.name(md) + " cannot be written into the journal: " + e);
            return false;
        }
    }

    /**
     * Sees to it that what a copy may have left is removed, in a few hundred ms and whatever the daemon does. The segment's id is never used again, so
     * that is right even if the copy should still end well. A broker of 4.x does not ask for it after an interrupt.
     */
    void clear(RemoteLogSegmentMetadata md) {
        try {
            if (!ordered(md)) {
                write(md);
            }
        } catch (Exception e) {
            Log.warn("tierkit: what was stored of " + Segments.name(md) + " may stay in the store: " + e);
        }
    }
}

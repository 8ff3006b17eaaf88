package io.github.tierkit.kafka;

import java.io.IOException;
import java.io.InputStream;
import java.io.InterruptedIOException;
import java.util.concurrent.TimeUnit;

/**
 * A stream of a known length over one or several answers. It never ends early: what breaks is asked for again from the byte where it broke, and
 * where that does not help until the deadline the read throws. For one thread, as streams are.
 */
abstract class DaemonStream extends InputStream {
    private final Known known;
    private final String segment;
    private final Retry retry;
    private final long limitMs;
    private final Metrics.Operation metrics;
    private Body body; // null: to be asked for
    private long position;
    private long waitedNanos; // in reads of the present answer
    private boolean closed;

    /** Every answer, all waits for it added up, may take limitMs. */
    DaemonStream(Known known, String segment, long position, long limitMs, Retry retry, Metrics.Operation metrics) {
        this.known = known;
        this.segment = segment;
        this.position = position;
        this.limitMs = limitMs;
        this.retry = retry;
        this.metrics = metrics;
    }

    /**
     * Asks for the bytes from position on. What it returns has at least one, unless there is none to come. wanted is how many the reader has asked
     * for that waits for them, 0 if none waits yet.
     */
    abstract Body request(long position, int wanted, Deadline deadline) throws IOException;

    /** The reader has closed the stream, of which it has read up to a position. */
    void closed(long position) {
        // It matters to few.
    }

    /** What of the segment is asked for at a position: the same text for the same bytes. */
    abstract String place(long position);

    private Body ask(int wanted, Deadline deadline) throws IOException, InterruptedException {
        return known.ask(segment, place(position), () -> request(position, wanted, deadline));
    }

    /** Position of the end, known once something was asked for. */
    abstract long end();

    /** Asks for the first bytes, so that what fails fails here. */
    final void open() throws IOException, InterruptedException {
        advance(retry.run(Deadline.in(limitMs), d -> ask(0, d)));
    }

    private void advance(Body next) {
        body = next;
        waitedNanos = 0;
    }

    @Override
    public final int read() throws IOException {
        byte[] one = new byte[1];
        return read(one, 0, 1) < 0 ? -1 : one[0] & 0xff;
    }

    @Override
    public final int read(byte[] buffer, int offset, int length) throws IOException {
        if (length == 0) {
            return 0;
        }
        if (closed) {
            throw new IOException("the stream is closed");
        }
        try {
            return position == end() ? -1 : some(buffer, offset, length);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            throw new InterruptedIOException("interrupted");
        } catch (RuntimeException | Error e) { // the broker expects nothing but an IOException of a stream
            throw new IOException("reading from the daemon: " + e, e);
        }
    }

    private int some(byte[] buffer, int offset, int length) throws IOException, InterruptedException {
        Backoff backoff = Retry.backoff();
        if (body == null) {
            waitedNanos = 0;
        }
        Deadline deadline = Deadline.in(limitMs - TimeUnit.NANOSECONDS.toMillis(waitedNanos));
        long began = System.nanoTime();
        try {
            while (true) {
                try {
                    Client.check(deadline);
                    if (body == null) {
                        body = ask(length, deadline);
                    }
                    return read(body, buffer, offset, length);
                } catch (IOException e) {
                    drop();
                    if (!Retry.lost(e) || retry.closed() || !deadline.sleep(backoff.next())) {
                        throw e;
                    }
                    metrics.resumed.increment();
                }
            }
        } finally {
            waitedNanos += System.nanoTime() - began;
        }
    }

    private int read(Body from, byte[] buffer, int offset, int length) throws IOException {
        int n = from.read(buffer, offset, length);
        position += n;
        metrics.bytes.add(n);
        if (from.left() == 0) {
            from.close(); // gives the connection back
            body = null;
        }
        return n;
    }

    private void drop() {
        if (body != null) {
            body.abandon();
            body = null;
        }
    }

    @Override
    public final void close() {
        if (closed) {
            return;
        }
        closed = true;
        if (body != null) {
            body.close();
            body = null;
        }
        closed(position);
    }
}

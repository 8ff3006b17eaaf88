package io.github.tierkit.kafka;

import java.io.EOFException;
import java.io.IOException;
import java.io.InputStream;
import java.net.HttpURLConnection;

/**
 * The body of an answer, counted: HttpURLConnection shows a body that ends short of its Content-Length as a clean end of the stream.
 * Used by one thread; a connection must never be closed by another one, whose reader then sees a NullPointerException.
 */
final class Body {
    /** What is worth reading to its end so that the connection can be used again. */
    private static final int WORTH_DRAINING = 128 << 10;
    private static final int DRAIN_WAITS = 10;

    private final HttpURLConnection connection;
    private final InputStream in;
    private long left;

    Body(HttpURLConnection connection, InputStream in, long length) {
        this.connection = connection;
        this.in = in;
        this.left = length;
    }

    long left() {
        return left;
    }

    /** Reads at least one byte, straight from the socket for large buffers. There must be some left. */
    int read(byte[] buffer, int offset, int length) throws IOException {
        int n = in.read(buffer, offset, (int) Math.min(length, left));
        if (n <= 0) {
            throw new EOFException("the daemon's answer ends " + left + " bytes short of its Content-Length");
        }
        left -= n;
        return n;
    }

    void skip(long count, Deadline deadline) throws IOException {
        byte[] scratch = new byte[(int) Math.min(count, 64 << 10)];
        while (count > 0) {
            Client.check(deadline);
            count -= read(scratch, 0, (int) Math.min(count, scratch.length));
        }
    }

    /** Gives the connection back if little is left, else closes it: the daemon then stops sending. Never waits for long. */
    void close() {
        try {
            if (left > 0 && left <= WORTH_DRAINING) {
                drain();
            }
            in.close();
        } catch (IOException | RuntimeException e) {
            left = Long.MAX_VALUE;
        } finally {
            if (left > 0) {
                connection.disconnect();
            }
        }
    }

    private void drain() throws IOException {
        byte[] scratch = new byte[16 << 10];
        for (int waits = 0; left > 0 && waits < DRAIN_WAITS; ) {
            if (in.available() > 0) {
                read(scratch, 0, scratch.length);
                continue;
            }
            waits++;
            try {
                Thread.sleep(1);
            } catch (InterruptedException e) {
                Thread.currentThread().interrupt();
                return;
            }
        }
    }

    void abandon() {
        connection.disconnect();
    }
}

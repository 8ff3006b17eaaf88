package io.github.tierkit.kafka;

import java.util.concurrent.TimeUnit;

/**
 * The end of a call. A read that blocks cannot be ended from outside (an interrupt does not, and disconnect() from another thread breaks the
 * reader), so a call is made of steps, a connect or a read, each bounded by a timeout of the socket: a new one begins only while both still fit,
 * and the call is over when it has promised to be.
 */
final class Deadline {
    private static final int READS = 4; // a read gets a quarter of the call
    private static final int CONNECTS = 16;

    private final long end; // System.nanoTime() from which on no step begins
    private final long read;
    private final long connect;

    private Deadline(long untilMs, long readMs, long connectMs) {
        read = Math.max(1, readMs);
        connect = Math.max(1, connectMs);
        end = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(Math.max(0, untilMs));
    }

    /** A call that takes at most ms. */
    static Deadline in(long ms) {
        return in(ms, ms);
    }

    /** A call that takes at most ms and whose reads are short, so that what happens meanwhile is noticed. */
    static Deadline in(long ms, long readMs) {
        long read = Math.max(0, Math.min(readMs, ms / READS));
        long connect = Math.max(0, Math.min(readMs, ms / CONNECTS));
        return new Deadline(ms - read - connect, read, connect);
    }

    /** One question whose answer may take ms. */
    static Deadline once(long ms) {
        return new Deadline(ms, ms, ms);
    }

    /** A part of this call that takes at most ms. */
    Deadline part(long ms, long readMs) {
        long left = TimeUnit.NANOSECONDS.toMillis(end - System.nanoTime()) + read + connect;
        return in(Math.min(ms, Math.max(0, left)), readMs);
    }

    boolean passed() {
        return end - System.nanoTime() <= 0;
    }

    /** How long one read may take, for the timeout of a socket. */
    int readMs() {
        return (int) Math.min(read, Integer.MAX_VALUE);
    }

    /** The same for a connect. */
    int connectMs() {
        return (int) Math.min(connect, Integer.MAX_VALUE);
    }

    /** Waits, and tells whether there is time left for another try. */
    boolean sleep(long ms) throws InterruptedException {
        long left = TimeUnit.NANOSECONDS.toMillis(end - System.nanoTime());
        if (left <= 0) {
            if (Thread.interrupted()) {
                throw new InterruptedException();
            }
            return false;
        }
        Thread.sleep(Math.min(ms, left));
        return !passed();
    }
}

package io.github.tierkit.kafka;

import java.util.concurrent.TimeUnit;

/**
 * The end of a call. A read that blocks cannot be ended from outside (an interrupt does not, and disconnect() from another thread breaks the
 * reader), so a call is made of steps, each bounded by a timeout of the socket: a new step begins only while two of them still fit (one to
 * connect, one to read), and the call is over when it has promised to be.
 */
final class Deadline {
    private static final int STEPS = 6;

    private final long end; // System.nanoTime() from which on no step begins
    private final long step;

    private Deadline(long untilMs, long stepMs) {
        step = Math.max(1, stepMs);
        end = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(Math.max(0, untilMs));
    }

    /** A call that takes at most ms. */
    static Deadline in(long ms) {
        return in(ms, ms);
    }

    /** A call that takes at most ms and whose steps are short, so that what happens meanwhile is noticed. */
    static Deadline in(long ms, long stepMs) {
        long step = Math.max(0, Math.min(stepMs, ms / STEPS));
        return new Deadline(ms - 2 * step, step);
    }

    /** One question whose answer may take ms. */
    static Deadline once(long ms) {
        return new Deadline(ms, ms);
    }

    /** A part of this call that takes at most ms. */
    Deadline part(long ms, long stepMs) {
        long left = TimeUnit.NANOSECONDS.toMillis(end - System.nanoTime()) + 2 * step;
        return in(Math.min(ms, Math.max(0, left)), stepMs);
    }

    boolean passed() {
        return end - System.nanoTime() <= 0;
    }

    /** How long one connect or one read may take, for the timeouts of a socket. */
    int stepMs() {
        return (int) Math.min(step, Integer.MAX_VALUE);
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

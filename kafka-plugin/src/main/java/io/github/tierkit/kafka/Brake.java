package io.github.tierkit.kafka;

import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;

/**
 * Slows a broker down that asks for what fails at once. It asks again without any pause, thousands of times a second, with a line in its log for each.
 * This holds back failures that are known, and those that are none of the daemon's judgement, such as a wrong token. Only so many, so that the broker's
 * readers are not all in here; the others let every thread go first that has something to do.
 */
final class Brake {
    private static final long HOLD_MS = 200;
    private static final int PLACES = 2;

    /** Waits some milliseconds. */
    interface Sleep {
        void sleep(long ms) throws InterruptedException;
    }

    private final Semaphore places = new Semaphore(PLACES);
    private final Sleep sleep;
    private final Runnable yield;

    Brake(Sleep sleep, Runnable yield) {
        this.sleep = sleep;
        this.yield = yield;
    }

    /** Waits for a while, for a call that fails without having taken any time. */
    void hold() throws InterruptedException {
        pause(HOLD_MS);
    }

    /** Waits until a failed call, which began then, has taken a while. */
    void hold(long began) throws InterruptedException {
        pause(HOLD_MS - TimeUnit.NANOSECONDS.toMillis(System.nanoTime() - began));
    }

    private void pause(long left) throws InterruptedException {
        if (left <= 0) {
            return;
        }
        if (!places.tryAcquire()) {
            yield.run();
            return;
        }
        try {
            sleep.sleep(left);
        } finally {
            places.release();
        }
    }

    /** Whether the daemon has looked at the call: once more is soon enough for holding it back. */
    static boolean judged(Throwable t) {
        return t instanceof DaemonException && !((DaemonException) t).is(DaemonException.UNKNOWN) && !((DaemonException) t).is(DaemonException.FORBIDDEN);
    }
}

package io.github.tierkit.kafka;

import java.io.IOException;

/** Asks again while the daemon is lost or restarting. What it answered is its answer; only "I am leaving" is not. */
final class Retry {
    private static final long FIRST_MS = 20;
    private static final long MOST_MS = 1000;

    private final Metrics metrics;
    private volatile boolean closed;

    Retry(Metrics metrics) {
        this.metrics = metrics;
    }

    /** Lets every call that waits for a lost daemon fail. */
    void close() {
        closed = true;
    }

    boolean closed() {
        return closed;
    }

    static Backoff backoff() {
        return new Backoff(FIRST_MS, MOST_MS);
    }

    /** Whether an exception says that there was no answer, so that another try may get one. */
    static boolean lost(IOException e) {
        return !(e instanceof DaemonException) || ((DaemonException) e).leaving();
    }

    interface Attempt<T> {
        T run(Deadline deadline) throws IOException, InterruptedException;
    }

    <T> T run(Deadline deadline, Attempt<T> attempt) throws IOException, InterruptedException {
        Backoff backoff = backoff();
        while (true) {
            try {
                return attempt.run(deadline);
            } catch (IOException e) {
                if (!lost(e) || closed || !deadline.sleep(backoff.next())) {
                    throw e;
                }
                metrics.retries.increment();
            }
        }
    }
}

package io.github.tierkit.kafka;

/** Waits that double. */
final class Backoff {
    private final long first;
    private final long most;
    private long next;

    Backoff(long firstMs, long mostMs) {
        first = firstMs;
        most = mostMs;
        next = firstMs;
    }

    long next() {
        long wait = next;
        next = Math.min(most, 2 * next);
        return wait;
    }

    void reset() {
        next = first;
    }
}

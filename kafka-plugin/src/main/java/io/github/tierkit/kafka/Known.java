package io.github.tierkit.kafka;

import java.io.IOException;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.function.LongSupplier;

/**
 * What the daemon has said of a failure, for as long as it would say the same again without looking. A broker asks for what failed at once and without end,
 * on all of its readers, so it is answered here: neither the daemon nor the store hears of it.
 */
final class Known {
    private static final int MOST = 4096; // entries
    private static final long LONGEST_MS = 5000; // whatever the daemon says

    private final Brake brake;
    private final Metrics metrics;
    private final LongSupplier nanos;
    private final ConcurrentHashMap<String, Entry> entries = new ConcurrentHashMap<>();

    /** nanos is a clock as System.nanoTime is. */
    Known(Brake brake, Metrics metrics, LongSupplier nanos) {
        this.brake = brake;
        this.metrics = metrics;
        this.nanos = nanos;
    }

    private static final class Entry {
        final DaemonException again;
        final long until;
        final AtomicBoolean asked = new AtomicBoolean(); // one call finds out whether it is still so

        Entry(DaemonException said, long now) {
            again = said.again();
            until = now + TimeUnit.MILLISECONDS.toNanos(Math.min(said.retryAfterMs, LONGEST_MS));
        }

        boolean over(long now) {
            return until - now <= 0;
        }
    }

    interface Question<T> {
        T ask() throws IOException;
    }

    /** Asks for something of a segment, unless the same question had a failure for an answer just now. */
    <T> T ask(String segment, String what, Question<T> question) throws IOException, InterruptedException {
        String place = segment + '/' + what;
        Entry e = entries.get(place);
        if (e != null && !(e.over(nanos.getAsLong()) && e.asked.compareAndSet(false, true))) {
            metrics.failuresRepeated.increment();
            brake.hold();
            throw e.again;
        }
        try {
            T answer = question.ask();
            if (e != null) {
                entries.remove(place, e);
            }
            return answer;
        } catch (DaemonException x) {
            if (x.retryAfterMs > 0 && room()) {
                entries.put(place, new Entry(x, nanos.getAsLong()));
            }
            throw x;
        } finally {
            if (e != null) {
                e.asked.set(false);
            }
        }
    }

    private boolean room() {
        if (entries.size() >= MOST) {
            long now = nanos.getAsLong();
            entries.values().removeIf(e -> e.over(now));
        }
        return entries.size() < MOST;
    }

    /** Forgets all of a segment: it is another one from now on. */
    void forget(String segment) {
        if (!entries.isEmpty()) {
            entries.keySet().removeIf(place -> place.startsWith(segment));
        }
    }
}

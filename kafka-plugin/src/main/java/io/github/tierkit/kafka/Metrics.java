package io.github.tierkit.kafka;

import java.lang.management.ManagementFactory;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.atomic.LongAdder;
import javax.management.JMException;
import javax.management.MBeanServer;
import javax.management.ObjectName;

/** What the plug-in counts, shown over JMX. */
final class Metrics implements MetricsMBean {
    /** The counts of one kind of call. */
    static final class Operation {
        final LongAdder calls = new LongAdder();
        final LongAdder failures = new LongAdder();
        final LongAdder running = new LongAdder();
        final LongAdder nanos = new LongAdder();
        final LongAdder bytes = new LongAdder();
        final LongAdder resumed = new LongAdder();

        void begins() {
            calls.increment();
            running.increment();
        }

        void ends(long began, boolean good) {
            running.decrement();
            nanos.add(System.nanoTime() - began);
            if (!good) {
                failures.increment();
            }
        }

        long millis() {
            return TimeUnit.NANOSECONDS.toMillis(nanos.sum());
        }
    }

    final Operation copy = new Operation();
    final Operation fetch = new Operation();
    final Operation index = new Operation();
    final Operation delete = new Operation();
    final LongAdder retries = new LongAdder();
    final LongAdder unanswered = new LongAdder();
    final LongAdder starts = new LongAdder();
    final LongAdder filesStreamed = new LongAdder();
    final LongAdder journalEntries = new LongAdder();
    final LongAdder failuresRepeated = new LongAdder();
    final LongAdder customMetadataTooLong = new LongAdder();
    final AtomicLong customMetadataLongest = new AtomicLong();
    private volatile boolean lastAnswered;
    private ObjectName name;

    void answered(boolean yes) {
        lastAnswered = yes;
        if (!yes) {
            unanswered.increment();
        }
    }

    /** Shows the counts. That it fails is no reason not to store segments. */
    synchronized void register(int broker) {
        try {
            ObjectName n = new ObjectName("io.github.tierkit:type=KafkaPlugin,broker=" + broker);
            MBeanServer server = ManagementFactory.getPlatformMBeanServer();
            if (server.isRegistered(n)) {
                server.unregisterMBean(n);
            }
            server.registerMBean(this, n);
            name = n;
        } catch (JMException | RuntimeException e) {
            Log.warn("No metrics of tierkit over JMX: " + e);
        }
    }

    synchronized void unregister() {
        if (name == null) {
            return;
        }
        try {
            ManagementFactory.getPlatformMBeanServer().unregisterMBean(name);
        } catch (JMException | RuntimeException e) {
            Log.warn("Metrics of tierkit stay in JMX: " + e);
        }
        name = null;
    }

    @Override
    public long getCopyCalls() {
        return copy.calls.sum();
    }

    @Override
    public long getCopyFailures() {
        return copy.failures.sum();
    }

    @Override
    public long getCopiesRunning() {
        return copy.running.sum();
    }

    @Override
    public long getCopyMillis() {
        return copy.millis();
    }

    @Override
    public long getCopyBytes() {
        return copy.bytes.sum();
    }

    @Override
    public long getFetchCalls() {
        return fetch.calls.sum();
    }

    @Override
    public long getFetchFailures() {
        return fetch.failures.sum();
    }

    @Override
    public long getFetchMillis() {
        return fetch.millis();
    }

    @Override
    public long getFetchBytes() {
        return fetch.bytes.sum();
    }

    @Override
    public long getIndexCalls() {
        return index.calls.sum();
    }

    @Override
    public long getIndexFailures() {
        return index.failures.sum();
    }

    @Override
    public long getIndexMillis() {
        return index.millis();
    }

    @Override
    public long getIndexBytes() {
        return index.bytes.sum();
    }

    @Override
    public long getDeleteCalls() {
        return delete.calls.sum();
    }

    @Override
    public long getDeleteFailures() {
        return delete.failures.sum();
    }

    @Override
    public long getDeleteMillis() {
        return delete.millis();
    }

    @Override
    public long getStreamsResumed() {
        return fetch.resumed.sum() + index.resumed.sum();
    }

    @Override
    public long getRequestsRetried() {
        return retries.sum();
    }

    @Override
    public long getRequestsUnanswered() {
        return unanswered.sum();
    }

    @Override
    public boolean isDaemonAnswering() {
        return lastAnswered;
    }

    @Override
    public long getDaemonStarts() {
        return starts.sum();
    }

    @Override
    public long getFilesStreamed() {
        return filesStreamed.sum();
    }

    @Override
    public long getFailuresRepeated() {
        return failuresRepeated.sum();
    }

    @Override
    public long getJournalEntriesWritten() {
        return journalEntries.sum();
    }

    @Override
    public long getCustomMetadataLongestBytes() {
        return customMetadataLongest.get();
    }

    @Override
    public long getCustomMetadataTooLong() {
        return customMetadataTooLong.sum();
    }
}

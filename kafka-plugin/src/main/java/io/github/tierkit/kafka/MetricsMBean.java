package io.github.tierkit.kafka;

/** Counts since the broker's start; docs/kafka-plugin.md says what each is. */
public interface MetricsMBean {
    long getCopyCalls();

    long getCopyFailures();

    long getCopiesRunning();

    long getCopyMillis();

    long getCopyBytes();

    long getFetchCalls();

    long getFetchFailures();

    long getFetchMillis();

    long getFetchBytes();

    long getIndexCalls();

    long getIndexFailures();

    long getIndexMillis();

    long getIndexBytes();

    long getDeleteCalls();

    long getDeleteFailures();

    long getDeleteMillis();

    long getStreamsResumed();

    long getRequestsRetried();

    long getRequestsUnanswered();

    boolean isDaemonAnswering();

    long getDaemonStarts();

    long getFilesStreamed();

    long getFailuresRepeated();

    long getJournalEntriesWritten();

    long getCustomMetadataLongestBytes();

    long getCustomMetadataTooLong();
}

package io.github.tierkit.kafka;

import java.io.IOException;
import java.io.InputStream;
import java.nio.file.Path;
import java.security.GeneralSecurityException;
import java.util.Map;
import java.util.Optional;
import org.apache.kafka.common.config.ConfigException;
import org.apache.kafka.server.log.remote.storage.LogSegmentData;
import org.apache.kafka.server.log.remote.storage.RemoteLogSegmentMetadata;
import org.apache.kafka.server.log.remote.storage.RemoteLogSegmentMetadata.CustomMetadata;
import org.apache.kafka.server.log.remote.storage.RemoteStorageException;

/**
 * Kafka's tiered storage through the process tierkit serve, for brokers of 3.9 and later. The work is done there; this class asks for it, and
 * sees to it that a broker never gets anything but a result, a RemoteStorageException or, of a stream, an IOException, each within the call's deadline.
 */
public final class RemoteStorageManager implements org.apache.kafka.server.log.remote.storage.RemoteStorageManager {
    private static final long CLOSE_MS = 6000; // an interrupted copy takes 5 s to be cancelled

    private final Metrics metrics = new Metrics();
    private final Retry retry = new Retry(metrics);
    private final Brake brake = new Brake(Thread::sleep, Thread::yield);
    private final Known known = new Known(brake, metrics, System::nanoTime);
    private final Appetite appetite = new Appetite();
    private volatile Parts parts; // null: not configured

    /** What configure makes. */
    private static final class Parts {
        final Settings settings;
        final Daemon daemon;
        final Client client;
        final Uploads uploads;
        final Deletion deletion;
        final long fetchMs;

        Parts(Settings settings, Daemon daemon, Metrics metrics, Retry retry) {
            this.settings = settings;
            this.daemon = daemon;
            client = new Client(daemon, metrics);
            uploads = new Uploads(client, metrics);
            Journal journal = settings.has(Settings.STATE_DIR)
                    ? new Journal(settings.journal(), settings.has(Settings.COMMAND), metrics) : null;
            deletion = new Deletion(client, retry, journal, settings.number(Settings.DELETE_TIMEOUT));
            fetchMs = settings.number(Settings.FETCH_TIMEOUT);
        }
    }

    /** Created by the broker, by name. */
    public RemoteStorageManager() {
        // Everything begins with configure.
    }

    /** A ConfigException says what is wrong with the settings, and keeps the broker from starting. */
    @Override
    public synchronized void configure(Map<String, ?> configs) {
        if (parts != null) {
            throw new ConfigException("tierkit's plug-in is configured already");
        }
        Settings settings = new Settings(configs);
        Daemon daemon;
        if (settings.has(Settings.COMMAND)) {
            Supervisor s = new Supervisor(settings, metrics, new Supervisor.Timing());
            s.start();
            daemon = s;
        } else {
            daemon = foreign(settings);
        }
        parts = new Parts(settings, daemon, metrics, retry);
        metrics.register(settings.brokerId);
    }

    private static Daemon foreign(Settings settings) {
        Tls tls = null;
        if (settings.baseUrl().startsWith("https:")) {
            try {
                tls = new Tls(file(settings, Settings.TLS_CA_FILE), file(settings, Settings.TLS_CERTIFICATE_FILE), file(settings, Settings.TLS_KEY_FILE));
            } catch (IOException | GeneralSecurityException e) {
                throw new ConfigException("the TLS settings of tierkit's plug-in: " + e);
            }
        }
        ForeignDaemon daemon = new ForeignDaemon(settings.baseUrl(), settings.path(Settings.TOKEN_FILE), tls);
        try {
            daemon.endpoint();
        } catch (IOException e) {
            throw new ConfigException(Settings.TOKEN_FILE.name, settings.text(Settings.TOKEN_FILE), e.toString());
        }
        return daemon;
    }

    private static Path file(Settings settings, Settings.Setting s) {
        return settings.has(s) ? settings.path(s) : null;
    }

    private interface Call<T> {
        T run(Parts p) throws Exception;
    }

    /** Runs a call; whatever it throws becomes the one exception that a broker expects. */
    private <T> T checked(Metrics.Operation count, Failures.Kind kind, String verb, RemoteLogSegmentMetadata md, Call<T> call) throws RemoteStorageException {
        long began = System.nanoTime();
        boolean good = false;
        count.begins();
        try {
            Parts p = parts;
            if (p == null) {
                throw new IllegalStateException("tierkit's plug-in is not configured");
            }
            T result = call.run(p);
            good = true;
            return result;
        } catch (Throwable t) { // errors too: a broker that sees one forgets what it was doing
            if (t instanceof InterruptedException) {
                Thread.currentThread().interrupt();
            }
            throw Failures.of(t, kind, verb + " " + Segments.name(md));
        } finally {
            count.ends(began, good);
        }
    }

    @Override
    public Optional<CustomMetadata> copyLogSegmentData(RemoteLogSegmentMetadata md, LogSegmentData data) throws RemoteStorageException {
        return checked(metrics.copy, Failures.Kind.COPY, "copy", md, p -> {
            long timeoutMs = p.settings.number(Settings.COPY_TIMEOUT);
            long lostMs = p.settings.number(Settings.LOST_TIMEOUT);
            known.forget(Segments.id(md));
            byte[] custom = new Copy(p.client, retry, p.uploads, md, data, timeoutMs, lostMs, Thread::sleep).run(p.deletion);
            metrics.copy.bytes.add(md.segmentSizeInBytes());
            if (custom == null) {
                return Optional.empty();
            }
            measure(p, md, custom.length);
            return Optional.of(new CustomMetadata(custom));
        });
    }

    /** A broker deletes a copy whose custom metadata are too long, and never copies a segment of that partition again. It hardly says so. */
    private void measure(Parts p, RemoteLogSegmentMetadata md, int length) {
        metrics.customMetadataLongest.accumulateAndGet(length, Math::max);
        long most = p.settings.number(Settings.CUSTOM_METADATA_MAX);
        if (length > most) {
            metrics.customMetadataTooLong.increment();
            Log.error("tierkit: the custom metadata of " + Segments.name(md) + " have " + length + " bytes. A broker whose remote.log.metadata.custom.metadata.max.bytes is "
                    + most + " deletes the copy and stops tiering the partition: raise it (and " + Settings.CUSTOM_METADATA_MAX.name + ") to " + length + " or more");
        }
    }

    @Override
    public InputStream fetchLogSegment(RemoteLogSegmentMetadata md, int start) throws RemoteStorageException {
        return fetchLogSegment(md, start, Integer.MAX_VALUE);
    }

    /** Reads from start to end, inclusive and clipped at the end of the log. */
    @Override
    public InputStream fetchLogSegment(RemoteLogSegmentMetadata md, int start, int end) throws RemoteStorageException {
        return checked(metrics.fetch, Failures.Kind.READ, "fetch", md, p -> {
            long size = md.segmentSizeInBytes();
            if (start < 0 || end < start || start > size) {
                throw new IllegalArgumentException("bytes " + start + " to " + end + " of a log of " + size);
            }
            SegmentStream s = new SegmentStream(p.client, known, md, start, Math.min(end + 1L, size), appetite, p.fetchMs, retry, metrics.fetch);
            if (start < size) { // else there is nothing to ask for
                open(s);
            }
            return s;
        });
    }

    private void open(DaemonStream s) throws IOException, InterruptedException {
        long began = System.nanoTime();
        try {
            s.open();
        } catch (IOException e) {
            if (!Brake.judged(e)) {
                brake.hold(began);
            }
            throw e;
        }
    }

    @Override
    public InputStream fetchIndex(RemoteLogSegmentMetadata md, IndexType type) throws RemoteStorageException {
        Failures.Kind kind = type == IndexType.TRANSACTION ? Failures.Kind.TRANSACTION_INDEX : Failures.Kind.READ;
        return checked(metrics.index, kind, "fetch the " + type + " index of", md, p -> {
            IndexStream s = new IndexStream(p.client, known, md, type, p.fetchMs, retry, metrics.index);
            open(s);
            return s;
        });
    }

    @Override
    public void deleteLogSegmentData(RemoteLogSegmentMetadata md) throws RemoteStorageException {
        checked(metrics.delete, Failures.Kind.DELETE, "delete", md, p -> {
            p.deletion.run(md);
            known.forget(Segments.id(md));
            return null;
        });
    }

    /** Stops a daemon that it has started. Calls that wait for a lost one fail now. */
    @Override
    public synchronized void close() {
        retry.close();
        Parts p = parts;
        if (p == null) {
            return;
        }
        try {
            // Copies were interrupted and are being cancelled: the daemon is needed for that.
            Deadline soon = Deadline.in(CLOSE_MS);
            while (metrics.copy.running.sum() > 0 && soon.sleep(20)) {
                continue;
            }
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
        p.daemon.close();
        p.uploads.close();
        metrics.unregister();
    }
}

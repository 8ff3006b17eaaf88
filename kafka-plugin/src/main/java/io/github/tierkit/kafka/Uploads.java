package io.github.tierkit.kafka;

import java.io.Closeable;
import java.io.File;
import java.io.IOException;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import java.util.concurrent.RejectedExecutionException;
import java.util.concurrent.SynchronousQueue;
import java.util.concurrent.ThreadPoolExecutor;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;

/**
 * Sends files to the daemon, on threads of its own: a write to a process that hangs blocks for ever, nothing can end it, and a broker's thread must
 * not be in it. Such a thread stays until the daemon or its connection is gone; there can be only so many.
 */
final class Uploads implements Closeable {
    private static final int MOST = 32; // a broker has ten copiers
    private static final long LOOK_EVERY_MS = 1000;

    private final Client client;
    private final Metrics metrics;
    private final AtomicInteger number = new AtomicInteger();
    private final ThreadPoolExecutor threads = new ThreadPoolExecutor(0, MOST, 30, TimeUnit.SECONDS, new SynchronousQueue<>(), task -> {
        Thread t = new Thread(task, "tierkit-upload-" + number.incrementAndGet());
        t.setDaemon(true);
        return t;
    });

    Uploads(Client client, Metrics metrics) {
        this.client = client;
        this.metrics = metrics;
    }

    /** What the caller does about once a second while its file is on the way. An exception gives the file up. */
    interface Watch {
        void look() throws IOException;
    }

    void send(String path, File file, long size, Deadline deadline, Watch watch) throws IOException, InterruptedException {
        AtomicBoolean stop = new AtomicBoolean();
        Future<?> sent;
        try {
            sent = threads.submit(() -> {
                client.put(path, file, size, deadline, stop);
                return null;
            });
        } catch (RejectedExecutionException e) {
            throw new IOException("too many files are on their way to the daemon, which does not take them", e);
        }
        metrics.filesStreamed.increment();
        try {
            while (!arrived(sent)) {
                watch.look();
                Client.check(deadline);
            }
        } finally {
            stop.set(true);
        }
    }

    private static boolean arrived(Future<?> sent) throws IOException, InterruptedException {
        try {
            sent.get(LOOK_EVERY_MS, TimeUnit.MILLISECONDS);
            return true;
        } catch (TimeoutException e) {
            return false;
        } catch (ExecutionException e) {
            if (e.getCause() instanceof DaemonException || e.getCause() instanceof Client.FileException) {
                throw (IOException) e.getCause();
            }
            throw new IOException("sending a file to the daemon: " + e.getCause(), e.getCause());
        }
    }

    @Override
    public void close() {
        threads.shutdown();
    }
}

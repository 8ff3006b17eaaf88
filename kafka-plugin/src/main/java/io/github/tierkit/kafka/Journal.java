package io.github.tierkit.kafka;

import java.io.File;
import java.io.FileOutputStream;
import java.io.IOException;
import java.nio.channels.ClosedByInterruptException;
import java.nio.channels.FileChannel;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.nio.file.StandardOpenOption;
import java.nio.file.attribute.PosixFilePermissions;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.UUID;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.FutureTask;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.kafka.server.log.remote.storage.RemoteLogSegmentMetadata;

/** The daemon's journal of deletes: a directory with one file for each segment, which the plug-in writes itself while the daemon does not answer. */
class Journal {
    /** How long a write may take: the thread that orders deletes applies cluster metadata, and must not hang with a disk. */
    private static final long DISK_MS = 5000;
    /** Writes that a disk that hangs may hold, each with a thread. */
    static final int MAX_SLOW = 8;

    private final AtomicInteger writing = new AtomicInteger();
    private final Path dir;
    private final boolean ours;
    private final Metrics metrics;

    /** ours: the daemon runs as we do, so the directories that it will need may be made here. */
    Journal(Path dir, boolean ours, Metrics metrics) {
        this.dir = dir;
        this.ours = ours;
        this.metrics = metrics;
    }

    /** Orders that a segment be deleted. When it returns the order is on disk; when it fails for a disk that hangs it may come there later. */
    void write(RemoteLogSegmentMetadata md) throws IOException {
        Map<String, Object> order = new LinkedHashMap<>();
        order.put("version", 1);
        order.put("segment", Segments.json(md));
        String id = Segments.id(md);
        byte[] text = Json.bytes(order);
        if (writing.incrementAndGet() > MAX_SLOW) {
            writing.decrementAndGet();
            throw new IOException("the disk of " + dir + " does not answer");
        }
        FutureTask<Void> task = new FutureTask<>(() -> {
            try {
                put(id, text);
            } finally {
                writing.decrementAndGet();
            }
            return null;
        });
        Thread t = new Thread(task, "tierkit-journal");
        t.setDaemon(true);
        t.start();
        await(task);
        metrics.journalEntries.increment();
    }

    /** An interrupt does not end it: the flag is set again afterwards. */
    private void await(FutureTask<Void> task) throws IOException {
        long until = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(DISK_MS);
        boolean interrupted = Thread.interrupted();
        try {
            while (true) {
                try {
                    task.get(until - System.nanoTime(), TimeUnit.NANOSECONDS);
                    return;
                } catch (InterruptedException e) {
                    interrupted = true;
                } catch (TimeoutException e) {
                    throw new IOException("the disk of " + dir + " does not answer within " + DISK_MS + " ms", e);
                } catch (ExecutionException e) {
                    throw e.getCause() instanceof IOException ? (IOException) e.getCause() : new IOException(e.getCause());
                }
            }
        } finally {
            if (interrupted) {
                Thread.currentThread().interrupt();
            }
        }
    }

    /** Writes the file, and waits for the disk. */
    void put(String id, byte[] text) throws IOException {
        try {
            write(id, text);
        } catch (NoSuchFileException e) {
            if (!ours) {
                throw e;
            }
            makeDirectories();
            write(id, text);
        }
    }

    private void makeDirectories() throws IOException {
        if (dir.getFileSystem().supportedFileAttributeViews().contains("posix")) {
            Files.createDirectories(dir, PosixFilePermissions.asFileAttribute(PosixFilePermissions.fromString("rwx------")));
        } else {
            Files.createDirectories(dir);
        }
        for (Path d = dir.getParent(); d != null && d.getNameCount() >= dir.getNameCount() - 2; d = d.getParent()) {
            sync(d); // of the state directory, the broker's in it, and this one
        }
    }

    private void write(String id, byte[] text) throws IOException {
        if (!Files.isDirectory(dir)) {
            throw new NoSuchFileException(dir.toString());
        }
        Path temp = dir.resolve("." + id + "." + UUID.randomUUID() + ".tmp");
        try {
            try (FileOutputStream out = new FileOutputStream(temp.toFile())) { // not a channel: an interrupt would close it
                out.write(text);
                out.getFD().sync();
            }
            Files.move(temp, dir.resolve(id + ".json"), StandardCopyOption.ATOMIC_MOVE);
        } catch (IOException | RuntimeException e) {
            File left = temp.toFile();
            if (left.exists() && !left.delete()) {
                e.addSuppressed(new IOException(left + " stays"));
            }
            throw e;
        }
        sync(dir);
    }

    /** Only a channel can sync a directory, and an interrupt closes it: then it is done again, and the flag set again. */
    private static void sync(Path directory) throws IOException {
        boolean interrupted = Thread.interrupted();
        try {
            while (true) {
                try (FileChannel channel = FileChannel.open(directory, StandardOpenOption.READ)) {
                    channel.force(true);
                    return;
                } catch (ClosedByInterruptException e) {
                    interrupted = true;
                    Thread.interrupted();
                }
            }
        } finally {
            if (interrupted) {
                Thread.currentThread().interrupt();
            }
        }
    }
}

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
import org.apache.kafka.server.log.remote.storage.RemoteLogSegmentMetadata;

/** The daemon's journal of deletes: a directory with one file for each segment, which the plug-in writes itself while the daemon does not answer. */
final class Journal {
    private final Path dir;
    private final boolean ours;
    private final Metrics metrics;

    /** ours: the daemon runs as we do, so the directories that it will need may be made here. */
    Journal(Path dir, boolean ours, Metrics metrics) {
        this.dir = dir;
        this.ours = ours;
        this.metrics = metrics;
    }

    /** Orders that a segment be deleted. When it returns the order is on disk. */
    void write(RemoteLogSegmentMetadata md) throws IOException, ReflectiveOperationException {
        Map<String, Object> order = new LinkedHashMap<>();
        order.put("version", 1);
        order.put("segment", Segments.json(md));
        String id = Segments.id(md);
        byte[] text = Json.bytes(order);
        try {
            write(id, text);
        } catch (NoSuchFileException e) {
            if (!ours) {
                throw e;
            }
            makeDirectories();
            write(id, text);
        }
        metrics.journalEntries.increment();
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

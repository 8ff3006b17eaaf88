package io.github.tierkit.compat;

import java.io.FileInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Map;

/** Objects by key, each in a file. Ranges behave as in the plug-in's file system storage. */
final class ObjectStore {
    private final Map<String, String> files;

    ObjectStore(final Map<String, String> files) {
        this.files = files;
    }

    static final class KeyNotFoundException extends Exception {
        private static final long serialVersionUID = 1L;

        KeyNotFoundException(final String key) {
            super("Key " + key + " does not exist");
        }
    }

    static final class InvalidRangeException extends Exception {
        private static final long serialVersionUID = 1L;

        InvalidRangeException(final int position, final long size) {
            super("Range start position " + position + " is outside file content. file size = " + size);
        }
    }

    private Path file(final String key) throws KeyNotFoundException {
        final String file = files.get(key);
        if (file == null) {
            throw new KeyNotFoundException(key);
        }
        return Path.of(file);
    }

    byte[] fetch(final String key) throws KeyNotFoundException, IOException {
        return Files.readAllBytes(file(key));
    }

    /** At most size bytes from position: an object that ends earlier gives fewer, one that ends before it is an error. */
    byte[] fetch(final String key, final int position, final int size)
        throws KeyNotFoundException, InvalidRangeException, IOException {
        final Path file = file(key);
        final long length = Files.size(file);
        if (position >= length) {
            throw new InvalidRangeException(position, length);
        }
        try (InputStream in = new FileInputStream(file.toFile())) {
            in.skipNBytes(position);
            return in.readNBytes(size);
        }
    }
}

package io.github.tierkit.compat;

import com.github.luben.zstd.Zstd;
import java.io.IOException;
import java.io.OutputStream;
import java.security.GeneralSecurityException;
import java.util.Arrays;
import javax.crypto.Cipher;
import javax.crypto.spec.GCMParameterSpec;

/** Reads the log and the indexes of one segment. Only its manifest is remembered from one call to the next. */
final class SegmentReader {
    private static final int IV_BYTES = 12;
    private static final int TAG_BYTES = 16;

    private final Job job;
    private final ObjectStore store;
    private final ObjectKeys keys;
    private Manifest manifest;

    SegmentReader(final Job job) {
        this.job = job;
        this.store = new ObjectStore(job.objects());
        this.keys = new ObjectKeys(job);
    }

    /** The broker's name for a segment or index that is not there. */
    static final class RemoteResourceNotFoundException extends Exception {
        private static final long serialVersionUID = 1L;

        RemoteResourceNotFoundException(final String message) {
            super(message);
        }
    }

    private Manifest manifest() throws Exception {
        if (manifest == null) {
            manifest = KeyRing.mapper(job.config()).readValue(store.fetch(keys.manifest()), Manifest.class);
        }
        return manifest;
    }

    /** A part of the log, its first chunk read already: what is wrong up to there fails the call, not the stream. */
    LogStream openLog(final int from, final int to) throws Exception {
        return new LogStream(manifest(), from, to);
    }

    final class LogStream {
        private final Manifest manifest;
        private final int from;
        private final int to;
        private final int last;
        private int next;
        private byte[] content;

        private LogStream(final Manifest manifest, final int from, final int to) throws Exception {
            this.manifest = manifest;
            this.from = from;
            this.to = to;
            next = manifest.chunkIndex().find(from);
            last = manifest.chunkIndex().find(Math.max(from, to));
            manifest.chunkIndex().chunk(last);
            content = read();
        }

        private byte[] read() throws Exception {
            final ChunkIndex.Chunk chunk = manifest.chunkIndex().chunk(next++);
            byte[] bytes = chunk.storedSize() == 0
                ? new byte[0] : store.fetch(keys.log(), chunk.storedPosition(), chunk.storedSize());
            if (manifest.compression() || manifest.encryption() != null) {
                if (bytes.length < chunk.storedSize()) {
                    throw new RuntimeException("Stream has fewer bytes than expected");
                }
            }
            if (manifest.encryption() != null) {
                bytes = decrypt(manifest.encryption(), bytes);
            }
            if (manifest.compression()) {
                bytes = decompress(bytes);
            }
            return cut(chunk, bytes);
        }

        /** To the range, in its first and last chunk. A chunk's size is not compared with the index. */
        private byte[] cut(final ChunkIndex.Chunk chunk, final byte[] bytes) {
            final int skip = Math.max(0, from - chunk.originalPosition());
            final int end = chunk.id() == last
                ? Math.min(bytes.length, to + 1 - chunk.originalPosition()) : bytes.length;
            return Arrays.copyOfRange(bytes, Math.min(skip, end), end);
        }

        void writeTo(final OutputStream out) throws Exception {
            out.write(content);
            while (next <= last) {
                content = read();
                out.write(content);
            }
        }
    }

    byte[] index(final String type) throws Exception {
        final Manifest.IndexPart part = manifest().segmentIndexes().of(type);
        if (part == null) {
            throw new RemoteResourceNotFoundException("Index " + type + " not found on " + keys.indexes());
        }
        if (part.size == 0) {
            return new byte[0];
        }
        final byte[] stored = store.fetch(keys.indexes(), part.position, part.size);
        return manifest.encryption() == null ? stored : decrypt(manifest.encryption(), stored);
    }

    private static byte[] decrypt(final Manifest.Encryption encryption, final byte[] piece)
        throws GeneralSecurityException {
        final Cipher cipher = Cipher.getInstance("AES/GCM/NoPadding");
        cipher.init(Cipher.DECRYPT_MODE, encryption.dataKey,
            new GCMParameterSpec(TAG_BYTES * Byte.SIZE, piece, 0, IV_BYTES));
        cipher.updateAAD(encryption.aad);
        return cipher.doFinal(piece, IV_BYTES, piece.length - IV_BYTES);
    }

    /** One frame that says its size, and nothing behind it. */
    private static byte[] decompress(final byte[] frame) throws IOException {
        final long size = Zstd.getFrameContentSize(frame);
        if (size < 0 || size > Integer.MAX_VALUE) {
            throw new RuntimeException("Invalid decompressed size: " + size);
        }
        final byte[] content = new byte[(int) size];
        final long got = Zstd.decompressByteArray(content, 0, content.length, frame, 0, frame.length);
        if (Zstd.isError(got)) {
            throw new com.github.luben.zstd.ZstdException(got);
        }
        return content;
    }
}

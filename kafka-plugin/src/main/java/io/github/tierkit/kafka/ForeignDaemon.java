package io.github.tierkit.kafka;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;

/**
 * A daemon that somebody else runs, at an address that does not change. Its token is read from a file, again when it is refused; the
 * files of TLS again when it does not answer and they have changed.
 */
final class ForeignDaemon implements Daemon {
    private static final int MAX_TOKEN_BYTES = 4096;

    private final String base;
    private final Path tokenFile;
    private final Tls tls; // null: plain HTTP
    private volatile Endpoint current;

    ForeignDaemon(String base, Path tokenFile, Tls tls) {
        this.base = base;
        this.tokenFile = tokenFile;
        this.tls = tls;
    }

    @Override
    public Endpoint endpoint() throws IOException {
        Endpoint e = current;
        if (e == null) {
            e = read();
            current = e;
        }
        return e;
    }

    @Override
    public Endpoint afterRefusal(Endpoint refused) throws IOException {
        current = read();
        return current;
    }

    @Override
    public void afterSilence(Endpoint silent) {
        if (tls != null && tls.readAgain()) {
            current = new Endpoint(base, silent.token, tls.factory());
        }
    }

    private Endpoint read() throws IOException {
        if (Files.size(tokenFile) > MAX_TOKEN_BYTES) {
            throw new IOException(tokenFile + " is too long for a token");
        }
        String token = new String(Files.readAllBytes(tokenFile), StandardCharsets.US_ASCII).trim();
        if (!token.matches("[!-~]+")) { // a line break in a header would make two of it
            throw new IOException(tokenFile + " does not hold one token");
        }
        return new Endpoint(base, token, tls == null ? null : tls.factory());
    }

    @Override
    public void close() {
        // It is not ours to stop.
    }
}

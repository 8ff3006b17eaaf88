package io.github.tierkit.kafka;

import java.io.ByteArrayInputStream;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.BasicFileAttributes;
import java.security.GeneralSecurityException;
import java.security.KeyFactory;
import java.security.KeyStore;
import java.security.PrivateKey;
import java.security.cert.Certificate;
import java.security.cert.CertificateFactory;
import java.security.spec.InvalidKeySpecException;
import java.security.spec.PKCS8EncodedKeySpec;
import java.util.Base64;
import java.util.Collection;
import javax.net.ssl.KeyManager;
import javax.net.ssl.KeyManagerFactory;
import javax.net.ssl.SSLContext;
import javax.net.ssl.SSLSocketFactory;
import javax.net.ssl.TrustManager;
import javax.net.ssl.TrustManagerFactory;

/** TLS to a daemon that somebody else runs, from PEM files, which may be renewed. */
final class Tls {
    private static final char[] NO_PASSWORD = {};

    private final Path authorities;
    private final Path certificate;
    private final Path key;
    private String stamp; // of the files, before they were read
    private String refused = ""; // of files that could not be used; logged once
    private volatile SSLSocketFactory factory;

    /** Files that are null: the authorities that Java trusts, and no certificate of our own. */
    Tls(Path authorities, Path certificate, Path key) throws IOException, GeneralSecurityException {
        this.authorities = authorities;
        this.certificate = certificate;
        this.key = key;
        stamp = stamps();
        factory = read();
    }

    SSLSocketFactory factory() {
        return factory;
    }

    /** Reads the files again if they have changed. What cannot be used, perhaps because it is being written, leaves things as they were. */
    synchronized boolean readAgain() {
        String now = "";
        try {
            now = stamps();
            if (now.equals(stamp)) {
                return false;
            }
            factory = read();
            stamp = now;
            refused = "";
            Log.info("tierkit's plug-in: the TLS files have changed and were read again");
            return true;
        } catch (IOException | GeneralSecurityException e) {
            if (!now.equals(refused)) {
                refused = now;
                Log.warn("tierkit's plug-in: the TLS files have changed and cannot be used; what was read before stays: " + e);
            }
            return false;
        }
    }

    private String stamps() throws IOException {
        StringBuilder all = new StringBuilder();
        for (Path file : new Path[] {authorities, certificate, key}) {
            if (file != null) {
                BasicFileAttributes a = Files.readAttributes(file, BasicFileAttributes.class);
                all.append(a.lastModifiedTime()).append(' ').append(a.size()).append(' ').append(a.fileKey()).append('\n');
            }
        }
        return all.toString();
    }

    private SSLSocketFactory read() throws IOException, GeneralSecurityException {
        SSLContext context = SSLContext.getInstance("TLS");
        context.init(certificate == null ? null : keys(certificate, key), authorities == null ? null : trust(authorities), null);
        return context.getSocketFactory();
    }

    private static TrustManager[] trust(Path authorities) throws IOException, GeneralSecurityException {
        KeyStore store = empty();
        int n = 0;
        for (Certificate c : certificates(authorities)) {
            store.setCertificateEntry("authority-" + n++, c);
        }
        TrustManagerFactory f = TrustManagerFactory.getInstance(TrustManagerFactory.getDefaultAlgorithm());
        f.init(store);
        return f.getTrustManagers();
    }

    private static KeyManager[] keys(Path certificate, Path key) throws IOException, GeneralSecurityException {
        KeyStore store = empty();
        store.setKeyEntry("key", privateKey(key), NO_PASSWORD, certificates(certificate).toArray(new Certificate[0]));
        KeyManagerFactory f = KeyManagerFactory.getInstance(KeyManagerFactory.getDefaultAlgorithm());
        f.init(store, NO_PASSWORD);
        return f.getKeyManagers();
    }

    private static KeyStore empty() throws IOException, GeneralSecurityException {
        KeyStore store = KeyStore.getInstance("PKCS12");
        store.load(null, NO_PASSWORD);
        return store;
    }

    private static Collection<? extends Certificate> certificates(Path file) throws IOException, GeneralSecurityException {
        Collection<? extends Certificate> all =
                CertificateFactory.getInstance("X.509").generateCertificates(new ByteArrayInputStream(Files.readAllBytes(file)));
        if (all.isEmpty()) {
            throw new IOException(file + " holds no certificate");
        }
        return all;
    }

    private static PrivateKey privateKey(Path file) throws IOException, GeneralSecurityException {
        String text = new String(Files.readAllBytes(file), StandardCharsets.US_ASCII);
        String begin = "-----BEGIN PRIVATE KEY-----";
        int from = text.indexOf(begin);
        int to = text.indexOf("-----END PRIVATE KEY-----");
        if (from < 0 || to < from) {
            throw new IOException(file + " holds no PRIVATE KEY in PEM (PKCS #8, not encrypted)");
        }
        PKCS8EncodedKeySpec spec = new PKCS8EncodedKeySpec(Base64.getMimeDecoder().decode(text.substring(from + begin.length(), to)));
        for (String algorithm : new String[] {"RSA", "EC"}) {
            try {
                return KeyFactory.getInstance(algorithm).generatePrivate(spec);
            } catch (InvalidKeySpecException e) {
                continue; // the other one
            }
        }
        throw new IOException(file + " holds neither an RSA nor an EC key");
    }
}

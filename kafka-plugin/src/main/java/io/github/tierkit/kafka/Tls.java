package io.github.tierkit.kafka;

import java.io.ByteArrayInputStream;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
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

/** TLS to a daemon that somebody else runs, from PEM files. */
final class Tls {
    private static final char[] NO_PASSWORD = {};

    private Tls() {
    }

    /** Files that are null: the authorities that Java trusts, and no certificate of our own. */
    static SSLSocketFactory factory(Path authorities, Path certificate, Path key) throws IOException, GeneralSecurityException {
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

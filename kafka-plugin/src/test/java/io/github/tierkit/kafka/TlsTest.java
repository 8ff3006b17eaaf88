package io.github.tierkit.kafka;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.io.InputStream;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.KeyStore;
import java.security.cert.Certificate;
import java.util.Arrays;
import java.util.Base64;
import javax.net.ssl.KeyManagerFactory;
import javax.net.ssl.SSLContext;
import javax.net.ssl.SSLServerSocket;
import javax.net.ssl.TrustManagerFactory;
import org.apache.kafka.common.config.ConfigException;
import org.apache.kafka.server.log.remote.storage.RemoteStorageException;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

class TlsTest {
    private static final String PASSWORD = "password";

    @TempDir
    Path dir;

    /** Makes a key with a certificate of its own: a key store, and the same as PEM. */
    private KeyStore key(String name, String algorithm) throws Exception {
        Path store = dir.resolve(name + ".p12");
        Process p = new ProcessBuilder(Path.of(System.getProperty("java.home"), "bin", "keytool").toString(), "-genkeypair", "-alias", name, "-keyalg", algorithm,
                "-dname", "CN=" + name, "-ext", "san=ip:127.0.0.1", "-validity", "2", "-storetype", "PKCS12", "-keystore", store.toString(), "-storepass", PASSWORD)
                .redirectErrorStream(true).start();
        String said = new String(p.getInputStream().readAllBytes());
        assertEquals(0, p.waitFor(), said);
        KeyStore ks = KeyStore.getInstance("PKCS12");
        try (InputStream in = Files.newInputStream(store)) {
            ks.load(in, PASSWORD.toCharArray());
        }
        pem(name + ".crt", "CERTIFICATE", ks.getCertificate(name).getEncoded());
        pem(name + ".key", "PRIVATE KEY", ks.getKey(name, PASSWORD.toCharArray()).getEncoded());
        return ks;
    }

    private void pem(String file, String what, byte[] der) throws Exception {
        Files.writeString(dir.resolve(file), "-----BEGIN " + what + "-----\n" + Base64.getMimeEncoder().encodeToString(der) + "\n-----END " + what + "-----\n");
    }

    /** One that wants the certificate of a client. */
    private static SSLServerSocket socket(KeyStore server, Certificate client, int port) throws Exception {
        KeyManagerFactory keys = KeyManagerFactory.getInstance(KeyManagerFactory.getDefaultAlgorithm());
        keys.init(server, PASSWORD.toCharArray());
        KeyStore trusted = KeyStore.getInstance("PKCS12");
        trusted.load(null, null);
        trusted.setCertificateEntry("client", client);
        TrustManagerFactory trust = TrustManagerFactory.getInstance(TrustManagerFactory.getDefaultAlgorithm());
        trust.init(trusted);
        SSLContext context = SSLContext.getInstance("TLS");
        context.init(keys.getKeyManagers(), trust.getTrustManagers(), null);
        SSLServerSocket socket = (SSLServerSocket) context.getServerSocketFactory().createServerSocket(port, 50, InetAddress.getLoopbackAddress());
        socket.setNeedClientAuth(true);
        return socket;
    }

    private static int port() throws IOException {
        try (ServerSocket free = FakeDaemon.listen()) {
            return free.getLocalPort();
        }
    }

    /** Both sides renew everything while the broker runs: half of the files is no reason to give up what works. */
    @Test
    void filesThatChangeAreReadAgain() throws Exception {
        SSLServerSocket socket = socket(key("server", "EC"), key("client", "EC").getCertificate("client"), port());
        try (Bench b = new Bench(dir)) {
            b.daemon.alsoOn(socket);
            b.deadlines(30_000).with("tierkit.serve.url", "https://127.0.0.1:" + socket.getLocalPort()).with("tierkit.serve.tls.ca.file", dir.resolve("server.crt"))
                    .with("tierkit.serve.tls.certificate.file", dir.resolve("client.crt")).with("tierkit.serve.tls.key.file", dir.resolve("client.key")).configured();
            Sample s = new Sample(dir, 100, false);
            b.rsm.copyLogSegmentData(s.md, s.data);
            b.daemon.kill(); // and with it the connections that were kept
            Files.delete(dir.resolve("server.p12"));
            Files.delete(dir.resolve("client.p12"));
            KeyStore server = key("server", "EC");
            byte[] old = Files.readAllBytes(dir.resolve("client.key"));
            KeyStore client = key("client", "EC");
            byte[] renewed = Files.readAllBytes(dir.resolve("client.key"));
            Files.write(dir.resolve("client.key"), Arrays.copyOf(old, old.length / 2));
            b.daemon.restart();
            b.daemon.alsoOn(socket(server, client.getCertificate("client"), socket.getLocalPort()));
            Thread writer = new Thread(() -> {
                try {
                    Thread.sleep(500); // calls fail meanwhile
                    Files.write(dir.resolve("client.key"), renewed);
                } catch (IOException | InterruptedException e) {
                    throw new IllegalStateException(e);
                }
            });
            writer.start();
            try (InputStream in = b.rsm.fetchLogSegment(s.finished(), 0)) {
                assertArrayEquals(s.log, in.readAllBytes());
            }
            writer.join();
        }
    }

    @ParameterizedTest
    @ValueSource(strings = {"RSA", "EC"})
    void mutual(String algorithm) throws Exception {
        SSLServerSocket socket = socket(key("server", algorithm), key("client", algorithm).getCertificate("client"), 0);
        try (Bench b = new Bench(dir)) {
            b.daemon.alsoOn(socket);
            b.with("tierkit.serve.url", "https://127.0.0.1:" + socket.getLocalPort()).with("tierkit.serve.tls.ca.file", dir.resolve("server.crt"))
                    .with("tierkit.serve.tls.certificate.file", dir.resolve("client.crt")).with("tierkit.serve.tls.key.file", dir.resolve("client.key")).configured();
            Sample s = new Sample(dir, 3 << 20, false);
            b.rsm.copyLogSegmentData(s.md, s.data);
            try (InputStream in = b.rsm.fetchLogSegment(s.finished(), 0)) {
                assertArrayEquals(s.log, in.readAllBytes());
            }
            RemoteStorageManager stranger = new RemoteStorageManager();
            b.deadlines(2000).settings.keySet().removeIf(k -> k.startsWith("tierkit.serve.tls.certificate") || k.startsWith("tierkit.serve.tls.key"));
            stranger.configure(b.settings);
            assertThrows(RemoteStorageException.class, () -> stranger.deleteLogSegmentData(s.md), "without a certificate");
            RemoteStorageManager fooled = new RemoteStorageManager();
            fooled.configure(b.with("tierkit.serve.tls.ca.file", dir.resolve("client.crt")).settings);
            assertThrows(RemoteStorageException.class, () -> fooled.deleteLogSegmentData(s.md), "another authority");
            stranger.close();
            fooled.close();
        }
    }

    @Test
    void filesThatHoldNothing() throws Exception {
        try (Bench b = new Bench(dir)) {
            Files.writeString(dir.resolve("empty"), "nothing");
            b.with("tierkit.serve.url", "https://127.0.0.1:1").with("tierkit.serve.tls.ca.file", dir.resolve("empty"));
            ConfigException e = assertThrows(ConfigException.class, b::configured);
            assertTrue(e.getMessage().contains("TLS"), e.getMessage());
        }
        try (Bench b = new Bench(dir)) {
            Files.writeString(dir.resolve("token"), "two words");
            assertThrows(ConfigException.class, b::configured);
        }
        try (Bench b = new Bench(dir)) {
            Files.delete(dir.resolve("token"));
            assertThrows(ConfigException.class, b::configured);
        }
    }
}

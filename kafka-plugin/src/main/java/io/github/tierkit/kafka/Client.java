package io.github.tierkit.kafka;

import java.io.EOFException;
import java.io.File;
import java.io.FileInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.net.HttpURLConnection;
import java.net.Proxy;
import java.net.SocketTimeoutException;
import java.net.URL;
import java.util.Map;
import java.util.concurrent.atomic.AtomicBoolean;
import javax.net.ssl.HttpsURLConnection;

/**
 * Single requests to the daemon. HttpURLConnection and not java.net.http.HttpClient, which gives a quarter of the speed for large bodies and
 * does not exist on Java 8. It sends a request again by itself when a kept-alive connection turns out to be dead: not one with a body whose
 * length was set, and for the others every call of the API may be repeated.
 */
final class Client {
    private static final int MAX_ANSWER_BYTES = 1 << 20;
    private static final int FORBIDDEN = 403;

    private final Daemon daemon;
    private final Metrics metrics;

    Client(Daemon daemon, Metrics metrics) {
        this.daemon = daemon;
        this.metrics = metrics;
    }

    /** What is done with an answer whose status is 200 to 299. */
    private interface Reader<T> {
        T read(HttpURLConnection c) throws IOException;
    }

    /** What is sent. */
    private interface Sender {
        void send(OutputStream out) throws IOException;
    }

    /** One call with a JSON answer. A DaemonException is an error that it answered; any other IOException is no answer. */
    Map<String, Object> call(String method, String path, byte[] body, Deadline deadline) throws IOException {
        return request(method, path, body == null ? -1 : body.length, out -> out.write(body), deadline, c -> json(c, c.getInputStream(), deadline));
    }

    /**
     * One call whose answer is bytes. It is a PUT since HttpURLConnection first waits for a millisecond, for the end of the connection, when it is to send a
     * POST of known length over one that was kept (sun.net.www.http.HttpClient.New of Java 17): a broker's fetch takes two.
     */
    Body open(String path, byte[] body, Deadline deadline) throws IOException {
        return request("PUT", path, body.length, out -> out.write(body), deadline, c -> {
            long length = c.getContentLengthLong();
            if (length < 0) {
                throw new IOException("an answer without Content-Length");
            }
            return new Body(c, c.getInputStream(), length);
        });
    }

    /** Sends a file that has the given size, or fails. A thread that writes can hang in it for as long as the daemon does. */
    void put(String path, File file, long size, Deadline deadline, AtomicBoolean stop) throws IOException {
        request("PUT", path, size, out -> send(out, file, size, deadline, stop), deadline, c -> json(c, c.getInputStream(), deadline));
    }

    private static void send(OutputStream out, File file, long size, Deadline deadline, AtomicBoolean stop) throws IOException {
        byte[] buffer = new byte[(int) Math.min(Math.max(size, 1), 256 << 10)];
        try (InputStream in = open(file)) {
            for (long left = size; left > 0; ) {
                check(deadline);
                if (stop.get()) {
                    throw new IOException("the copy has ended");
                }
                int n = read(in, buffer, (int) Math.min(left, buffer.length), file);
                out.write(buffer, 0, n);
                left -= n;
            }
        }
    }

    private static InputStream open(File file) throws FileException {
        try {
            return new FileInputStream(file); // not a channel: an interrupt would close it
        } catch (IOException e) {
            throw new FileException(e.toString());
        }
    }

    private static int read(InputStream in, byte[] buffer, int length, File file) throws FileException {
        int n;
        try {
            n = in.read(buffer, 0, length);
        } catch (IOException e) {
            throw new FileException("reading " + file + ": " + e);
        }
        if (n < 0) {
            throw new FileException(file + " is shorter than it was when its copy began");
        }
        return n;
    }

    /** A file of the broker's cannot be read: nothing that the daemon could mend. */
    static final class FileException extends IOException {
        private static final long serialVersionUID = 1;

        FileException(String message) {
            super(message);
        }
    }

    static void check(Deadline deadline) throws IOException {
        if (deadline.passed()) {
            throw new SocketTimeoutException("the deadline of the call has passed");
        }
    }

    private <T> T request(String method, String path, long length, Sender sender, Deadline deadline, Reader<T> reader) throws IOException {
        Endpoint e = daemon.endpoint();
        try {
            return request(e, method, path, length, sender, deadline, reader);
        } catch (DaemonException x) {
            if (!x.is(DaemonException.FORBIDDEN)) {
                throw x;
            }
            Endpoint now = daemon.afterRefusal(e);
            if (now.same(e)) {
                throw x;
            }
            return request(now, method, path, length, sender, deadline, reader);
        } catch (FileException x) {
            throw x;
        } catch (IOException x) {
            daemon.afterSilence(e);
            throw x;
        }
    }

    private <T> T request(Endpoint e, String method, String path, long length, Sender sender, Deadline deadline, Reader<T> reader) throws IOException {
        HttpURLConnection c = null;
        boolean ok = false;
        boolean answered = false;
        try {
            check(deadline);
            c = connect(e, method, path, deadline);
            if (length >= 0) {
                c.setFixedLengthStreamingMode(length);
                c.setDoOutput(true);
                try (OutputStream out = c.getOutputStream()) {
                    sender.send(out);
                }
            }
            int status = status(c);
            answered = true;
            if (status < 200 || status > 299) {
                DaemonException x = error(c, status, deadline);
                ok = true; // read to its end
                throw x;
            }
            T value = reader.read(c);
            ok = true;
            return value;
        } catch (RuntimeException x) { // what the JDK's client throws where it does not expect what it sees
            throw new IOException("talking to the daemon: " + x, x);
        } finally {
            metrics.answered(answered);
            if (c != null && !ok) {
                c.disconnect();
            }
        }
    }

    private static HttpURLConnection connect(Endpoint e, String method, String path, Deadline deadline) throws IOException {
        HttpURLConnection c = (HttpURLConnection) new URL(e.base + path).openConnection(Proxy.NO_PROXY);
        if (e.tls != null) {
            ((HttpsURLConnection) c).setSSLSocketFactory(e.tls);
        }
        c.setRequestMethod(method);
        c.setInstanceFollowRedirects(false);
        c.setUseCaches(false);
        c.setAllowUserInteraction(false);
        c.setConnectTimeout(deadline.connectMs());
        c.setReadTimeout(deadline.readMs());
        c.setRequestProperty("Authorization", "Bearer " + e.token);
        c.setRequestProperty("Content-Type", "application/json");
        c.setRequestProperty("Accept", "*/*");
        c.setRequestProperty("User-Agent", "tierkit-kafka-plugin");
        c.setRequestProperty("Tierkit-Holds", "client"); // see Brake
        return c;
    }

    private static int status(HttpURLConnection c) throws IOException {
        int status = c.getResponseCode();
        // Another program may have got the port of a daemon that ended.
        if (!"1".equals(c.getHeaderField("Tierkit-Protocol"))) {
            throw new IOException("what answers at " + c.getURL().getAuthority() + " is not tierkit serve of protocol 1: status " + status);
        }
        return status;
    }

    private static DaemonException error(HttpURLConnection c, int status, Deadline deadline) throws IOException {
        String otherwise = "the daemon answers with status " + status;
        Object error = null;
        InputStream in = c.getErrorStream(); // null: no body
        if (in != null) {
            try {
                error = json(c, in, deadline).get("error");
            } catch (NotJsonException e) {
                otherwise += ": " + e.getMessage();
            }
        }
        if (error == null && status == FORBIDDEN) {
            return new DaemonException(DaemonException.FORBIDDEN, otherwise, false);
        }
        return DaemonException.of(error, otherwise);
    }

    /** A body that came whole and is not what it should be. */
    private static final class NotJsonException extends IOException {
        private static final long serialVersionUID = 1;

        NotJsonException(IOException cause) {
            super(cause.getMessage(), cause);
        }
    }

    /** Reads the whole body, so that the connection can be used again. No body is an empty object. */
    private static Map<String, Object> json(HttpURLConnection c, InputStream in, Deadline deadline) throws IOException {
        long length = c.getContentLengthLong();
        if (length < 0 && c.getResponseCode() == HttpURLConnection.HTTP_NO_CONTENT) {
            length = 0;
        }
        if (length < 0 || length > MAX_ANSWER_BYTES) {
            throw new IOException("an answer with a Content-Length of " + length);
        }
        byte[] text = new byte[(int) length];
        for (int at = 0; at < text.length; ) {
            check(deadline);
            int n = in.read(text, at, text.length - at);
            if (n < 0) {
                throw new EOFException("the daemon's answer ends " + (text.length - at) + " bytes short of its Content-Length");
            }
            at += n;
        }
        in.close();
        try {
            return Json.object(length == 0 ? new byte[] {'{', '}'} : text);
        } catch (IOException e) {
            throw new NotJsonException(e);
        }
    }
}

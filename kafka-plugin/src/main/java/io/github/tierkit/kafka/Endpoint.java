package io.github.tierkit.kafka;

import java.util.Objects;
import javax.net.ssl.SSLSocketFactory;

/** Where the daemon answers, and with which token. */
final class Endpoint {
    final String base; // http://127.0.0.1:40123
    final String token;
    final SSLSocketFactory tls; // null: plain HTTP

    Endpoint(String base, String token, SSLSocketFactory tls) {
        this.base = base;
        this.token = token;
        this.tls = tls;
    }

    boolean same(Endpoint other) {
        return base.equals(other.base) && Objects.equals(token, other.token);
    }
}

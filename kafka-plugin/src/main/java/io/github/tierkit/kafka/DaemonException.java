package io.github.tierkit.kafka;

import java.io.IOException;
import java.util.Map;
import org.apache.kafka.server.log.remote.storage.RemoteStorageException;

/** An error that the daemon answered, as opposed to no answer at all. */
final class DaemonException extends IOException {
    private static final long serialVersionUID = 1;

    static final String NOT_FOUND = "not_found";
    static final String NO_INDEX = "no_index";
    static final String UNKNOWN_OPERATION = "unknown_operation";
    static final String FORBIDDEN = "forbidden";
    static final String CLOSED = "closed";
    static final String UNKNOWN = ""; // an answer without the error that the API promises

    final String kind;
    final boolean retriable;
    /** How long the daemon would answer the same again without looking; 0: it looks each time. */
    final long retryAfterMs;
    /** Whether this is an answer given once more, which needs no stack trace: the first one had it. */
    final boolean repeated;
    /** What a broker is told where this is repeated, null before the first time. One is enough: it has no stack trace that could differ. */
    volatile RemoteStorageException told;

    DaemonException(String kind, String message, boolean retriable) {
        this(kind, message, retriable, 0);
    }

    private DaemonException(String kind, String message, boolean retriable, long retryAfterMs) {
        super(message);
        this.kind = kind;
        this.retriable = retriable;
        this.retryAfterMs = retryAfterMs;
        repeated = false;
    }

    private DaemonException(DaemonException first) {
        super(first.getMessage());
        kind = first.kind;
        retriable = first.retriable;
        retryAfterMs = first.retryAfterMs;
        repeated = true;
        setStackTrace(new StackTraceElement[0]);
    }

    /** The same answer, as it is given from now on. */
    DaemonException again() {
        return new DaemonException(this);
    }

    /** Reads {"kind", "message", "retriable", "retryAfterMs"}, of which everything may be missing. */
    static DaemonException of(Object error, String otherwise) {
        if (!(error instanceof Map)) {
            return new DaemonException(UNKNOWN, otherwise, false);
        }
        Map<?, ?> e = (Map<?, ?>) error;
        Object kind = e.get("kind");
        Object message = e.get("message");
        Object after = e.get("retryAfterMs");
        return new DaemonException(kind instanceof String ? (String) kind : UNKNOWN,
                message instanceof String ? (String) message : otherwise, Boolean.TRUE.equals(e.get("retriable")),
                after instanceof Long ? (Long) after : 0);
    }

    boolean is(String what) {
        return kind.equals(what);
    }

    /** The daemon is about to end: the same as one that does not answer. */
    boolean leaving() {
        return is(CLOSED);
    }
}

package io.github.tierkit.kafka;

import java.io.IOException;
import java.util.Map;

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

    DaemonException(String kind, String message, boolean retriable) {
        super(message);
        this.kind = kind;
        this.retriable = retriable;
    }

    /** Reads {"kind", "message", "retriable"}, of which everything may be missing. */
    static DaemonException of(Object error, String otherwise) {
        if (!(error instanceof Map)) {
            return new DaemonException(UNKNOWN, otherwise, false);
        }
        Map<?, ?> e = (Map<?, ?>) error;
        Object kind = e.get("kind");
        Object message = e.get("message");
        return new DaemonException(kind instanceof String ? (String) kind : UNKNOWN,
                message instanceof String ? (String) message : otherwise, Boolean.TRUE.equals(e.get("retriable")));
    }

    boolean is(String what) {
        return kind.equals(what);
    }

    /** The daemon is about to end: the same as one that does not answer. */
    boolean leaving() {
        return is(CLOSED);
    }
}

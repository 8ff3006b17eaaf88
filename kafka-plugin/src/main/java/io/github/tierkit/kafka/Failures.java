package io.github.tierkit.kafka;

import java.io.IOException;
import java.lang.reflect.Constructor;
import org.apache.kafka.server.log.remote.storage.RemoteResourceNotFoundException;
import org.apache.kafka.server.log.remote.storage.RemoteStorageException;
import org.apache.kafka.server.log.remote.storage.RemoteStorageManager;

/** Makes the exception that a broker understands of everything that can be thrown. */
final class Failures {
    /** What a failure of a call may be. */
    enum Kind {
        /**
         * Never the retriable exception: a broker that gets it from a copy cleans nothing up and counts no error, so that uploads would die
         * without a word.
         */
        COPY,
        /** Not found is the store's word for "there is nothing". */
        READ,
        /** Not found here means "no aborted transactions" to a broker, so it is said only of an index that the segment never had. */
        TRANSACTION_INDEX,
        DELETE,
    }

    /** Kafka 4.2 and later have it (4.3 and later heed it); null before. Looked up where the broker's own classes are. */
    private static final Constructor<?> RETRIABLE = retriable();

    private Failures() {
    }

    private static Constructor<?> retriable() {
        try {
            ClassLoader brokers = RemoteStorageManager.class.getClassLoader();
            Class<?> c = Class.forName("org.apache.kafka.server.log.remote.storage.RetriableRemoteStorageException", false, brokers);
            return c.asSubclass(RemoteStorageException.class).getConstructor(String.class, Throwable.class);
        } catch (ReflectiveOperationException | ClassCastException | LinkageError e) {
            return null;
        }
    }

    static RemoteStorageException of(Throwable cause, Kind kind, String what) {
        if (cause instanceof RemoteStorageException) {
            return (RemoteStorageException) cause;
        }
        if (cause instanceof InterruptedException) {
            return new RemoteStorageException(what + ": interrupted", cause);
        }
        if (cause instanceof DaemonException && ((DaemonException) cause).repeated) {
            return repeated((DaemonException) cause, kind, what);
        }
        String message = what + ": " + (cause instanceof DaemonException ? cause.getMessage() : cause.toString());
        return exception(cause, kind, message, cause);
    }

    /**
     * A broker writes thousands of them into its log in a second: one line each, which the whole error stands before. They are one object, since looking
     * for the stack trace that it does not have would take longer than all else that is done here.
     */
    private static RemoteStorageException repeated(DaemonException again, Kind kind, String what) {
        RemoteStorageException e = again.told;
        if (e == null) {
            e = exception(again, kind, what + ": " + again.kind + ", as when it was asked for just now", null);
            e.setStackTrace(new StackTraceElement[0]);
            again.told = e;
        }
        return e;
    }

    private static RemoteStorageException exception(Throwable why, Kind kind, String message, Throwable cause) {
        if (absent(why, kind)) {
            return new RemoteResourceNotFoundException(message, cause);
        }
        if (RETRIABLE != null && kind != Kind.COPY && passing(why)) {
            try {
                return (RemoteStorageException) RETRIABLE.newInstance(message, cause);
            } catch (ReflectiveOperationException | RuntimeException e) {
                return new RemoteStorageException(message, cause);
            }
        }
        return new RemoteStorageException(message, cause);
    }

    private static boolean absent(Throwable cause, Kind kind) {
        if (!(cause instanceof DaemonException)) {
            return false;
        }
        DaemonException e = (DaemonException) cause;
        return kind == Kind.READ && (e.is(DaemonException.NOT_FOUND) || e.is(DaemonException.NO_INDEX))
                || kind == Kind.TRANSACTION_INDEX && e.is(DaemonException.NO_INDEX);
    }

    /** Whether the same call may succeed later. */
    private static boolean passing(Throwable cause) {
        if (cause instanceof DaemonException) {
            return ((DaemonException) cause).retriable;
        }
        return cause instanceof IOException;
    }
}

package io.github.tierkit.kafka;

/**
 * The broker's log. slf4j is the broker's, not ours; should it ever be gone, the plug-in still works and its messages go to the standard error.
 */
final class Log {
    private static final boolean SLF4J = there();

    private Log() {
    }

    private static boolean there() {
        try {
            return Slf4j.LOG != null;
        } catch (LinkageError e) {
            return false;
        }
    }

    static void info(String message) {
        if (SLF4J) {
            Slf4j.LOG.info(message);
        } else {
            System.err.println("INFO " + message);
        }
    }

    static void warn(String message) {
        if (SLF4J) {
            Slf4j.LOG.warn(message);
        } else {
            System.err.println("WARN " + message);
        }
    }

    static void error(String message) {
        if (SLF4J) {
            Slf4j.LOG.error(message);
        } else {
            System.err.println("ERROR " + message);
        }
    }

    /** A class of its own, so that it is linked only when it is asked for. */
    private static final class Slf4j {
        static final org.slf4j.Logger LOG = org.slf4j.LoggerFactory.getLogger("io.github.tierkit.kafka");
    }
}

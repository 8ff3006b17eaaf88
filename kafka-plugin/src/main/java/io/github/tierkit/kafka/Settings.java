package io.github.tierkit.kafka;

import java.net.MalformedURLException;
import java.net.URL;
import java.nio.file.Path;
import java.nio.file.Paths;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.common.config.ConfigException;

/** The plug-in's own settings. Everything else that the broker passes is the daemon's. */
final class Settings {
    /** One setting. docs/kafka-plugin.md has a row for each, which a test compares. */
    static final class Setting {
        final String name;
        final String byDefault; // "": none
        final long atLeast; // of numbers

        private Setting(String name, String byDefault, long atLeast) {
            this.name = name;
            this.byDefault = byDefault;
            this.atLeast = atLeast;
        }
    }

    static final Setting COMMAND = text("tierkit.serve.command");
    static final Setting LOG_FILE = text("tierkit.serve.log.file");
    static final Setting START_TIMEOUT = number("tierkit.serve.start.timeout.ms", 90_000, 1000);
    static final Setting URL = text("tierkit.serve.url");
    static final Setting TOKEN_FILE = text("tierkit.serve.token.file");
    static final Setting TLS_CA_FILE = text("tierkit.serve.tls.ca.file");
    static final Setting TLS_CERTIFICATE_FILE = text("tierkit.serve.tls.certificate.file");
    static final Setting TLS_KEY_FILE = text("tierkit.serve.tls.key.file");
    static final Setting COPY_TIMEOUT = number("tierkit.plugin.copy.timeout.ms", 3_600_000, 1000);
    static final Setting LOST_TIMEOUT = number("tierkit.plugin.lost.timeout.ms", 60_000, 100);
    static final Setting FETCH_TIMEOUT = number("tierkit.plugin.fetch.timeout.ms", 30_000, 500);
    static final Setting DELETE_TIMEOUT = number("tierkit.plugin.delete.timeout.ms", 60_000, 1000);
    static final Setting CUSTOM_METADATA_MAX = number("tierkit.plugin.custom.metadata.max.bytes", 128, 0);
    /** The daemon's setting, which the plug-in needs to know as well: the journal of deletes lies in it. */
    static final Setting STATE_DIR = text("tierkit.state.dir");

    static final List<Setting> ALL = Collections.unmodifiableList(Arrays.asList(COMMAND, LOG_FILE, START_TIMEOUT, URL, TOKEN_FILE, TLS_CA_FILE,
            TLS_CERTIFICATE_FILE, TLS_KEY_FILE, STATE_DIR, COPY_TIMEOUT, LOST_TIMEOUT, FETCH_TIMEOUT, DELETE_TIMEOUT, CUSTOM_METADATA_MAX));

    private static final List<String> PREFIXES = Arrays.asList("tierkit.serve.", "tierkit.plugin.");

    private final Map<String, String> given = new LinkedHashMap<>();
    final int brokerId;

    Settings(Map<String, ?> configs) {
        Object id = configs.get("broker.id") != null ? configs.get("broker.id") : configs.get("node.id");
        if (id == null) {
            throw new ConfigException("the broker passes no broker.id");
        }
        try {
            brokerId = Integer.parseInt(id.toString().trim());
        } catch (NumberFormatException e) {
            throw new ConfigException("broker.id", id, "not a number");
        }
        for (Map.Entry<String, ?> e : configs.entrySet()) {
            if (e.getValue() != null && !e.getKey().equals("broker.id") && !e.getKey().equals("node.id")) {
                given.put(e.getKey(), e.getValue().toString());
            }
        }
        check();
    }

    private static Setting text(String name) {
        return new Setting(name, "", 0);
    }

    private static Setting number(String name, long byDefault, long atLeast) {
        return new Setting(name, String.valueOf(byDefault), atLeast);
    }

    private void check() {
        for (String name : given.keySet()) {
            if (PREFIXES.stream().anyMatch(name::startsWith) && ALL.stream().noneMatch(s -> s.name.equals(name))) {
                throw new ConfigException(name + " is no setting of tierkit's plug-in");
            }
        }
        if (has(COMMAND) == has(URL)) {
            throw new ConfigException("set one of " + COMMAND.name + " (the plug-in starts the daemon) and " + URL.name + " (it runs already)");
        }
        if (has(COMMAND)) {
            if (!has(STATE_DIR)) {
                throw new ConfigException(STATE_DIR.name + " is required: a directory for what the daemon keeps");
            }
            command();
        } else {
            checkUrl();
        }
        for (Setting s : ALL) {
            if (!s.byDefault.isEmpty()) {
                number(s);
            }
        }
    }

    private void checkUrl() {
        try {
            URL url = new URL(text(URL));
            boolean http = url.getProtocol().equals("http") || url.getProtocol().equals("https");
            if (!http || url.getHost().isEmpty() || !url.getFile().replace("/", "").isEmpty() || url.getUserInfo() != null || url.getPort() > 65535) {
                throw new MalformedURLException("not http://HOST:PORT or https://HOST:PORT");
            }
        } catch (MalformedURLException e) {
            throw new ConfigException(URL.name, text(URL), e.getMessage());
        }
        if (!has(TOKEN_FILE)) {
            throw new ConfigException(TOKEN_FILE.name + " is required with " + URL.name);
        }
        if (has(TLS_CERTIFICATE_FILE) != has(TLS_KEY_FILE)) {
            throw new ConfigException(TLS_CERTIFICATE_FILE.name + " and " + TLS_KEY_FILE.name + " belong together");
        }
    }

    boolean has(Setting s) {
        return !text(s).isEmpty();
    }

    String text(Setting s) {
        return given.getOrDefault(s.name, s.byDefault).trim();
    }

    long number(Setting s) {
        try {
            long n = Long.parseLong(text(s));
            if (n < s.atLeast || n > Integer.MAX_VALUE) {
                throw new NumberFormatException();
            }
            return n;
        } catch (NumberFormatException e) {
            throw new ConfigException(s.name, text(s), "not a number from " + s.atLeast + " to " + Integer.MAX_VALUE);
        }
    }

    Path path(Setting s) {
        return Paths.get(text(s));
    }

    String baseUrl() {
        return text(URL).replaceAll("/+$", "");
    }

    /** What the daemon gets: everything, as it was given. */
    Map<String, String> all() {
        return Collections.unmodifiableMap(given);
    }

    Path journal() {
        return path(STATE_DIR).resolve("broker-" + brokerId).resolve("deletes");
    }

    Path logFile() {
        return has(LOG_FILE) ? path(LOG_FILE) : path(STATE_DIR).resolve("broker-" + brokerId + ".log");
    }

    /** The words of the command: separated by blanks, or in double quotes. */
    List<String> command() {
        List<String> words = new ArrayList<>();
        StringBuilder word = null;
        boolean quoted = false;
        for (char c : (text(COMMAND) + " ").toCharArray()) {
            if (c == '"') {
                quoted = !quoted;
                word = word == null ? new StringBuilder() : word;
            } else if (!quoted && Character.isWhitespace(c)) {
                if (word != null) {
                    words.add(word.toString());
                }
                word = null;
            } else {
                word = (word == null ? new StringBuilder() : word).append(c);
            }
        }
        if (quoted || words.isEmpty()) {
            throw new ConfigException(COMMAND.name, text(COMMAND), "a quote without its end");
        }
        return words;
    }
}

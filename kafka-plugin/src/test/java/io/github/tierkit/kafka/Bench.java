package io.github.tierkit.kafka;

import java.io.Closeable;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.atomic.AtomicInteger;

/** A plug-in beside a daemon that is not real, each test with its own. */
final class Bench implements Closeable {
    private static final AtomicInteger BROKERS = new AtomicInteger(1000);

    final Path dir;
    final FakeDaemon daemon = new FakeDaemon();
    final RemoteStorageManager rsm = new RemoteStorageManager();
    final Map<String, Object> settings = new HashMap<>();

    Bench(Path dir) throws IOException {
        this.dir = dir;
        Files.writeString(dir.resolve("token"), FakeDaemon.TOKEN + "\n");
        settings.put("broker.id", BROKERS.incrementAndGet()); // metrics are named by it
        settings.put("tierkit.serve.url", daemon.url());
        settings.put("tierkit.serve.token.file", dir.resolve("token").toString());
        settings.put("tierkit.state.dir", dir.resolve("state").toString());
        deadlines(120_000); // a machine that does much else fails no test
    }

    /** Sets the deadline of each call; short ones are for tests that run into them. */
    Bench deadlines(long ms) {
        for (String call : new String[] {"copy", "fetch", "delete"}) {
            with("tierkit.plugin." + call + ".timeout.ms", String.valueOf(ms));
        }
        return with("tierkit.plugin.lost.timeout.ms", String.valueOf(ms));
    }

    Bench with(String key, Object value) {
        settings.put(key, value);
        return this;
    }

    Bench configured() {
        rsm.configure(settings);
        return this;
    }

    Path journal() throws IOException {
        return Files.createDirectories(dir.resolve("state/broker-" + settings.get("broker.id") + "/deletes"));
    }

    @Override
    public void close() throws IOException {
        rsm.close();
        daemon.close();
    }
}

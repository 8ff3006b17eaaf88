package io.github.tierkit.kafka;

import java.io.Closeable;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.Map;

/** A plug-in beside a daemon that is not real, each test with its own. */
final class Bench implements Closeable {
    final Path dir;
    final FakeDaemon daemon = new FakeDaemon();
    final RemoteStorageManager rsm = new RemoteStorageManager();
    final Map<String, Object> settings = new HashMap<>();

    Bench(Path dir) throws IOException {
        this.dir = dir;
        Files.writeString(dir.resolve("token"), FakeDaemon.TOKEN + "\n");
        settings.put("broker.id", 1);
        settings.put("tierkit.serve.url", daemon.url());
        settings.put("tierkit.serve.token.file", dir.resolve("token").toString());
        settings.put("tierkit.state.dir", dir.resolve("state").toString());
        settings.put("tierkit.plugin.copy.timeout.ms", "6000");
        settings.put("tierkit.plugin.lost.timeout.ms", "1500");
        settings.put("tierkit.plugin.fetch.timeout.ms", "3000");
        settings.put("tierkit.plugin.delete.timeout.ms", "3000");
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
        return Files.createDirectories(dir.resolve("state/broker-1/deletes"));
    }

    @Override
    public void close() throws IOException {
        rsm.close();
        daemon.close();
    }
}

package io.github.tierkit.kafka;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.List;
import java.util.Map;

/** A program that is started as tierkit serve --supervised is, and does what its settings say that begin with "fake.". */
final class FakeServe {
    private FakeServe() {
    }

    public static void main(String[] args) throws Exception {
        System.err.println("a line of the log");
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        Map<String, Object> hello = Json.object(in.readLine().getBytes(StandardCharsets.UTF_8));
        Map<?, ?> settings = (Map<?, ?>) hello.get("settings");
        // What it got, for the test to look at: a line for each start.
        Map<String, Object> got = Map.of("hello", hello, "args", List.of(args), "pid", ProcessHandle.current().pid(),
                "command", ProcessHandle.current().info().arguments().map(List::of).orElse(List.of()), "environment", System.getenv());
        Files.writeString(Path.of((String) settings.get("fake.report")), new String(Json.bytes(got), StandardCharsets.UTF_8) + "\n",
                StandardOpenOption.CREATE, StandardOpenOption.APPEND);
        if (settings.get("fake.error") != null) {
            say(Map.of("protocol", 1, "error", settings.get("fake.error")));
            System.exit(2);
        }
        Object busy = settings.get("fake.busy"); // a file that says that it was busy once
        if (busy != null && Files.notExists(Path.of((String) busy))) {
            Files.createFile(Path.of((String) busy));
            say(Map.of("protocol", 1, "error", "the state directory is held", "retriable", true));
            System.exit(2);
        }
        FakeDaemon daemon = new FakeDaemon();
        daemon.token = (String) hello.get("token");
        say(Map.of("protocol", settings.get("fake.protocol") == null ? 1 : 9, "port", Integer.valueOf(daemon.url().substring(daemon.url().lastIndexOf(':') + 1)),
                "version", "fake", "warnings", List.of("a warning")));
        for (int i = 0; settings.get("fake.chatter") != null && i < 10_000; i++) {
            System.out.println("what nobody should say here, and nobody reads: a pipe holds 64 KiB of it");
            System.err.println("a longer log");
        }
        if (settings.get("fake.hang") != null && !Files.exists(Path.of((String) settings.get("fake.hang")))) {
            Files.createFile(Path.of((String) settings.get("fake.hang")));
            daemon.fault = (r, s) -> {
                Thread.sleep(600_000);
                return true;
            };
        }
        if (in.read() < 0) {
            System.exit(0);
        }
        System.exit(7);
    }

    private static void say(Map<String, Object> line) {
        System.out.println(new String(Json.bytes(line), StandardCharsets.UTF_8));
    }
}

package io.github.tierkit.kafka;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.lang.management.ManagementFactory;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.stream.Collectors;
import javax.management.ObjectName;
import org.apache.kafka.common.config.ConfigException;
import org.apache.kafka.server.log.remote.storage.RemoteStorageException;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class SupervisorTest {
    @TempDir
    Path dir;

    private Map<String, Object> settings(int broker) {
        Map<String, Object> m = new HashMap<>();
        m.put("broker.id", broker);
        m.put("node.id", broker);
        m.put("tierkit.serve.command", "\"" + Path.of(System.getProperty("java.home"), "bin", "java") + "\" -XX:TieredStopAtLevel=1 -cp \""
                + System.getProperty("java.class.path") + "\" " + FakeServe.class.getName());
        m.put("tierkit.state.dir", dir.resolve("state").toString());
        m.put("fake.report", report(broker).toString());
        return m;
    }

    private Path report(int broker) {
        return dir.resolve("report-" + broker);
    }

    private List<Map<String, Object>> starts(int broker) throws IOException {
        List<Map<String, Object>> list = new ArrayList<>();
        String text = Files.exists(report(broker)) ? new String(Files.readAllBytes(report(broker)), StandardCharsets.UTF_8) : "";
        String whole = text.substring(0, text.lastIndexOf('\n') + 1); // one that just starts is still writing its line
        for (String line : whole.lines().collect(Collectors.toList())) {
            list.add(Json.object(line.getBytes(StandardCharsets.UTF_8)));
        }
        return list;
    }

    private static ProcessHandle process(Map<String, Object> start) {
        return ProcessHandle.of((Long) start.get("pid")).orElseThrow();
    }

    @Test
    void everySettingAndAFreshTokenGoToStandardInput() throws Exception {
        Map<String, Object> settings = settings(11);
        settings.put("storage.s3.bucket.name", "b\u00fccket \"quoted\"");
        settings.put("storage.aws.secret.access.key", "the-secret");
        RemoteStorageManager rsm = new RemoteStorageManager();
        rsm.configure(settings);
        Sample s = new Sample(dir, 1000, false);
        rsm.copyLogSegmentData(s.md, s.data);
        Map<String, Object> start = starts(11).get(0);
        Map<?, ?> hello = (Map<?, ?>) start.get("hello");
        settings.remove("broker.id");
        settings.remove("node.id");
        assertEquals(settings, hello.get("settings"));
        assertEquals(11L, hello.get("brokerId"));
        assertEquals(1L, hello.get("protocol"));
        assertEquals(List.of("serve", "--supervised"), start.get("args"));
        assertEquals("a line of the log\n", Files.readString(dir.resolve("state/broker-11.log")));
        String token = (String) hello.get("token");
        assertTrue(token.length() >= 32);
        String visible = start.get("command").toString() + start.get("environment");
        assertFalse(visible.contains(token) || visible.contains("the-secret"), "in the arguments or the environment");
        ProcessHandle p = process(start);
        rsm.close();
        assertFalse(p.isAlive(), "the end of its standard input ended it");
        rsm.close();
    }

    @Test
    void whatItRefusesKeepsTheBrokerFromStarting() {
        Map<String, Object> settings = settings(12);
        settings.put("fake.error", "storage.s3.region is missing");
        ConfigException e = assertThrows(ConfigException.class, () -> new RemoteStorageManager().configure(settings));
        assertTrue(e.getMessage().contains("storage.s3.region is missing"), e.getMessage());
        settings.remove("fake.error");
        settings.put("fake.protocol", "9");
        e = assertThrows(ConfigException.class, () -> new RemoteStorageManager().configure(settings));
        assertTrue(e.getMessage().contains("protocol 9"), e.getMessage());
        settings.put("tierkit.serve.command", dir.resolve("nothing").toString());
        e = assertThrows(ConfigException.class, () -> new RemoteStorageManager().configure(settings));
        assertTrue(e.getMessage().contains("nothing"), e.getMessage());
    }

    @Test
    void whatMayPassIsTriedAgain() throws Exception {
        Map<String, Object> settings = settings(19);
        settings.put("fake.busy", dir.resolve("busy").toString());
        RemoteStorageManager rsm = new RemoteStorageManager();
        rsm.configure(settings);
        assertEquals(2, starts(19).size());
        rsm.close();
    }

    @Test
    void aKilledOneIsStartedAgainWithAnotherToken() throws Exception {
        RemoteStorageManager rsm = new RemoteStorageManager();
        rsm.configure(settings(13));
        try {
            Sample first = new Sample(dir, 1000, false);
            rsm.copyLogSegmentData(first.md, first.data);
            process(starts(13).get(0)).destroyForcibly();
            // At once, while it is down: the copy waits for the next one.
            Sample second = new Sample(dir, 1000, false);
            rsm.copyLogSegmentData(second.md, second.data);
            assertEquals(2, starts(13).size());
            assertNotEquals(token(starts(13).get(0)), token(starts(13).get(1)));
        } finally {
            rsm.close();
        }
    }

    private static Object token(Map<String, Object> start) {
        return ((Map<?, ?>) start.get("hello")).get("token");
    }

    @Test
    void whatItSaysDoesNotStopIt() throws Exception {
        Map<String, Object> settings = settings(14);
        settings.put("fake.chatter", "yes");
        settings.put("tierkit.serve.log.file", dir.resolve("logs/tierkit.log").toString());
        RemoteStorageManager rsm = new RemoteStorageManager();
        rsm.configure(settings);
        CopyTest.await(() -> Files.readAllLines(dir.resolve("logs/tierkit.log")).size() == 10_001);
        rsm.close();
        assertFalse(ProcessHandle.of((Long) starts(14).get(0).get("pid")).map(ProcessHandle::isAlive).orElse(false));
    }

    @Test
    void oneThatHangsIsKilledAndStartedAgain() throws Exception {
        Map<String, Object> settings = settings(15);
        settings.put("fake.hang", dir.resolve("hung-once").toString());
        Metrics metrics = new Metrics();
        Supervisor.Timing timing = new Supervisor.Timing();
        timing.checkMs = 100;
        timing.silentMs = 2000;
        Supervisor supervisor = new Supervisor(new Settings(settings), metrics, timing);
        supervisor.start();
        CopyTest.await(() -> starts(15).size() > 1);
        // Nobody waits for the end of one that was killed.
        CopyTest.await(() -> !ProcessHandle.of((Long) starts(15).get(0).get("pid")).map(ProcessHandle::isAlive).orElse(false));
        CopyTest.await(() -> {
            try {
                return supervisor.endpoint() != null;
            } catch (IOException e) {
                return false; // not up yet
            }
        });
        supervisor.close();
    }

    /** A supervisor that waits for the first line, and then starts another. */
    @Test
    void oneThatSaysNothingDoesNotHoldTheBrokerUp() throws Exception {
        Map<String, Object> settings = settings(16);
        settings.put("tierkit.serve.command", "sh -c \"exec sleep 600\"");
        settings.put("tierkit.serve.start.timeout.ms", "1000");
        settings.put("tierkit.plugin.delete.timeout.ms", "1000");
        RemoteStorageManager rsm = new RemoteStorageManager();
        rsm.configure(settings);
        Sample s = new Sample(dir, 10, false);
        Exception e = assertThrows(RemoteStorageException.class, () -> rsm.deleteLogSegmentData(s.md));
        assertTrue(e.getMessage().contains("not up"), e.getMessage());
        ObjectName name = new ObjectName("io.github.tierkit:type=KafkaPlugin,broker=16");
        CopyTest.await(() -> (Long) ManagementFactory.getPlatformMBeanServer().getAttribute(name, "DaemonStarts") > 1); // it is tried again
        rsm.close();
    }

    @Test
    void twoBrokersDoNotMeet() throws Exception {
        RemoteStorageManager one = new RemoteStorageManager();
        RemoteStorageManager two = new RemoteStorageManager();
        one.configure(settings(17));
        two.configure(settings(18));
        Sample s = new Sample(dir, 10, false);
        one.copyLogSegmentData(s.md, s.data);
        assertThrows(RemoteStorageException.class, () -> two.fetchLogSegment(s.finished(), 0));
        one.close();
        two.deleteLogSegmentData(s.md);
        two.close();
    }
}

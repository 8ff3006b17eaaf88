package io.github.tierkit.kafka;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.stream.Collectors;
import javax.management.MBeanInfo;
import javax.management.StandardMBean;
import org.apache.kafka.common.config.ConfigException;
import org.junit.jupiter.api.Test;

class SettingsTest {
    private static Map<String, Object> good() {
        return new HashMap<>(Map.of("broker.id", 3, "tierkit.serve.command", "tierkit", "tierkit.state.dir", "/var/lib/tierkit", "chunk.size", 4096));
    }

    private static Settings with(String... keysAndValues) {
        Map<String, Object> m = good();
        for (int i = 0; i < keysAndValues.length; i += 2) {
            if (keysAndValues[i + 1] == null) {
                m.remove(keysAndValues[i]);
            } else {
                m.put(keysAndValues[i], keysAndValues[i + 1]);
            }
        }
        return new Settings(m);
    }

    private static void refused(String because, String... keysAndValues) {
        ConfigException e = assertThrows(ConfigException.class, () -> with(keysAndValues));
        assertTrue(e.getMessage().contains(because), e.getMessage());
    }

    @Test
    void theDaemonGetsThemAll() {
        assertEquals(Map.of("tierkit.serve.command", "tierkit", "tierkit.state.dir", "/var/lib/tierkit", "chunk.size", "4096"), with().all());
        assertEquals(3, with().brokerId);
        assertEquals(7, with("broker.id", null, "node.id", "7").brokerId);
        assertEquals(Path.of("/var/lib/tierkit/broker-3/deletes"), with().journal());
        assertEquals(Path.of("/var/lib/tierkit/broker-3.log"), with().logFile());
    }

    @Test
    void commandsAreWords() {
        assertEquals(List.of("tierkit"), with().command());
        assertEquals(List.of("nice", "-n", "5", "/opt/my programs/tierkit", ""), with("tierkit.serve.command", "  nice -n\t5 \"/opt/my programs\"/tierkit \"\" ").command());
        refused("quote", "tierkit.serve.command", "tier\"kit");
    }

    @Test
    void mistakes() {
        refused("broker.id", "broker.id", null);
        refused("not a number", "broker.id", "x");
        refused("set one of", "tierkit.serve.command", null);
        refused("set one of", "tierkit.serve.url", "http://127.0.0.1:1");
        refused("tierkit.state.dir is required", "tierkit.state.dir", " ");
        refused("no setting", "tierkit.plugin.fetch.timeout", "1");
        refused("no setting", "tierkit.serve.comand", "x");
        for (String bad : new String[] {"1e3", "x", "-1", "499", "2147483648", "9223372036854775808"}) {
            refused("not a number from 500", "tierkit.plugin.fetch.timeout.ms", bad);
        }
        for (String bad : new String[] {"127.0.0.1:9000", "ftp://127.0.0.1", "http://", "http://127.0.0.1:9000/v1", "http://user@127.0.0.1:9000", "http://127.0.0.1:99999"}) {
            assertThrows(ConfigException.class, () -> with("tierkit.serve.command", null, "tierkit.serve.url", bad, "tierkit.serve.token.file", "/t"), bad);
        }
        refused("token.file is required", "tierkit.serve.command", null, "tierkit.serve.url", "http://127.0.0.1:9000/");
        refused("belong together", "tierkit.serve.command", null, "tierkit.serve.url", "https://daemon:9000", "tierkit.serve.token.file", "/t", "tierkit.serve.tls.key.file", "/k");
    }

    /** The page has a row for each setting and each metric, and for nothing else. */
    @Test
    void thePageIsComplete() throws Exception {
        List<String> page = Files.readAllLines(Path.of(System.getProperty("docs")));
        List<String> settings = page.stream().filter(l -> l.startsWith("| `tierkit.")).collect(Collectors.toList());
        assertEquals(Settings.ALL.stream().map(s -> "| `" + s.name + "` | " + (s.byDefault.isEmpty() ? "" : s.byDefault + " ") + "|").collect(Collectors.toList()),
                settings.stream().map(l -> l.substring(0, l.indexOf('|', l.indexOf('|', 1) + 1) + 1)).collect(Collectors.toList()));
        MBeanInfo info = new StandardMBean(new Metrics(), MetricsMBean.class).getMBeanInfo();
        List<String> metrics = java.util.Arrays.stream(info.getAttributes()).map(a -> a.getName()).sorted().collect(Collectors.toList());
        List<String> documented = page.stream().filter(l -> l.matches("\\| `[A-Z].*")).map(l -> l.substring(3, l.indexOf('`', 3))).sorted().collect(Collectors.toList());
        assertEquals(metrics, documented);
    }
}

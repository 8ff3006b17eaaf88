package io.github.tierkit.kafka;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

class JsonTest {
    private static Map<String, Object> read(String text) throws IOException {
        return Json.object(text.getBytes(StandardCharsets.UTF_8));
    }

    @Test
    void readsWhatItIsGiven() throws IOException {
        Map<String, Object> want = new LinkedHashMap<>();
        want.put("a", null);
        want.put("b", Arrays.asList(true, false, 1L, -9223372036854775808L, 1.5, 18446744073709551615.0, new LinkedHashMap<>(), new ArrayList<>()));
        want.put("c\"\\/\b\f\n\r\t\u00e4\ud83d\ude00", "x");
        assertEquals(want, read(" { \"a\" : null , \"b\":[true,false, 1,-9223372036854775808,1.5,18446744073709551615,{},[] ],"
                + "\"c\\\"\\\\\\/\\b\\f\\n\\r\\t\\u00e4\\uD83D\\uDE00\":\"x\"}\r\n\t "));
    }

    @ParameterizedTest
    @ValueSource(strings = {"", " ", "[]", "1", "null", "{", "{\"a\"", "{\"a\":", "{\"a\":1", "{\"a\":1,", "{\"a\":1,}", "{,}", "{\"a\":[1,]}", "{\"a\":[1}", "{\"a\":[",
        "{\"a\":1}x", "{\"a\":1}{}", "{\"a\":1,\"a\":2}", "{a:1}", "{\"a\":01}", "{\"a\":+1}", "{\"a\":1.}", "{\"a\":.5}", "{\"a\":-}", "{\"a\":1e}", "{\"a\":tru}",
        "{\"a\":nul}", "{\"a\":NaN}", "{\"a\":\"", "{\"a\":\"\\", "{\"a\":\"\\x\"}", "{\"a\":\"\\u12\"}", "{\"a\":\"\\u12g4\"}", "{\"a\":\"\n\"}", "{\"a\":\"\\u\u0661\u0661\u0661\u0661\"}",
        "{\"a\":\0}", "\0"})
    void refuses(String text) {
        assertThrows(IOException.class, () -> read(text));
    }

    @Test
    void refusesDepthAndBytesThatAreNoText() {
        assertThrows(IOException.class, () -> read("{\"a\":" + "[".repeat(100_000)));
        assertThrows(IOException.class, () -> Json.object(new byte[] {'{', '"', (byte) 0xff, '"', ':', '1', '}'}));
    }

    @Test
    void readsBackWhatItWrites() throws IOException {
        Random random = new Random(8);
        for (int i = 0; i < 2000; i++) {
            Map<String, Object> value = Map.of("v", value(random, 5));
            assertEquals(value, Json.object(Json.bytes(value)));
        }
    }

    private static Object value(Random random, int depth) {
        switch (random.nextInt(depth == 0 ? 3 : 5)) {
            case 0:
                return random.nextLong();
            case 1:
                return random.nextBoolean();
            case 2:
                return random.ints(random.nextInt(8), 0, 0xd800).collect(StringBuilder::new, StringBuilder::appendCodePoint, StringBuilder::append).toString();
            case 3:
                List<Object> list = new ArrayList<>();
                for (int i = random.nextInt(4); i > 0; i--) {
                    list.add(value(random, depth - 1));
                }
                return list;
            default:
                Map<String, Object> map = new LinkedHashMap<>();
                for (int i = random.nextInt(4); i > 0; i--) {
                    map.put("k" + i + (char) random.nextInt(128), value(random, depth - 1));
                }
                return map;
        }
    }

    /** Damaged text is an IOException or a value, never anything else. */
    @Test
    void survivesDamage() {
        Random random = new Random(9);
        byte[] good = "{\"state\":\"wants\",\"files\":[\"log\",{\"k\":-1.5e3}],\"n\":null,\"t\":true,\"s\":\"\\u00e4\\n\"}".getBytes(StandardCharsets.UTF_8);
        for (int i = 0; i < 50_000; i++) {
            byte[] b = Arrays.copyOf(good, random.nextInt(4) == 0 ? random.nextInt(good.length) : good.length);
            for (int n = random.nextInt(3); n >= 0 && b.length > 0; n--) {
                b[random.nextInt(b.length)] = (byte) random.nextInt(256);
            }
            try {
                Json.object(b);
            } catch (IOException e) {
                // as it should
            }
        }
    }
}

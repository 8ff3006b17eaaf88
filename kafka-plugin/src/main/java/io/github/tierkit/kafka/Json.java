package io.github.tierkit.kafka;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.charset.CharacterCodingException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/**
 * JSON, as little of it as the daemon's API needs: the plug-in brings no library, and the broker's belongs to the broker. Values are Map, List,
 * String, Long (Double where there is a fraction), Boolean and null.
 */
final class Json {
    private static final int MAX_DEPTH = 16;

    private Json() {
    }

    // Writing

    static byte[] bytes(Object value) {
        StringBuilder out = new StringBuilder(1024);
        write(out, value);
        return out.toString().getBytes(StandardCharsets.UTF_8);
    }

    private static void write(StringBuilder out, Object value) {
        if (value instanceof Map) {
            char before = '{';
            for (Map.Entry<?, ?> e : ((Map<?, ?>) value).entrySet()) {
                out.append(before);
                quote(out, String.valueOf(e.getKey()));
                out.append(':');
                write(out, e.getValue());
                before = ',';
            }
            out.append(before == '{' ? "{}" : "}");
        } else if (value instanceof List) {
            char before = '[';
            for (Object e : (List<?>) value) {
                out.append(before);
                write(out, e);
                before = ',';
            }
            out.append(before == '[' ? "[]" : "]");
        } else if (value == null || value instanceof Number || value instanceof Boolean) {
            out.append(value);
        } else {
            quote(out, value.toString());
        }
    }

    private static void quote(StringBuilder out, String s) {
        out.append('"');
        for (int i = 0; i < s.length(); i++) {
            char c = s.charAt(i);
            if (c == '"' || c == '\\') {
                out.append('\\').append(c);
            } else if (c < ' ') {
                out.append(String.format("\\u%04x", (int) c));
            } else {
                out.append(c);
            }
        }
        out.append('"');
    }

    // Reading

    /** Reads one object, and nothing behind it. What it takes is bounded by the size of the text, which the caller bounds. */
    static Map<String, Object> object(byte[] utf8) throws IOException {
        String text;
        try {
            text = StandardCharsets.UTF_8.newDecoder().decode(ByteBuffer.wrap(utf8)).toString();
        } catch (CharacterCodingException e) {
            throw new IOException("JSON that is not UTF-8", e);
        }
        Reader r = new Reader(text);
        r.blanks();
        if (r.peek() != '{') {
            throw r.bad("an object");
        }
        Map<String, Object> value = r.map(0);
        r.blanks();
        if (r.at != text.length()) {
            throw r.bad("the end");
        }
        return value;
    }

    private static final class Reader {
        private final String text;
        private int at;

        Reader(String text) {
            this.text = text;
        }

        IOException bad(String wanted) {
            return new IOException("JSON with something else than " + wanted + " at character " + at);
        }

        /** The next character, or NUL, which JSON has nowhere, at the end. */
        char peek() {
            return at < text.length() ? text.charAt(at) : 0;
        }

        void blanks() {
            while (" \t\r\n".indexOf(peek()) >= 0) {
                at++;
            }
        }

        boolean take(char c) {
            if (peek() != c || c == 0) {
                return false;
            }
            at++;
            return true;
        }

        Object value(int depth) throws IOException {
            if (depth > MAX_DEPTH) {
                throw bad("at most " + MAX_DEPTH + " levels");
            }
            switch (peek()) {
                case '{':
                    return map(depth);
                case '[':
                    return list(depth);
                case '"':
                    return string();
                case 't':
                    return word("true", Boolean.TRUE);
                case 'f':
                    return word("false", Boolean.FALSE);
                case 'n':
                    return word("null", null);
                default:
                    return number();
            }
        }

        Map<String, Object> map(int depth) throws IOException {
            Map<String, Object> map = new LinkedHashMap<>();
            at++;
            blanks();
            if (take('}')) {
                return map;
            }
            do {
                blanks();
                if (peek() != '"') {
                    throw bad("a name");
                }
                String name = string();
                blanks();
                if (!take(':')) {
                    throw bad("a colon");
                }
                blanks();
                if (map.containsKey(name)) {
                    throw bad("one value for \"" + name + "\"");
                }
                map.put(name, value(depth + 1));
                blanks();
            } while (take(','));
            if (!take('}')) {
                throw bad("a closing brace");
            }
            return map;
        }

        List<Object> list(int depth) throws IOException {
            List<Object> list = new ArrayList<>();
            at++;
            blanks();
            if (take(']')) {
                return list;
            }
            do {
                blanks();
                list.add(value(depth + 1));
                blanks();
            } while (take(','));
            if (!take(']')) {
                throw bad("a closing bracket");
            }
            return list;
        }

        String string() throws IOException {
            StringBuilder s = new StringBuilder();
            at++;
            while (!take('"')) {
                char c = peek();
                if (c < ' ') {
                    throw bad("the rest of a string");
                }
                at++;
                s.append(c == '\\' ? escape() : c);
            }
            return s.toString();
        }

        char escape() throws IOException {
            char c = peek();
            at++;
            switch (c) {
                case '"':
                case '\\':
                case '/':
                    return c;
                case 'b':
                    return '\b';
                case 'f':
                    return '\f';
                case 'n':
                    return '\n';
                case 'r':
                    return '\r';
                case 't':
                    return '\t';
                case 'u':
                    return unicode();
                default:
                    throw bad("an escape");
            }
        }

        char unicode() throws IOException {
            int code = 0;
            for (int i = 0; i < 4; i++) {
                int digit = peek() < 128 ? Character.digit(peek(), 16) : -1;
                if (digit < 0) {
                    throw bad("four hexadecimal digits");
                }
                code = 16 * code + digit;
                at++;
            }
            return (char) code;
        }

        Object word(String word, Object value) throws IOException {
            if (!text.startsWith(word, at)) {
                throw bad(word);
            }
            at += word.length();
            return value;
        }

        Object number() throws IOException {
            int start = at;
            while ("+-.eE0123456789".indexOf(peek()) >= 0) {
                at++;
            }
            String number = text.substring(start, at);
            if (!number.matches("-?(0|[1-9][0-9]*)(\\.[0-9]+)?([eE][+-]?[0-9]+)?")) {
                at = start;
                throw bad("a value");
            }
            try {
                return Long.valueOf(number);
            } catch (NumberFormatException e) {
                return Double.valueOf(number); // a fraction, or beyond 64 bits
            }
        }
    }
}

package io.github.tierkit.compat;

import com.fasterxml.jackson.core.JsonParseException;
import com.fasterxml.jackson.core.JsonParser;
import com.fasterxml.jackson.databind.DeserializationContext;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.deser.std.StdDeserializer;
import com.fasterxml.jackson.databind.module.SimpleModule;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.GeneralSecurityException;
import java.security.KeyFactory;
import java.security.PrivateKey;
import java.security.spec.PKCS8EncodedKeySpec;
import java.util.Base64;
import java.util.HashMap;
import java.util.Map;
import javax.crypto.Cipher;
import javax.crypto.SecretKey;
import javax.crypto.spec.SecretKeySpec;
import org.bouncycastle.jce.provider.BouncyCastleProvider;

/** The private keys of the settings and the JSON mapper that opens a manifest's data key with them. */
final class KeyRing {
    private static final BouncyCastleProvider BOUNCY_CASTLE = new BouncyCastleProvider();

    private final Map<String, PrivateKey> keys = new HashMap<>();

    /** The mapper for manifests. Without encryption.enabled it knows no way to make a data key, as in the plug-in. */
    static ObjectMapper mapper(final Map<String, String> config) throws IOException, GeneralSecurityException {
        final ObjectMapper mapper = new ObjectMapper();
        if (Boolean.parseBoolean(config.get("encryption.enabled"))) {
            final KeyRing ring = new KeyRing(config);
            final SimpleModule module = new SimpleModule();
            module.addDeserializer(SecretKey.class, ring.new DataKeyDeserializer());
            mapper.registerModule(module);
        }
        return mapper;
    }

    private KeyRing(final Map<String, String> config) throws IOException, GeneralSecurityException {
        for (final String id : config.get("encryption.key.pairs").split(",")) {
            final String file = config.get("encryption.key.pairs." + id.trim() + ".private.key.file");
            final String pem = Files.readString(Path.of(file), StandardCharsets.US_ASCII);
            final byte[] der = Base64.getMimeDecoder().decode(pem.replaceAll("-----[A-Z ]+-----", ""));
            keys.put(id.trim(), KeyFactory.getInstance("RSA").generatePrivate(new PKCS8EncodedKeySpec(der)));
        }
    }

    private SecretKey open(final String keyId, final byte[] wrapped) {
        final PrivateKey key = keys.get(keyId);
        if (key == null) {
            throw new IllegalArgumentException("Unknown key " + keyId);
        }
        try {
            final Cipher cipher = Cipher.getInstance("RSA/NONE/OAEPWithSHA3-512AndMGF1Padding", BOUNCY_CASTLE);
            cipher.init(Cipher.DECRYPT_MODE, key);
            return new SecretKeySpec(cipher.doFinal(wrapped), "AES");
        } catch (final GeneralSecurityException e) {
            throw new RuntimeException("Couldn't open the data key", e);
        }
    }

    private final class DataKeyDeserializer extends StdDeserializer<SecretKey> {
        private static final long serialVersionUID = 1L;

        DataKeyDeserializer() {
            super(SecretKey.class);
        }

        @Override
        public SecretKey deserialize(final JsonParser parser, final DeserializationContext context)
            throws IOException {
            final String[] halves = parser.getText().split(":");
            if (halves.length != 2) {
                throw new JsonParseException(parser, "Bad data key",
                    new IllegalArgumentException("Malformed encrypted data key string"));
            }
            if (halves[0].isBlank()) {
                throw new JsonParseException(parser, "Bad data key", new IllegalArgumentException("Key id is blank"));
            }
            return open(halves[0], Base64.getDecoder().decode(halves[1]));
        }
    }
}

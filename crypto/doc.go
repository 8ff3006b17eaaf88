// Package crypto protects the bytes of tiered segments: AES-256-GCM for the pieces (chunks of a .log, parts of an .indexes
// object), and a key ring that wraps the data key of each segment for its manifest. The format is that of Aiven's plug-in:
// either side opens what the other one sealed.
//
// # Pieces
//
// Every segment has a [DataKey] of its own: 256 random bits and 32 random bytes of additional data, which the manifest carries
// in clear. A piece is nonce (12 bytes), ciphertext, tag (16 bytes): [Overhead] bytes more than its content. Nonces are random
// and made per piece. The additional data bind nothing but the segment: pieces of one segment that change places still open,
// which is why manifests written here carry checksums besides.
//
// # Wrapping
//
// [KeyWrapper] turns a data key into text for the manifest and back; it is the seam for a key management service. [KeyRing] is
// the one that comes with tierkit: RSA-OAEP with SHA3-512 for both hash and MGF1, several key pairs, one of them active. Old
// pairs stay on the ring for reading.
//
// # Errors
//
// [ErrUnknownKey] and [ErrWrongKey] are matters of configuration: the data are fine and the key pair named in the message is
// missing or another one. [ErrMalformed] and [ErrAuthentication] say that stored bytes are damaged.
//
// # Secrets
//
// Keys are never printed: [Key], [DataKey] and [KeyPair] show a placeholder under every verb of fmt, in JSON and in slog, also
// as fields of other values.
package crypto

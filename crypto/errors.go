package crypto

import "errors"

// The error kinds; test with errors.Is.
var (
	// ErrUnknownKey: the wrapped key names a key pair that is not on the ring. Add the pair to the configuration.
	ErrUnknownKey = errors.New("key pair is not on the key ring")
	// ErrWrongKey: the ring has a pair under that id, but another one wrapped this data key (or the wrapped bytes are damaged
	// in a way that RSA cannot tell apart from it).
	ErrWrongKey = errors.New("data key does not open with this key pair")
	// ErrMalformed: what should be a wrapped data key, or a sealed piece, does not have the form of one.
	ErrMalformed = errors.New("malformed")
	// ErrAuthentication: a piece is not what was sealed with this data key, or was damaged since.
	ErrAuthentication = errors.New("piece does not authenticate: damaged, or sealed with another data key")
)

package remotelog

import "errors"

// The error kinds. Implementations wrap them (fmt.Errorf("%w: ...")), callers test with errors.Is.
var (
	// ErrNotFound: the segment, object or partition does not exist (Kafka: RemoteResourceNotFoundException). A missing bucket
	// or denied access is never ErrNotFound.
	ErrNotFound error = &kind{text: "not found"}
	// ErrNoIndex: the segment exists and was stored without this index; only the transaction index may be missing. A reader
	// may take it for "no aborted transactions"; it may not take any other error for that. It is also ErrNotFound.
	ErrNoIndex error = &kind{text: "segment has no such index", also: ErrNotFound}
	// ErrNotAssigned: this manager was not told to follow the partition. It is also ErrNotFound.
	ErrNotAssigned error = &kind{text: "partition not assigned", also: ErrNotFound}
	// ErrNotReady: the answer is not known yet; ask again later (Kafka: ReplicaNotAvailableException). Retriable. It never
	// means "empty".
	ErrNotReady error = &kind{text: "not ready", retriable: true}
	// ErrConflict: the change was lost against another one; the error names the state that was found.
	ErrConflict error = &kind{text: "conflict"}
	// ErrInvalidArgument: the call cannot succeed whatever the state of the store (Kafka: IllegalArgumentException).
	ErrInvalidArgument error = &kind{text: "invalid argument"}
	// ErrCorrupt: stored bytes contradict themselves or their checksums.
	ErrCorrupt error = &kind{text: "corrupt"}
	// ErrOutcomeUnknown: the write may have happened or may still happen; nothing may be undone on the strength of it.
	ErrOutcomeUnknown error = &kind{text: "outcome unknown"}
	// ErrClosed: the value was closed.
	ErrClosed error = &kind{text: "closed"}
)

// kind is one error kind; also makes it match a more general one.
type kind struct {
	text      string
	also      error
	retriable bool
}

func (k *kind) Error() string { return k.text }

func (k *kind) Is(target error) bool { return k.also != nil && target == k.also }

// Retriable reports whether the same call may succeed later without anything else changing: ErrNotReady, and every error in
// whose chain a type with the method Temporary() bool answers true (storage errors: throttled, unavailable, timeout).
func Retriable(err error) bool {
	if errors.Is(err, ErrNotReady) {
		return true
	}
	var t interface{ Temporary() bool }
	return errors.As(err, &t) && t.Temporary()
}

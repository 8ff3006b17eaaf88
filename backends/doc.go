// Package backends defines the contract between the tiered-storage engine and an object store.
//
// # For users of a store
//
// A Registry knows kinds of drivers by name; Registry.Open reads the storage.* settings, opens the driver that they choose and
// wraps it in a Store. Store is one concrete type with one path for every call: it validates, adds the prefix, bounds memory,
// concurrency and bytes per second, reports to an Observer, resumes broken reads, and wraps every error once. The engine calls
// nothing else.
//
// # For authors of a driver
//
// Implement Driver; every method's comment is the contract, and each MUST in it is a case of the conformance suite. Return errors
// as *Error with a Code and the cause (one function per driver turns the store's errors into them); leave Op, Driver, Key
// and masking to the Store. Optional capabilities are small interfaces found by assertion: BulkDeleter, UploadLister, Prober,
// PutSizer. Describe settings in Factory.Settings: parsing, documentation and command-line help come from that table.
// Register the Factory in your own main beside the built-in ones: nothing is global.
//
// What a Driver may take for granted, because the Store sees to it: keys are valid (see Store), a Range has Offset >= 0 and
// Length != 0, PutOptions are within Properties, nothing is called after Close by this Store.
//
// # Errors
//
// The only error type that leaves a Store is *Error. Test it by code: errors.Is(err, backends.NotFound). Besides it there are
// the caller's own: the end of its context (errors.Is with context.Canceled or context.DeadlineExceeded, and the cause of
// the context) and errors of the body that it gave to Put. Neither of these is given a code.
package backends

// Package httpstore holds what drivers over HTTP have in common beside their SDKs: the connections, the life of a call, the body of a Get,
// ranges, and what errors of the network mean. A driver of another vendor may use it too.
//
// # Connections
//
// NewPool makes the transport that every driver of ours has. Transport goes around it: it counts attempts and marks errors of the network.
//
// # Calls
//
// Gate.Begin opens a Call for each request of a driver (with all its attempts). Its context ends with the caller's and with Gate.Close; it counts
// the attempts that Transport sends. Call.Ended tells afterwards why the context ended, if it did: that comes before anything that an SDK made of it.
//
// # Bodies
//
// NewBody makes of an answer's body what backends.Driver.Get promises: exactly so many bytes, then io.EOF, or an error; Close that unblocks a Read
// and returns at once. A connection whose answer was read to its end is used again.
//
// # Errors
//
// NetworkCode knows the errors that come from below an SDK. Everything else (status, provider's codes) is the driver's.
package httpstore

// Package acme is a driver for the object store of package acmeserver. It is the example of docs/writing-a-driver.md: complete, made with nothing but
// the public packages of tierkit, and divided into the same files as tierkit's own drivers.
//
// # Configuration
//
// storage.backend=acme, storage.acme.url, storage.acme.bucket, and a key with its secret: storage.acme.key.id and storage.acme.secret. The secret may be
// given as file:PATH or env:NAME. In place of the two storage.acme.credentials.file names a file with both, which is read again for each token.
// Everything else has a default.
//
// # Consistency
//
// Reads, listings and deletes see every finished write at once. Info.Version is the store's revision, a number that no two versions share. An object
// comes into being in one step, by one PUT or by the commit of an upload. Each version is marked with a random id of its upload: when the answer to that
// step is lost, a HEAD of the key tells whether it was done.
//
// # Errors
//
// The store's own codes decide (header Acme-Error), else the HTTP status. A bucket that does not exist is InvalidArgument, never NotFound. A token that
// is refused is renewed once; credentials that are refused are Unauthenticated at once.
//
// # Limits
//
// Keys of 1,024 bytes, at most 1,000 parts of at most 1 GiB, so objects of 1,000 GiB. A body that fits one part is one request. Memory is that of
// package parts: one part at least, one more for each that is sent at the same time. Unfinished uploads stay until somebody removes them; a Put removes
// its own in any case, and ListUploads shows those of clients that were killed.
//
// # Permissions
//
// The key needs read, write, delete and list on the bucket. With one that may only read and list, reading segments works and everything else is Denied.
package acme

// Package acmeserver is the object store that the driver of this example is for: a small HTTP API over objects in memory. It stands in for the product
// of a vendor, so that the example can be run and tested anywhere. Everything is gone when the process ends.
//
// # Protocol
//
// Keys travel in the query, where no proxy and no library tidies them up. Metadata is one header in the form of a query, since the values of headers
// lose their spaces. Every answer has an Acme-Request-Id; an error has its code in Acme-Error, for HEAD too, and the code and a text in a JSON body.
//
//	POST   /v1/token                               {"key_id": "...", "secret": "..."} -> {"access_token": "...", "expires_in": 900}
//	PUT    /v1/b/BUCKET/object?key=K               stores a body; If-None-Match: * creates only
//	GET    /v1/b/BUCKET/object?key=K               Range and If-Match as in HTTP
//	HEAD   /v1/b/BUCKET/object?key=K
//	DELETE /v1/b/BUCKET/object?key=K
//	GET    /v1/b/BUCKET/list?prefix=P&after=K&limit=N
//	POST   /v1/b/BUCKET/delete                     {"keys": ["...", ...]}
//	PUT    /v1/b/BUCKET/upload?key=K&id=U          begins an upload whose id the client has chosen; once more is no mistake
//	PUT    /v1/b/BUCKET/upload/part?id=U&n=N       stores a part
//	POST   /v1/b/BUCKET/upload/commit?id=U         {"parts": N, "size": S, "crc32c": "..."} makes the object of the parts
//	DELETE /v1/b/BUCKET/upload?id=U                removes an upload
//	GET    /v1/b/BUCKET/uploads?prefix=P           lists those that are unfinished
//
// A token runs out, and is refused as token_expired from then on. There are two keys: one may do everything, one may read and list. What it may not do is
// answered with 403 and the code denied.
//
// A request that stores bytes may say their CRC-32C in Acme-Crc32c; the store refuses others. An object remembers the Acme-Upload that the client stored
// it with, so that a client whose answer was lost can find out whether the object that is there is its own.
package acmeserver

// Package transport makes the HTTP transport of the drivers: a connection pool of its own, HTTP/1.1 (parallel requests get parallel
// connections), no compression, certificates and proxies from settings, and a watch over every request that ends it when nothing
// moves any more, or next to nothing does. There is no timeout over a whole request: a large object may take its time as long as bytes
// flow, at a kibibyte a second or more.
package transport

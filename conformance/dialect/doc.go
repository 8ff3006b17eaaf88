// Package dialect names the requests of the protocols that tierkit speaks, and forges their providers' errors, for package fault. A driver of another
// vendor's store over HTTP needs a type like these: see fault.Dialect.
package dialect

// Package durable is what directories of files need that must survive a crash: made with their entries durable, locked by one process,
// written so that a file is there whole or not at all.
package durable

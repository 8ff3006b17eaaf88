// Package slowstore makes a driver as slow as a distant store: a time to the first byte of each object, and a rate for each connection.
// Measurements of reading run over it, in the clock of the machine or in that of testing/synctest.
package slowstore

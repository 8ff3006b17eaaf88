// Package regular opens regular files and nothing else: a named pipe would hold the caller until somebody writes to it, a device may
// never end.
package regular

// Package drivers runs the conformance suite on each of our drivers, against real servers.
package drivers

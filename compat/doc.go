// Package compat proves, with Java code over the libraries that Aiven's plug-in uses, that the plug-in can read what tierkit
// writes. It has no code of its own.
//
// # The strict reader
//
// java/ is a Maven project: a reader of one segment that is neither more tolerant nor stricter than the plug-in's. Its tests are
// here: it reads every object that the real plug-in wrote, and with every damaged one it ends as the real plug-in did, in the
// same place, for the same reason. Only then is its word about tierkit's objects worth something.
//
// # Running
//
// The tests build the reader into the user's cache directory, once for each state of its sources, and start one JVM for many
// segments. They need a JDK, 17 or newer, and Maven; without them they skip (package need).
package compat

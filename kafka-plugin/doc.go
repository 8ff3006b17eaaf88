// Package kafkaplugin holds the Go side of the Java project in this directory, the plug-in for Kafka brokers: tests that look at the jar and run the
// project's own tests, so that `go test ./...` is about it too. It has no code of its own.
package kafkaplugin

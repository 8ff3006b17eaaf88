// Package plugin tests tiering end to end: real Kafka brokers, the plug-in in them, the daemon that it starts, and MinIO.
package plugin

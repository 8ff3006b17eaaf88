// Package gcsserver is a small Google Cloud Storage in memory, for tests with faults: the JSON API as far as a driver needs it, with resumable uploads that
// behave as the service documents them (cloud.google.com/storage/docs/resumable-uploads): a piece that comes a second time is not appended a second
// time, a piece whose connection broke may be kept in part, and a session that is finished answers with its object. fake-gcs-server 1.56 has none of the three.
package gcsserver

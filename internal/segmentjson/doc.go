// Package segmentjson is the JSON shape of a remote log segment, with Kafka's names: what tierkit ls prints and the API of tierkit
// serve takes. The names are promised to scripts and to clients.
package segmentjson

// Package golden finds the bytes that real Apache Kafka brokers wrote, for tests and for the demo: partition directories as a broker
// keeps them, what Kafka's own tools say about them ("truth"), and what the broker handed to its storage plug-in
// ("localtieredstorage"). testdata/kafka/README.md describes every file.
//
// Only the partitions of [Demo] are embedded; everything else is read from the source tree, which is found from the working
// directory of the test.
package golden

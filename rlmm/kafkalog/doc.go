// Package kafkalog is the event log on Kafka: the topic __remote_log_metadata, shared with brokers and other tools.
//
// # Topic
//
// [Open] finds the topic, compares its number of partitions with [Config.Partitions] and remembers its id. It makes the topic
// only with [Options.Create], and then only when number of partitions and replication factor are given: a topic that a tool made
// with other numbers than the brokers have keeps them from starting. A topic made later under the same name is another log: the
// id is compared every 30 seconds, with every metadata answer, and by the broker where requests carry it. From then on every
// Append, Bounds, Check and Next fails with [*ReplacedError], after each follower has reported its partitions as truncated, so
// that nothing is served that came from the old topic. The process has to be restarted.
//
// # Writing
//
// Events go to the partition leader with acks=all and a producer id with sequence numbers; one request per partition is on the
// way, and events that come meanwhile share the next. Requests are made here and not by franz-go's producer, because only who
// sees each attempt can tell a definite failure (no attempt can have been appended) from an unknown outcome. A batch that was
// given up raises the producer epoch of its partition: the broker then refuses the old attempt, should it still be on the wire,
// once a later event has been appended. That is what rlmm.Log demands of events in doubt.
//
// # Reading
//
// There is no consumer group and nothing is committed. Fetches are read_uncommitted, as the brokers read, and go on behind
// control records and other offsets without events by the batch headers, so that a reader reaches the high watermark whatever is
// at the end. A position is compared with the leader's epochs (OffsetForLeaderEpoch, KIP-320) when reading begins and whenever
// the leader epoch changes; an offset that is out of range is looked up. Both are reported as rlmm.Loss. There is no reset
// policy that could hide one.
//
// # Errors
//
// Leader changes, lost connections, timeouts and other retriable errors stay inside. Missing authorization, failed authentication
// and certificates that do not verify come out at once, and the call may be repeated: somebody may grant what is missing.
//
// # Security
//
// [ParseConfig] reads Kafka's own properties: TLS with PEM files, SASL PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 and OAUTHBEARER.
// Java key stores (JKS, PKCS12) are refused. The principal needs Describe and Read on the topic, for writing Write too, for
// creating it Create on the topic or the cluster; for the settings in [Log.Describe] DescribeConfigs on the topic.
package kafkalog

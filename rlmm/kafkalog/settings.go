package kafkalog

const (
	keyPartitions  = "remote.log.metadata.topic.num.partitions"
	keyReplication = "remote.log.metadata.topic.replication.factor"
)

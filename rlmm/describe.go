package rlmm

import "context"

// Describer is implemented by logs that can tell more about themselves than the seam asks for. Tools show it; nothing depends on
// it.
type Describer interface {
	Describe(ctx context.Context) (Description, error)
}

// Description is what a log tells about itself.
type Description struct {
	// Leaders are the brokers that lead the partitions, -1: none does.
	Leaders map[int32]int32
	// Settings are those of the topic, by Kafka's names.
	Settings map[string]string
}

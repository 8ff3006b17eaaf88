package rlmm

import "context"

// Describer is implemented by logs that can tell more about themselves than the seam asks for. Tools show it; nothing depends on
// it. What a log is not allowed to see it leaves out and says so in the Description: that is no error.
type Describer interface {
	Describe(ctx context.Context) (Description, error)
}

// Description is what a log tells about itself.
type Description struct {
	// Leaders are the brokers that lead the partitions, -1: none does.
	Leaders map[int32]int32
	// Settings are those of the topic, by Kafka's names; nil if they are not known.
	Settings map[string]string
	// SettingsErr is why Settings are not known, nil if they are or the log has none.
	SettingsErr error
	// Grown is the number of partitions that the log has now, if that is not Log.Partitions, else 0.
	Grown int32
}

// Package brokers has the tests that put the metadata manager on one metadata topic with real Kafka brokers. The stage `brokers` of
// scripts/test.sh runs it: the oldest and the newest version that internal/testbed knows, with TIERKIT_KAFKA=all every one.
package brokers

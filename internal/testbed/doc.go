// Package testbed starts the servers that tests talk to, each a process of its own on a free loopback port with a directory of its
// own, and stops them. A server that is asked for twice in one test binary is the same one; tests get buckets of their own in it. Kafka's
// brokers, which tests kill and restart, belong to the test that asks for them.
//
// scripts/tools.sh installs the programs; a version of Kafka is installed with Maven when it is first asked for. Where one is missing, the
// test skips or fails as package need says. A package whose tests use servers calls Stop after they ran:
//
//	func TestMain(m *testing.M) { goleak.VerifyTestMain(m, goleak.Cleanup(testbed.Exit)) }
package testbed

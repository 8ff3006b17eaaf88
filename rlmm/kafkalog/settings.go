package kafkalog

import (
	"slices"
	"strings"

	"github.com/tierkit/tierkit/internal/settings"
)

// Kafka's names (TopicBasedRemoteLogMetadataManagerConfig, 3.9 to 4.4), without the rlmm.config. of a broker's file.
const (
	keyAll         = "remote.log.metadata."
	keyPartitions  = keyAll + "topic.num.partitions"
	keyReplication = keyAll + "topic.replication.factor"
	keyMinISR      = keyAll + "topic.min.isr"
	keyRetention   = keyAll + "topic.retention.ms"
	keyWait        = keyAll + "consume.wait.ms"
	keyInitTimeout = keyAll + "initialization.retry.max.timeout.ms"
	keyInitRetry   = keyAll + "initialization.retry.interval.ms"
)

// The clients: what is set for one of them goes before what is set for all.
const (
	forAll      = "common.client"
	forProducer = "producer"
	forConsumer = "consumer"
	forAdmin    = "admin"
)

// Properties of a client. Those from cSASLUser on are not Kafka's.
const (
	cBootstrap      = "bootstrap.servers"
	cID             = "client.id"
	cProtocol       = "security.protocol"
	cRequestTimeout = "request.timeout.ms"
	cDialTimeout    = "socket.connection.setup.timeout.ms"
	cIdle           = "connections.max.idle.ms"
	cDelivery       = "delivery.timeout.ms"
	cTrustFile      = "ssl.truststore.location"
	cTrustType      = "ssl.truststore.type"
	cTrustPEM       = "ssl.truststore.certificates"
	cKeyFile        = "ssl.keystore.location"
	cKeyType        = "ssl.keystore.type"
	cKeyPEM         = "ssl.keystore.key"
	cChainPEM       = "ssl.keystore.certificate.chain"
	cKeyPassword    = "ssl.key.password"
	cEndpoint       = "ssl.endpoint.identification.algorithm"
	cProtocols      = "ssl.enabled.protocols"
	cMechanism      = "sasl.mechanism"
	cJAAS           = "sasl.jaas.config"
	cSASLUser       = "sasl.username"
	cSASLPassword   = "sasl.password"
	cToken          = "sasl.oauthbearer.token" //nolint:gosec // the name of a setting
	cServerName     = "ssl.server.name"
)

func clientKey(client, name string) string { return keyAll + client + "." + name }

// Settings is the table of the Kafka log. The part <id> of a name is one of common.client, producer, consumer and admin.
func Settings() []settings.Setting {
	return append(topicSettings(), append(clientSettings(), securitySettings()...)...)
}

func topicSettings() []settings.Setting {
	return []settings.Setting{
		{Name: keyPartitions, Type: settings.TypeInt, Min: "1", Max: "2147483647", Doc: "The number of partitions of the metadata topic. Where it is given, a topic " +
			"with another number is an error; where it is not, the topic's own number holds. It must be given for the topic to be made, and be the brokers' number " +
			"(Kafka's default is 50): never change it on a live cluster."},
		{Name: keyReplication, Type: settings.TypeInt, Min: "1", Max: "32767", Doc: "The replication factor of the metadata topic when it is made; it must be given then " +
			"(Kafka's default is 3). That of an existing topic is not looked at."},
		{Name: keyMinISR, Type: settings.TypeInt, Default: "2", Min: "1", Max: "32767", Doc: "min.insync.replicas of the metadata topic when it is made."},
		{Name: keyRetention, Type: settings.TypeInt, Default: "-1", Min: "-1", Doc: "retention.ms of the metadata topic when it is made; -1 keeps everything. It must be longer " +
			"than the longest retention of any tiered topic, or references to segments are lost. 0 is refused."},
		{Name: keyInitTimeout, Type: settings.TypeDuration, Default: "30s", Doc: "How long opening the log tries to reach Kafka (Kafka's default is 2 minutes)."},
		{Name: keyInitRetry, Type: settings.TypeDuration, Default: "250ms", Min: "1ms", Doc: "The pause between two such tries."},
		{Name: keyWait, Type: settings.TypeDuration, Default: "120000", NoEffect: "a write waits as long as its caller does"},
	}
}

func clientSettings() []settings.Setting {
	s := func(name string, t settings.Type, doc string) settings.Setting {
		return settings.Setting{Name: clientKey(settings.ID, name), Type: t, Doc: doc}
	}
	atLeast := func(min string, s settings.Setting) settings.Setting { s.Min = min; return s }
	oneOf := func(s settings.Setting, values ...string) settings.Setting { s.OneOf = values; return s }
	return []settings.Setting{
		s(cBootstrap, settings.TypeList, "Addresses host:port to begin with. `<id>` is `common.client` (for all), `producer`, `consumer` or `admin`; the specific one goes before "+
			"the common one. Without it: the listener that remote.log.metadata.manager.listener.name names."),
		s(cID, settings.TypeString, "The client id in the brokers' logs. The default is `tierkit_<node.id>_<producer, consumer or admin>`."),
		oneOf(s(cProtocol, settings.TypeString, "How connections are made. The default is the protocol of the listener, else PLAINTEXT."),
			"PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"),
		atLeast("1ms", s(cRequestTimeout, settings.TypeDuration, "How long an answer may take; 30 seconds where it is not given.")),
		atLeast("1ms", s(cDialTimeout, settings.TypeDuration, "How long making a connection may take; 10 seconds where it is not given.")),
		atLeast("1s", s(cIdle, settings.TypeDuration, "After how long a connection without use is closed; 9 minutes where it is not given.")),
		atLeast("1ms", s(cDelivery, settings.TypeDuration, "How long an event is tried before its write is given up; 2 minutes where it is not given. Of the producer.")),
	}
}

func securitySettings() []settings.Setting {
	s := func(name string, t settings.Type, doc string) settings.Setting {
		return settings.Setting{Name: clientKey(settings.ID, name), Type: t, Doc: doc}
	}
	oneOf := func(s settings.Setting, values ...string) settings.Setting { s.OneOf = values; return s }
	return []settings.Setting{
		s(cTrustFile, settings.TypeFile, "PEM file of the certificates that sign the brokers'. Without any: those that the system trusts."),
		s(cTrustType, settings.TypeString, "PEM; Java key stores are refused."),
		s(cTrustPEM, settings.TypeSecret, "The same certificates as PEM text, instead of a file."),
		s(cKeyFile, settings.TypeFile, "PEM file of the client's private key (not encrypted) and its certificate chain."),
		s(cKeyType, settings.TypeString, "PEM; Java key stores are refused."),
		s(cKeyPEM, settings.TypeSecret, "The client's private key as PEM text (PKCS#8, not encrypted), instead of a file."),
		s(cChainPEM, settings.TypeSecret, "The client's certificate chain as PEM text, together with the key."),
		s(cKeyPassword, settings.TypeSecret, "Refused: encrypted private keys are not read. Keep the key in a file that only this process can read."),
		oneOf(s(cEndpoint, settings.TypeString, "`https` (the default) compares the broker's certificate with its host name; empty does not, and still checks who signed it."), "https", ""),
		s(cServerName, settings.TypeString, "The name that the brokers' certificates are compared with instead of each broker's host name."),
		oneOf(s(cProtocols, settings.TypeList, "TLS versions allowed; both where it is not given."), "TLSv1.2", "TLSv1.3"),
		oneOf(s(cMechanism, settings.TypeString, "How to authenticate with SASL_PLAINTEXT and SASL_SSL."), mechanisms()...),
		s(cJAAS, settings.TypeSecret, "User and password in Kafka's form: `org.apache.kafka.common.security.plain.PlainLoginModule required username=\"...\" password=\"...\";`, "+
			"or the same with `org.apache.kafka.common.security.scram.ScramLoginModule`."),
		s(cSASLUser, settings.TypeString, "The user of PLAIN and SCRAM, instead of sasl.jaas.config. Not a setting of Kafka's."),
		s(cSASLPassword, settings.TypeSecret, "The password of PLAIN and SCRAM, instead of sasl.jaas.config. Not a setting of Kafka's."),
		s(cToken, settings.TypeSecret, "The bearer token of OAUTHBEARER. `file:PATH` is read again with every connection, so that a token can be renewed. Not a setting of Kafka's."),
	}
}

// fixed are properties whose values are not the user's to choose, and the reason why they are accepted all the same.
func fixed() map[string]string {
	return map[string]string{ //nolint:gosec // names of settings
		"acks": "it is always all", "enable.idempotence": "it is always true", "key.serializer": "records are bytes", "value.serializer": "records are bytes",
		"key.deserializer": "records are bytes", "value.deserializer": "records are bytes", "enable.auto.commit": "nothing is committed",
		"auto.offset.reset": "lost positions are reported, never reset", "exclude.internal.topics": "the topic is named", "group.id": "there is no group",
		"isolation.level": "it is always read_uncommitted, as for brokers", "transactional.id": "there are no transactions",
		"compression.type": "records are small and not compressed", "check.crcs": "checksums are always compared",
		"ssl.truststore.password": "PEM files have none", "ssl.keystore.password": "PEM files have none",
	}
}

// javaOnly are properties of Kafka's clients that steer their code or have nothing to steer here.
func javaOnly() []string {
	return []string{
		"allow.auto.create.topics", "auto.include.jmx.reporter", "batch.size", "buffer.memory", "bootstrap.controllers", "client.dns.lookup", "client.rack",
		"auto.commit.interval.ms", "config.providers", "default.api.timeout.ms", "enable.metrics.push", "fetch.max.bytes", "fetch.max.wait.ms", "fetch.min.bytes",
		"group.instance.id", "group.protocol", "group.remote.assignor", "heartbeat.interval.ms", "interceptor.classes", "linger.ms",
		"max.block.ms", "max.in.flight.requests.per.connection", "max.partition.fetch.bytes", "max.poll.interval.ms", "max.poll.records",
		"max.request.size", "metadata.max.age.ms", "metadata.max.idle.ms", "metadata.recovery.rebootstrap.trigger.ms", "metadata.recovery.strategy",
		"metric.reporters", "metrics.num.samples", "metrics.recording.level", "metrics.sample.window.ms",
		"partition.assignment.strategy", "partitioner.adaptive.partitioning.enable", "partitioner.availability.timeout.ms", "partitioner.class",
		"partitioner.ignore.keys", "receive.buffer.bytes", "reconnect.backoff.max.ms", "reconnect.backoff.ms", "retries", "retry.backoff.max.ms",
		"retry.backoff.ms", "send.buffer.bytes", "session.timeout.ms", "socket.connection.setup.timeout.max.ms", "transaction.timeout.ms",
		"sasl.client.callback.handler.class", "sasl.login.callback.handler.class", "sasl.login.class", "security.providers", "ssl.cipher.suites",
		"ssl.engine.factory.class", "ssl.keymanager.algorithm", "ssl.protocol", "ssl.provider", "ssl.secure.random.implementation",
		"ssl.trustmanager.algorithm",
	}
}

// javaOnlyPrefixes are families of such properties.
func javaOnlyPrefixes() []string {
	return []string{"sasl.kerberos.", "sasl.login.", "sasl.oauthbearer.jwks.", "sasl.oauthbearer.clock.", "sasl.oauthbearer.header.", "compression."}
}

// ignored tells a property of a client that is accepted without effect, and why.
func ignored(key string) (reason string, ok bool) {
	rest, ours := strings.CutPrefix(key, keyAll)
	if !ours {
		return "", false
	}
	for _, client := range []string{forAll, forProducer, forConsumer, forAdmin} {
		name, ok := strings.CutPrefix(rest, client+".")
		if !ok {
			continue
		}
		if why := fixed()[name]; why != "" {
			return why, true
		}
		family := slices.ContainsFunc(javaOnlyPrefixes(), func(p string) bool { return strings.HasPrefix(name, p) })
		if family || slices.Contains(javaOnly(), name) {
			return "it is of Kafka's Java clients, and there is nothing here that it could change", true
		}
	}
	return "", false
}

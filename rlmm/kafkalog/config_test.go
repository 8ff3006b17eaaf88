package kafkalog

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tierkit/tierkit/internal/settings"
)

const (
	common   = "remote.log.metadata.common.client."
	producer = "remote.log.metadata.producer."
	consumer = "remote.log.metadata.consumer."
	admin    = "remote.log.metadata.admin."
)

func parse(t *testing.T, props map[string]string, o ConfigOptions) Config {
	t.Helper()
	c, _, err := ParseConfig(props, o)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// Scenario 88: what is set with the prefix of a client is seen by that client, what is set for all by all.
func TestScenario88_EachClientSeesItsOwn(t *testing.T) {
	c := parse(t, map[string]string{
		common + "bootstrap.servers": "a:1, b:2", common + "request.timeout.ms": "7000",
		producer + "client.id": "p", consumer + "client.id": "c", admin + "client.id": "a",
		admin + "bootstrap.servers": "z:9",
	}, ConfigOptions{})
	for _, tc := range []struct {
		name      string
		got       Client
		id        string
		bootstrap string
	}{{"producer", c.Producer, "p", "a:1 b:2"}, {"consumer", c.Consumer, "c", "a:1 b:2"}, {"admin", c.Admin, "a", "z:9"}} {
		if got := strings.Join(tc.got.Bootstrap, " "); got != tc.bootstrap || tc.got.ID != tc.id || tc.got.RequestTimeout != 7*time.Second {
			t.Errorf("%s: %+v, want id %s, bootstrap %s, 7s", tc.name, tc.got, tc.id, tc.bootstrap)
		}
	}
}

// Scenario 89: the specific one goes before the common one, in every client. (Kafka's example is metadata.max.age.ms, which has
// no effect here.)
func TestScenario89_SpecificBeatsCommon(t *testing.T) {
	const name = "connections.max.idle.ms"
	c := parse(t, map[string]string{
		common + "bootstrap.servers": "a:1",
		common + name:                "60000", producer + name: "120000", consumer + name: "180000", admin + name: "240000",
	}, ConfigOptions{})
	got := []time.Duration{c.Producer.IdleTimeout, c.Consumer.IdleTimeout, c.Admin.IdleTimeout}
	if diff := cmp.Diff([]time.Duration{2 * time.Minute, 3 * time.Minute, 4 * time.Minute}, got); diff != "" {
		t.Error(diff)
	}
	_, notices, err := ParseConfig(map[string]string{common + "bootstrap.servers": "a:1", producer + "metadata.max.age.ms": "1"}, ConfigOptions{Prefix: "rlmm.config."})
	if err != nil || len(notices) != 1 || !strings.HasPrefix(notices[0], "rlmm.config."+producer+"metadata.max.age.ms is ignored") {
		t.Errorf("metadata.max.age.ms: %q, %v", notices, err)
	}
}

// Scenario 90: what Kafka counts as a password is never in a text form, neither of the configuration nor of a mistake in it.
func TestScenario90_SecretsAreNotPrinted(t *testing.T) {
	props := map[string]string{
		common + "bootstrap.servers": "a:1", common + "security.protocol": "SASL_SSL", common + "sasl.mechanism": "PLAIN",
	}
	for _, name := range []string{
		"ssl.keystore.key", "ssl.keystore.certificate.chain", "ssl.truststore.certificates", "ssl.key.password", "sasl.jaas.config",
		"sasl.password", "sasl.oauthbearer.token", "ssl.truststore.password", "ssl.keystore.password",
	} {
		props[common+name] = "s3cr3t-" + name
	}
	c, notices, err := ParseConfig(props, ConfigOptions{})
	if err == nil {
		t.Fatal("no mistake was found")
	}
	text := fmt.Sprintf("%v %+v %#v %v %v", c, c, c, notices, err)
	if strings.Contains(text, "s3cr3t") {
		t.Errorf("a secret is shown: %s", text)
	}
	good := parse(t, map[string]string{
		common + "bootstrap.servers": "a:1", common + "security.protocol": "SASL_PLAINTEXT", common + "sasl.mechanism": "PLAIN",
		common + "sasl.username": "u", common + "sasl.password": "s3cr3t",
	}, ConfigOptions{})
	if text := fmt.Sprintf("%v %+v", good, good); strings.Contains(text, "s3cr3t") || !strings.Contains(text, "a:1") {
		t.Errorf("a secret is shown, or what is none is not: %s", text)
	}
}

// Scenario 91: min.insync.replicas is 2, or what is set.
func TestScenario91_MinISR(t *testing.T) {
	base := map[string]string{common + "bootstrap.servers": "a:1"}
	if got := parse(t, base, ConfigOptions{}).MinISR; got != 2 {
		t.Errorf("default %d, want 2", got)
	}
	base[keyMinISR] = "3"
	if got := parse(t, base, ConfigOptions{}).MinISR; got != 3 {
		t.Errorf("set %d, want 3", got)
	}
}

// Scenario 92: the broker's number is in the client ids. Without one there is none: a tool is not a broker.
func TestScenario92_ClientIDs(t *testing.T) {
	one := int32(1)
	base := map[string]string{common + "bootstrap.servers": "a:1"}
	c := parse(t, base, ConfigOptions{BrokerID: &one})
	for _, got := range []string{c.Producer.ID, c.Consumer.ID, c.Admin.ID} {
		if !strings.Contains(got, "_1_") {
			t.Errorf("client id %q of broker 1", got)
		}
	}
	if !strings.HasSuffix(c.Consumer.ID, "_1_consumer") {
		t.Errorf("client id %q, want it to end in _1_consumer", c.Consumer.ID)
	}
	if got := parse(t, base, ConfigOptions{}).Consumer.ID; got != "tierkit_consumer" {
		t.Errorf("client id without a broker %q", got)
	}
}

// Scenario 93: the broker's endpoint holds where the settings say nothing, and the settings go before it.
func TestScenario93_EndpointOfTheBroker(t *testing.T) {
	o := ConfigOptions{Bootstrap: []string{"localhost:1234"}, SecurityProtocol: "PLAINTEXT"}
	c := parse(t, nil, o)
	if c.Admin.Bootstrap[0] != "localhost:1234" || c.Admin.TLS != nil {
		t.Errorf("endpoint of the broker: %+v", c.Admin)
	}
	c = parse(t, map[string]string{common + "security.protocol": "SSL"}, o)
	if c.Admin.Bootstrap[0] != "localhost:1234" || c.Admin.TLS == nil || c.Producer.TLS == nil || c.Consumer.TLS == nil {
		t.Errorf("security.protocol=SSL of the user: %+v", c.Admin)
	}
}

func TestParseConfig_AllMistakesAtOnce(t *testing.T) {
	jks := filepath.Join(t.TempDir(), "trust")
	if err := os.WriteFile(jks, []byte("\xfe\xed\xfe\xed\x00\x00\x00\x02"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, _, err := ParseConfig(map[string]string{
		"remote.log.metadata.topic.num.partitons": "3",
		keyReplication:                                         "0",
		keyRetention:                                           "0",
		common + "bootstrap.servers":                           "nowhere",
		common + "security.protocol":                           "SASL_SSL",
		common + "sasl.mechanism":                              "GSSAPI",
		common + "ssl.truststore.location":                     jks,
		producer + "ssl.truststore.type":                       "JKS",
		"remote.log.metadata.common.clent.request.timeout.ms":  "1",
		"remote.log.metadata.consumer.reqest.timeout.ms":       "1",
		"remote.log.metadata.somebody.else.request.timeout.ms": "1",
	}, ConfigOptions{Prefix: "rlmm.config."})
	var got []string
	for _, p := range settings.Problems(err) {
		got = append(got, strings.TrimPrefix(strings.TrimPrefix(p.Error(), "rlmm.config."), "remote.log.metadata."))
	}
	want := []string{
		`common.clent.request.timeout.ms: unknown setting, did you mean rlmm.config.remote.log.metadata.common.client.request.timeout.ms?`,
		`common.client.bootstrap.servers="nowhere": must be host:port, or several separated by commas`,
		`common.client.sasl.mechanism="GSSAPI": must be one of PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER`,
		`common.client.ssl.truststore.location="` + jks + `": is of Java: ` + javaStore,
		`consumer.reqest.timeout.ms: unknown setting, did you mean rlmm.config.remote.log.metadata.<id>.request.timeout.ms?`,
		`producer.ssl.truststore.type="JKS": must be PEM: ` + javaStore,
		`somebody.else.request.timeout.ms: unknown setting: what follows remote.log.metadata. is common.client, producer, consumer or admin`,
		`topic.num.partitons: unknown setting, did you mean rlmm.config.remote.log.metadata.topic.num.partitions?`,
		`topic.replication.factor="0": must be in 1..32767`,
		`topic.retention.ms="0": must be -1 or greater than 0`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestParseConfig_SecurityMistakes(t *testing.T) {
	dir := t.TempDir()
	empty := filepath.Join(dir, "empty.pem")
	if err := os.WriteFile(empty, []byte("nothing"), 0o600); err != nil {
		t.Fatal(err)
	}
	const plainJAAS = `org.apache.kafka.common.security.plain.PlainLoginModule required username="u" password="p";`
	for name, tc := range map[string]struct {
		props map[string]string
		want  string
	}{
		"no mechanism":    {map[string]string{"security.protocol": "SASL_SSL"}, "sasl.mechanism: is required"},
		"no credentials":  {map[string]string{"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN"}, "sasl.jaas.config: is required with sasl.mechanism=PLAIN"},
		"other module":    {map[string]string{"security.protocol": "SASL_SSL", "sasl.mechanism": "SCRAM-SHA-256", "sasl.jaas.config": plainJAAS}, "names another login module"},
		"both":            {map[string]string{"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN", "sasl.jaas.config": plainJAAS, "sasl.username": "u"}, "cannot be set together"},
		"no token":        {map[string]string{"security.protocol": "SASL_SSL", "sasl.mechanism": "OAUTHBEARER"}, "sasl.oauthbearer.token: is required"},
		"no certificate":  {map[string]string{"security.protocol": "SSL", "ssl.truststore.location": empty}, "holds no certificate"},
		"no key":          {map[string]string{"security.protocol": "SSL", "ssl.keystore.location": empty}, "is no private key"},
		"missing file":    {map[string]string{"security.protocol": "SSL", "ssl.keystore.location": filepath.Join(dir, "no")}, "cannot be read"},
		"encrypted":       {map[string]string{"security.protocol": "SSL", "ssl.key.password": "x"}, "encrypted private keys are not read"},
		"key, no chain":   {map[string]string{"security.protocol": "SSL", "ssl.keystore.key": "x"}, "needs ssl.keystore.certificate.chain"},
		"file and text":   {map[string]string{"security.protocol": "SSL", "ssl.truststore.location": empty, "ssl.truststore.certificates": "x"}, "cannot be set together"},
		"wrong protocol":  {map[string]string{"security.protocol": "TLS"}, "must be one of PLAINTEXT, SSL"},
		"TLS version":     {map[string]string{"security.protocol": "SSL", "ssl.enabled.protocols": "TLSv1.1"}, "TLSv1.2, TLSv1.3"},
		"other algorithm": {map[string]string{"security.protocol": "SSL", "ssl.endpoint.identification.algorithm": "LDAPS"}, "must be one of https"},
	} {
		props := map[string]string{common + "bootstrap.servers": "a:1"}
		for k, v := range tc.props {
			props[common+k] = v
		}
		_, _, err := ParseConfig(props, ConfigOptions{})
		if err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v, want %q", name, err, tc.want)
		}
		if n := len(settings.Problems(err)); n != 1 {
			t.Errorf("%s: %d problems, want 1: %v", name, n, err)
		}
	}
}

func TestParseJAAS(t *testing.T) {
	const module = "org.apache.kafka.common.security.scram.ScramLoginModule"
	for text, want := range map[string]string{
		module + ` required username="u" password="p";`:                             "u/p",
		"\n" + module + "\trequired\n  username = u\n  password=\"a \\\"b;\\\\\" ;": `u/a "b;\`,
		module + ` REQUIRED serviceName="x" password="p" username="u";`:             "u/p",
	} {
		u, p, err := parseJAAS(text, mechScram512)
		if err != nil || u+"/"+p != want {
			t.Errorf("%q: %q/%q, %v, want %q", text, u, p, err, want)
		}
	}
	for _, text := range []string{
		"", ";", module, module + ` required username="u" password="p"`, module + ` required username="u" password="p;`,
		module + ` sometimes username="u" password="p";`, module + ` required username="u";`, module + ` required "username"="u" password="p";`,
		module + ` required username="u" password="p" tokenauth="true";`, module + ` required username "u" password="p";`,
	} {
		if u, p, err := parseJAAS(text, mechScram512); err == nil {
			t.Errorf("%q: %q/%q, want an error", text, u, p)
		} else if strings.Contains(err.Error(), `"p`) {
			t.Errorf("%q: the message shows the password: %v", text, err)
		}
	}
}

func FuzzParseJAAS(f *testing.F) {
	f.Add(`org.apache.kafka.common.security.plain.PlainLoginModule required username="u" password="p";`)
	f.Add(`org.apache.kafka.common.security.plain.PlainLoginModule required username=u password="\";`)
	f.Fuzz(func(t *testing.T, text string) {
		u, p, err := parseJAAS(text, mechPlain)
		if err == nil && (u == "" || p == "" || len(u)+len(p) > len(text)) {
			t.Errorf("%q: %q/%q", text, u, p)
		}
	})
}

func TestSettings_TableIsGood(t *testing.T) {
	if err := settings.Check(Settings()); err != nil {
		t.Error(err)
	}
}

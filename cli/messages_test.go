package cli_test

import (
	"strings"
	"testing"

	"github.com/tierkit/tierkit/cli"
)

func TestMessages_NoticesOfTheConfigurationAreSentences(t *testing.T) {
	b := newBed(t, []string{"storage.overwrite.enabled=true", "metrics.num.samples=2"}, "orders-0")
	r := must(t, "copy", "--config", b.config, b.logs)
	for _, want := range []string{"tierkit: configuration: storage.overwrite.enabled has no effect: ", "tierkit: configuration: metrics.num.samples has no effect: "} {
		if !strings.Contains(r.err, want) || strings.Contains(r.err, "notice=") {
			t.Errorf("standard error, want %q:\n%s", want, r.err)
		}
	}
}

func TestMessages_NumbersThatAreNone(t *testing.T) {
	for value, want := range map[string]string{
		"2023-11-14":           `invalid argument "2023-11-14" for "--timestamp" flag: it must be a whole number; see tierkit read --help`,
		"99999999999999999999": `invalid argument "99999999999999999999" for "--timestamp" flag: it is out of range; see tierkit read --help`,
	} {
		fails(t, cli.ExitUsage, []string{want}, "read", "--config", "x", "--topic", "t", "--partition", "0", "--timestamp", value)
	}
	fails(t, cli.ExitUsage, []string{"--partition and --topic-id need --topic"}, "ls", "--config", "x", "--partition", "0")
}

// What a message tells to run can be run.
func TestMessages_NameTheCommandWhoseHelpHelps(t *testing.T) {
	for want, args := range map[string][]string{
		"tierkit: unknown flag: --confg; see tierkit --help\n":                                                      {"--confg", "x"},
		"tierkit: ls: unknown flag: --form-store; see tierkit ls --help\n":                                          {"ls", "--form-store"},
		"tierkit: metadata: unknown command \"dmp\"; it has: dump status watch\n":                                   {"metadata", "dmp"},
		"tierkit: metadata needs one of: dump status watch\n":                                                       {"metadata"},
		"tierkit: help: unknown command \"metadata dmp\", did you mean dump? The commands are: dump status watch\n": {"help", "metadata", "dmp"},
		"tierkit: dump: unknown flag: --all; see tierkit metadata dump --help\n":                                    {"metadata", "dump", "--all"},
		"tierkit: watch: flag needs an argument: --from; see tierkit metadata watch --help\n":                       {"metadata", "watch", "--from"},
	} {
		if r := fails(t, cli.ExitUsage, nil, args...); r.err != want {
			t.Errorf("%q printed %q, want %q", args, r.err, want)
		}
	}
}

func TestMessages_HelpAboutWhatIsNoCommand(t *testing.T) {
	fails(t, cli.ExitUsage, []string{`help: unknown command "nosuch"; the commands are: config `, " serve "}, "help", "nosuch")
	for _, args := range [][]string{{"help"}, {"help", "ls"}, {"help", "metadata", "dump"}} {
		if out := must(t, args...).out; !strings.Contains(out, "Usage:") {
			t.Errorf("%q printed %q", args, out)
		}
	}
}

// What is wrong with a flag is not said to stand in the file.
func TestMessages_ListenOfServe(t *testing.T) {
	b := newBed(t, []string{"node.id=1", "tierkit.state.dir=" + t.TempDir(), "tierkit.token.file=token"})
	for listen, want := range map[string]string{
		"127.0.0.1":       `--listen="127.0.0.1": must be ADDRESS:PORT, the port 0 to 65535`,
		"127.0.0.1:99999": `--listen="127.0.0.1:99999": must be ADDRESS:PORT, the port 0 to 65535`,
		"0.0.0.0:9480":    `--listen="0.0.0.0:9480": is not loopback: `,
	} {
		fails(t, cli.ExitUsage, []string{want}, "serve", "--config", b.config, "--listen", listen)
	}
	b.configure(t, "node.id=1", "tierkit.state.dir="+t.TempDir(), "tierkit.token.file=token", "tierkit.listen=x", "tierkit.metrics.listen=127.0.0.1:http")
	fails(t, cli.ExitUsage, []string{`tierkit.listen="x": must be ADDRESS:PORT`, `tierkit.metrics.listen="127.0.0.1:http": must be ADDRESS:PORT`}, "serve", "--config", b.config)
}

func TestMessages_InspectOfWhatIsNoManifest(t *testing.T) {
	b := newBed(t, nil, "orders-0")
	fails(t, cli.ExitDamage, []string{b.config, "(the name of a manifest ends with .rsm-manifest)"}, "inspect", b.config)
	fails(t, cli.ExitFailed, []string{"not found", "nothing.rsm-manifest"}, "inspect", "--config", b.config, "nothing")
}

// A partition without unfinished segments is not one without segments.
func TestMessages_NothingUnfinished(t *testing.T) {
	b := newBed(t, nil, "orders-0")
	must(t, "copy", "--config", b.config, b.logs)
	r := must(t, "delete", "--config", b.config, "--topic", "orders", "--partition", "0", "--unfinished", "--older-than", "24h")
	if want := "no segment of orders-0 is unfinished for 24h0m0s or longer\n"; r.out != want {
		t.Errorf("delete --unfinished printed %q, want %q", r.out, want)
	}
}

// A sum over some of the segments is not shown as if it were that of all.
func TestMessages_SumOfSizesThatAreKnownInPart(t *testing.T) {
	b := newBed(t, nil, "orders-0")
	must(t, "copy", "--config", b.config, b.logs)
	if out := must(t, "ls", "--config", b.config).out; strings.Contains(out, "stored as") {
		t.Errorf("no size is known, but a sum is shown:\n%s", out)
	}
	b.configure(t, "custom.metadata.fields.include=REMOTE_SIZE")
	must(t, "copy", "--config", b.config, "--include-active", b.logs)
	if out := must(t, "ls", "--config", b.config).out; !strings.Contains(out, "4 segments, ") || !strings.Contains(out, "; 1 segment with a known size in the store: ") {
		t.Errorf("the size of one of four segments is known:\n%s", out)
	}
}

func TestRun_NamesTheCommandThatIsMeant(t *testing.T) {
	for _, args := range [][]string{{"docter"}, {"help", "docter"}} {
		fails(t, cli.ExitUsage, []string{`unknown command "docter", did you mean doctor?`}, args...)
	}
	if r := fails(t, cli.ExitUsage, []string{"the commands are"}, "xyzzy"); strings.Contains(r.err, "did you mean") {
		t.Errorf("%s", r.err)
	}
}

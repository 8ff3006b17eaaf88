package need

import (
	"fmt"
	"strings"
	"testing"
)

func TestRequired_OnlyWhereTheProjectChecksItself(t *testing.T) {
	for _, tc := range []struct {
		env  map[string]string
		name string
		want bool
	}{
		{nil, "java", false},
		{map[string]string{"CI": "false"}, "java", false},
		{map[string]string{"CI": "true"}, "java", true},
		{map[string]string{"TIERKIT_REQUIRE": "all"}, "java", true},
		{map[string]string{"TIERKIT_REQUIRE": "git,java"}, "java", true},
		{map[string]string{"TIERKIT_REQUIRE": "git"}, "java", false},
		{map[string]string{"TIERKIT_REQUIRE": "javac"}, "java", false},
	} {
		got := required(func(key string) string { return tc.env[key] }, tc.name)
		if got != tc.want {
			t.Errorf("required(%v, %q) = %v, want %v", tc.env, tc.name, got, tc.want)
		}
	}
}

// recorder is a testing.TB that remembers how a helper ended the test.
type recorder struct {
	testing.TB
	outcome string
}

func (r *recorder) Helper() {}

func (r *recorder) end(kind, text string) {
	r.outcome = kind + ": " + text
	panic(r)
}

func (r *recorder) Fatalf(format string, args ...any) { r.end("fail", fmt.Sprintf(format, args...)) }
func (r *recorder) Skipf(format string, args ...any)  { r.end("skip", fmt.Sprintf(format, args...)) }
func (r *recorder) Skip(args ...any)                  { r.end("skip", fmt.Sprint(args...)) }

// outcome runs f until it ends the test and says how it did, "" if it did not.
func outcome(f func(t testing.TB)) string {
	r := &recorder{}
	func() {
		defer func() {
			if p := recover(); p != nil && p != any(r) {
				panic(p)
			}
		}()
		f(r)
	}()
	return r.outcome
}

func TestCommand_SkipsOrFailsWithTheWayToGetIt(t *testing.T) {
	const absent = "no-such-program-of-tierkit"
	ask := func(t testing.TB) { Command(t, absent, "install it from there") }

	t.Setenv("CI", "")
	t.Setenv("TIERKIT_REQUIRE", "")
	if got := outcome(ask); !strings.HasPrefix(got, "skip: ") || !strings.Contains(got, "install it from there") {
		t.Errorf("nothing required: %q, want a skip that says how to get it", got)
	}
	t.Setenv("TIERKIT_REQUIRE", "all")
	if got := outcome(ask); !strings.HasPrefix(got, "fail: ") || !strings.Contains(got, "install it from there") {
		t.Errorf("required: %q, want a failure that says how to get it", got)
	}
	if got := outcome(func(t testing.TB) { Command(t, "go", "") }); got != "" {
		t.Errorf("go is there, but: %q", got)
	}
}

func TestNeed_BenchOnlyWhenAsked(t *testing.T) {
	t.Setenv("TIERKIT_BENCH", "")
	if got := outcome(Bench); !strings.HasPrefix(got, "skip: ") {
		t.Errorf("without TIERKIT_BENCH: %q, want a skip", got)
	}
	t.Setenv("TIERKIT_BENCH", "1")
	if got := outcome(Bench); got != "" {
		t.Errorf("TIERKIT_BENCH=1: %q, want none", got)
	}
}

func TestTimes_FullOnlyWhenAsked(t *testing.T) {
	for value, want := range map[string]int{"": 2, "0": 2, "1": 7} {
		t.Setenv("TIERKIT_FULL", value)
		if got := Times(2, 7); got != want {
			t.Errorf("TIERKIT_FULL=%q: %d times, want %d", value, got, want)
		}
	}
}

package kafkalog

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tierkit/tierkit/remotelog"
)

// The leaders are those of now, and the settings those that hold: of the topic, else by default.
func TestDescribe_LeadersAndSettings(t *testing.T) {
	f := newFake(t)
	if err := f.c.CreateTopic(Topic, 3, map[string]string{"min.insync.replicas": "2"}); err != nil {
		t.Fatal(err)
	}
	l := f.open(Options{})
	for p := range int32(3) {
		if err := f.c.MoveTopicPartition(Topic, p, 1-f.c.LeaderFor(Topic, p)); err != nil {
			t.Fatal(err)
		}
	}
	d, err := l.Describe(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	want := map[int32]int32{}
	for p := range int32(3) {
		want[p] = f.c.LeaderFor(Topic, p)
	}
	if diff := cmp.Diff(want, d.Leaders); diff != "" {
		t.Errorf("leaders (-want +got):\n%s", diff)
	}
	for key, value := range map[string]string{"retention.ms": "604800000", "min.insync.replicas": "2", "cleanup.policy": "delete"} {
		if d.Settings[key] != value {
			t.Errorf("%s = %q, want %q", key, d.Settings[key], value)
		}
	}
	if d.SettingsErr != nil || d.Grown != 0 {
		t.Errorf("settings error %v, grown %d; want none", d.SettingsErr, d.Grown)
	}
}

// Who may not see the settings still learns the leaders, and why there is no more.
func TestDescribe_SettingsDenied(t *testing.T) {
	f := withTopic(t, 2)
	l := f.open(Options{})
	f.c.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.DescribeConfigs}, Resource: Topic, Err: kerr.TopicAuthorizationFailed, Count: -1})
	d, err := l.Describe(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if !errors.Is(d.SettingsErr, kerr.TopicAuthorizationFailed) || d.Settings != nil || len(d.Leaders) != 2 {
		t.Errorf("%+v, want leaders, and %v for the settings", d, kerr.TopicAuthorizationFailed)
	}
}

// What may pass is waited for; a topic that must not be looked at is an error at once.
func TestDescribe_Leaders(t *testing.T) {
	f := withTopic(t, 1)
	l := f.open(Options{})
	passing := f.c.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Metadata}, Topic: Topic, Err: kerr.LeaderNotAvailable, Count: 1})
	if d, err := l.Describe(t.Context()); err != nil || len(d.Leaders) != 1 || passing.Hits() != 1 {
		t.Errorf("%+v, %v after %d faults", d, err, passing.Hits())
	}
	f.c.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Metadata}, Topic: Topic, Err: kerr.TopicAuthorizationFailed, Count: -1})
	if _, err := l.Describe(t.Context()); !errors.Is(err, kerr.TopicAuthorizationFailed) {
		t.Errorf("%v, want %v", err, kerr.TopicAuthorizationFailed)
	}
}

// The settings of another topic of the same name are not told as those of the one that was opened.
func TestDescribe_ReplacedTopic(t *testing.T) {
	f := withTopic(t, 1)
	l := f.open(Options{})
	if err := f.c.DeleteTopic(Topic); err != nil {
		t.Fatal(err)
	}
	if err := f.c.CreateTopic(Topic, 1, nil); err != nil {
		t.Fatal(err)
	}
	d, err := l.Describe(t.Context())
	if _, ok := errors.AsType[*ReplacedError](err); !ok || d.Settings != nil {
		t.Errorf("%+v, %v; want a ReplacedError", d, err)
	}
}

func TestDescribe_EndsWithItsContextAndItsLog(t *testing.T) {
	for name, tc := range map[string]struct {
		end  func(cancel func(), l *Log)
		want error
	}{
		"cancelled": {func(cancel func(), _ *Log) { cancel() }, context.Canceled},
		"closed":    {func(_ func(), l *Log) { _ = l.Close() }, remotelog.ErrClosed},
	} {
		t.Run(name, func(t *testing.T) {
			f := withTopic(t, 1)
			l := f.open(Options{})
			asked, gate := make(chan struct{}, 1), make(chan struct{})
			f.c.ControlKey(int16(kmsg.DescribeConfigs), func(kmsg.Request) (kmsg.Response, error, bool) {
				asked <- struct{}{}
				f.c.SleepControl(func() { <-gate })
				return nil, nil, false
			})
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			result := make(chan error, 1)
			go func() { _, err := l.Describe(ctx); result <- err }()
			<-asked
			tc.end(cancel, l)
			if err := <-result; !errors.Is(err, tc.want) {
				t.Errorf("%v, want %v", err, tc.want)
			}
			close(gate)
		})
	}
}

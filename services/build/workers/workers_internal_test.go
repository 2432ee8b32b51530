package workers

import (
	"errors"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	buildv1 "slipway.dev/proto/gen/slipway/build/v1"

	"slipway.dev/services/build/engine"
	"slipway.dev/services/internal/fault"
)

// TestNoWorker goes through what a request for a build hears while there is no
// worker, or the wrong one.
func TestNoWorker(t *testing.T) {
	t.Parallel()
	presence := func(p *buildv1.Presence) []byte {
		raw, err := proto.Marshal(p)
		if err != nil {
			t.Fatal(err)
		}
		return raw
	}
	amd64 := presence(&buildv1.Presence{Worker: "w", Slots: 1, Capabilities: []*buildv1.Capability{{Engine: "buildkit", Architecture: "amd64"}}})
	broken := presence(&buildv1.Presence{Worker: "w", Slots: 1, Problem: "there is no runc"})
	for _, tt := range []struct {
		name       string
		onDemand   bool
		heard      []byte
		arch       string
		ago        time.Duration
		able, wait bool
	}{
		{"none", false, nil, "amd64", 0, false, false},
		{"none yet, but started on demand", true, nil, "amd64", time.Minute, true, true},
		{"none for half an hour", true, nil, "amd64", 31 * time.Minute, true, false},
		{"one", false, amd64, "amd64", time.Hour, true, true},
		{"of another kind", false, amd64, "arm64", 0, false, false},
		{"of another kind, on demand", true, amd64, "arm64", 0, false, false},
		{"one that cannot", true, broken, "amd64", 0, false, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			now := time.Now()
			w := New(func() time.Time { return now }, tt.onDemand)
			now = now.Add(time.Hour) // past the patience after the start
			if tt.heard != nil {
				w.Observe(tt.heard)
			}
			if err := w.Able(engine.Kind{Engine: "buildkit", Architecture: tt.arch}); (err == nil) != tt.able {
				t.Errorf("asked for a build: %v", err)
			}
			err := w.MayWait(engine.Kind{Engine: "buildkit", Architecture: tt.arch}, now.Add(-tt.ago))
			if (err == nil) != tt.wait {
				t.Errorf("waiting for a worker: %v", err)
			}
			if f, ok := fault.As(err); err != nil && (!ok || f.Kind != fault.Unsupported) {
				t.Errorf("the fault is %v", err)
			}
		})
	}
}

// TestNobodyCanBuild shows whom a submission waits for, and what it is told when
// it would wait in vain.
func TestNobodyCanBuild(t *testing.T) {
	t.Parallel()
	worker := func(name, problem string, engines ...string) *buildv1.Presence {
		p := &buildv1.Presence{Worker: name, Slots: 1, Problem: problem}
		for _, e := range engines {
			p.Capabilities = append(p.Capabilities, &buildv1.Capability{Engine: e, Architecture: "amd64"})
		}
		return p
	}
	broken, starting := worker("broken", "buildkit: there is no runc"), worker("other", "")
	able, left := worker("other", "", "buildkit"), &buildv1.Presence{Worker: "other"}
	type says = []*buildv1.Presence
	for _, tc := range []struct {
		name  string
		first says
		pause time.Duration
		then  says
		want  string // "" when the build waits
	}{
		{name: "just started"},
		{name: "nobody came", pause: patience, want: "no worker right now"},
		{name: "the worker cannot", first: says{broken}, want: "cannot build images: buildkit: there is no runc"},
		{name: "the worker starts", first: says{starting}},
		{name: "the worker found out that it cannot", first: says{starting, worker("other", "no disk")}, want: "no disk"},
		{name: "one cannot, the other starts", first: says{broken, starting}},
		{name: "one cannot, the other can", first: says{broken, able}},
		{name: "one cannot, the other left early", first: says{broken, starting, left}, want: "there is no runc"},
		{name: "one cannot, the other was here", first: says{able, left, broken}},
		{name: "one cannot, the other was here long ago", first: says{able, left}, pause: Absence, then: says{broken}, want: "there is no runc"},
		{name: "the first worker starts, long after us", pause: patience, then: says{starting}},
		{name: "nobody has the engine", pause: patience, then: says{worker("other", "", "sif")}, want: "builds for linux/amd64"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			now, c := time.Unix(0, 0), engine.Kind{Engine: "buildkit", Architecture: "amd64"}
			w := New(func() time.Time { return now }, false)
			hear := func(all says) {
				for _, p := range all {
					raw, err := proto.Marshal(p)
					if err != nil {
						t.Fatal(err)
					}
					w.Observe(raw)
					_ = w.Able(c) // what is noted of it counts later
				}
			}
			hear(tc.first)
			now = now.Add(tc.pause)
			hear(tc.then)
			err := w.Able(c)
			if tc.want == "" && err != nil || tc.want != "" && (!errors.Is(err, fault.Unsupported) || !strings.Contains(err.Error(), tc.want)) {
				t.Errorf("it is answered %v, want %q", err, tc.want)
			}
		})
	}
}

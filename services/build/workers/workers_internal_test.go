package workers

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/proto"

	buildv1 "slipway.dev/proto/gen/slipway/build/v1"

	"slipway.dev/services/build/engine"
	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/testkit/bubble"
)

// TestNoWorker checks the responses to a request for a build while there is no worker, or
// an unsuitable one.
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
	full := presence(&buildv1.Presence{Worker: "w", Slots: 1, Problem: "its disk is almost full", DiskFull: true})
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
		{"one with a full disk", false, full, "amd64", 0, false, true},
		{"one with a full disk for half an hour", false, full, "amd64", 31 * time.Minute, false, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			now := time.Now()
			w := New(func() time.Time { return now }, tt.onDemand)
			now = now.Add(time.Hour) // past the time that builds wait after the start
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
			if f, ok := fault.As(err); err != nil && (!ok || f.Kind != fault.Unsupported && f.Kind != fault.Full) {
				t.Errorf("the fault is %v", err)
			}
		})
	}
}

// TestNoWorkerCanBuild checks which workers a submission waits for, and the error if it would
// wait in vain.
func TestNoWorkerCanBuild(t *testing.T) {
	t.Parallel()
	worker := func(name, problem string, engines ...string) *buildv1.Presence {
		p := &buildv1.Presence{Worker: name, Slots: 1, Problem: problem}
		for _, e := range engines {
			p.Capabilities = append(p.Capabilities, &buildv1.Capability{Engine: e, Architecture: "amd64"})
		}
		return p
	}
	broken, starting := worker("broken", "buildkit: there is no runc"), worker("other", "")
	full := worker("full", "its disk is almost full")
	full.DiskFull = true
	able, left := worker("other", "", "buildkit"), &buildv1.Presence{Worker: "other"}
	type presences = []*buildv1.Presence
	for _, tc := range []struct {
		name  string
		first presences
		pause time.Duration
		then  presences
		want  string // "" if the build waits
	}{
		{name: "just started", want: "no worker right now"},
		{name: "nobody came", pause: reportWindow, want: "no worker right now"},
		{name: "the worker cannot", first: presences{broken}, want: "cannot build images: buildkit: there is no runc"},
		{name: "the worker starts", first: presences{starting}},
		{name: "the worker found out that it cannot", first: presences{starting, worker("other", "no disk")}, want: "no disk"},
		{name: "one cannot, the other starts", first: presences{broken, starting}},
		{name: "one cannot, the other can", first: presences{broken, able}},
		{name: "one cannot, the other left early", first: presences{broken, starting, left}, want: "there is no runc"},
		{name: "one cannot, the other was here", first: presences{able, left, broken}},
		{name: "one cannot, the other was here long ago", first: presences{able, left}, pause: Absence, then: presences{broken}, want: "there is no runc"},
		{name: "the disk is full", first: presences{full}, want: "disks of this service's workers are almost full"},
		{name: "the disk of one is full, the other can", first: presences{full, able}},
		{name: "the disk of one is full, the other starts", first: presences{full, starting}},
		{name: "the disk of one is full, the other cannot", first: presences{broken, full}, want: "cannot build images: "},
		{name: "the disk is full, but the worker could build a moment ago", first: presences{able, func() *buildv1.Presence { p := worker("other", "its disk is almost full"); p.DiskFull = true; return p }()}, want: "almost full"},
		{name: "the first worker starts, long after us", pause: reportWindow, then: presences{starting}},
		{name: "no worker has the engine", pause: reportWindow, then: presences{worker("other", "", "sif")}, want: "builds for linux/amd64"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			now, c := time.Unix(0, 0), engine.Kind{Engine: "buildkit", Architecture: "amd64"}
			w := New(func() time.Time { return now }, false)
			receive := func(all presences) {
				for _, p := range all {
					raw, err := proto.Marshal(p)
					if err != nil {
						t.Fatal(err)
					}
					w.Observe(raw)
					_ = w.Able(c) // it records when the kind was last available
				}
			}
			receive(tc.first)
			now = now.Add(tc.pause)
			receive(tc.then)
			err := w.Able(c)
			if tc.want == "" && err != nil || tc.want != "" && (!errors.Is(err, fault.Unsupported) && !errors.Is(err, fault.Full) || !strings.Contains(err.Error(), tc.want)) {
				t.Errorf("it is answered %v, want %q", err, tc.want)
			}
		})
	}
}

// TestFirstReport checks that right after the start a request waits two seconds for workers
// that have not reported yet, and is then rejected.
func TestFirstReport(t *testing.T) {
	t.Parallel()
	c := engine.Kind{Engine: "buildkit", Architecture: "amd64"}
	able := &buildv1.Presence{Worker: "w", Slots: 1, Capabilities: []*buildv1.Capability{{Engine: "buildkit", Architecture: "amd64"}}}
	other := &buildv1.Presence{Worker: "o", Slots: 1, Capabilities: []*buildv1.Capability{{Engine: "sif", Architecture: "amd64"}}}
	for _, tc := range []struct {
		name    string
		asked   time.Duration // after the start
		reports map[time.Duration]*buildv1.Presence
		able    bool
		took    time.Duration
	}{
		{"none reports", 0, nil, false, firstReport},
		{"one reports in time", 0, map[time.Duration]*buildv1.Presence{time.Second: able}, true, time.Second},
		{"one of another kind, then this one", 0, map[time.Duration]*buildv1.Presence{100 * time.Millisecond: other, time.Second: able}, true, time.Second},
		{"all have reported", 5 * time.Second, map[time.Duration]*buildv1.Presence{time.Second: other}, false, 0},
		{"none has reported for long", time.Minute, nil, false, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := New(time.Now, false)
				for after, p := range tc.reports {
					raw, err := proto.Marshal(p)
					if err != nil {
						t.Fatal(err)
					}
					time.AfterFunc(after, func() { w.Observe(raw) })
				}
				bubble.Elapse(tc.asked)
				start := time.Now()
				err := w.Await(t.Context(), c)
				if took := time.Since(start); (err == nil) != tc.able || took != tc.took {
					t.Errorf("after %s: %v", took, err)
				}
				if err != nil && !errors.Is(err, fault.Unsupported) {
					t.Errorf("refused with %v", err)
				}
			})
		})
	}
}

package conda_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"path"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"slipway.dev/services/builder/claim"
	engine "slipway.dev/services/builder/engine/conda"
	"slipway.dev/services/builder/jobs"
	"slipway.dev/services/builder/jobs/jobstest"
	"slipway.dev/services/internal/bus"
	"slipway.dev/services/internal/embedded"
	"slipway.dev/services/internal/limits"
	"slipway.dev/services/internal/testkit"
)

// sharing creates a worker with its own folder that shares layers, after change.
func (b *bench) sharing(nc *nats.Conn, change ...func(*claim.Claims)) *engine.Engine {
	b.t.Helper()
	return b.worker(nc, "worker", change...)
}

// worker creates a sharing worker with a name.
func (b *bench) worker(nc *nats.Conn, name string, change ...func(*claim.Claims)) *engine.Engine {
	b.t.Helper()
	c, err := claim.New(claim.Options{NATS: nc, Work: b.service.Client, Worker: name, Log: testkit.Log(b.t), Now: time.Now})
	if err != nil {
		b.t.Fatal(err)
	}
	for _, f := range change {
		f(c)
	}
	return b.engineWith(engine.Options{Dir: b.t.TempDir(), Keep: 1 << 30, Claims: c})
}

// build builds an image as team/env:<n>.
func (b *bench) build(ctx context.Context, e *engine.Engine, n int, out jobs.Output) (string, error) {
	return e.Build(ctx, b.job(b.curl(), func(j *jobs.Job) {
		j.ID, j.Target.Tag = fmt.Sprintf("%016d_1", n), strconv.Itoa(n)
	}), out)
}

// TestCondaOnce checks that ten concurrent builds on three workers fetch each package once.
// Another repository does not share them.
func TestCondaOnce(t *testing.T) {
	t.Parallel()
	b, nc := newBench(t), jobstest.WithClaims(t, testkit.NATS(t))
	var waited, sent atomic.Int32
	b.together([]*engine.Engine{b.sharing(nc), b.sharing(nc), b.sharing(nc)}, func(text string) {
		if strings.Contains(text, "Waiting for another worker that builds 2 layers") {
			waited.Add(1)
		}
		if strings.Contains(text, "2 were sent") {
			sent.Add(1)
		}
	})
	if waited.Load() == 0 || sent.Load() > 1 {
		t.Errorf("%d builds waited for others; %d sent both layers", waited.Load(), sent.Load())
	}
	elsewhere := b.job(b.curl(), func(j *jobs.Job) { j.Target.Repository = "team/other" })
	if _, err := b.sharing(nc).Build(t.Context(), elsewhere, &lines{}); err != nil || b.asked.Load() != 4 {
		t.Errorf("for another repository the channel was asked %d times, %v", b.asked.Load(), err)
	}
}

// lose makes the registry report a repository's blobs as missing until they are pushed
// again.
func (b *bench) lose(repository string) {
	var sent sync.Map // by digest
	b.images.Intercept(func(w http.ResponseWriter, r *http.Request) bool {
		for _, as := range []string{"digest", "mount"} {
			sent.Store(r.URL.Query().Get(as), true)
		}
		_, there := sent.Load(path.Base(r.URL.Path))
		gone := r.Method == http.MethodHead && !there && strings.HasPrefix(r.URL.Path, "/v2/"+repository+"/blobs/")
		if gone {
			w.WriteHeader(http.StatusNotFound)
		}
		return gone
	})
}

// TestCondaLater checks that layers of one worker are reused by workers that start later,
// also in another repository once the first worker has pushed them there. Layers that were
// deleted there are built again.
func TestCondaLater(t *testing.T) {
	t.Parallel()
	b, nc := newBench(t), jobstest.WithClaims(t, testkit.NATS(t))
	first := b.sharing(nc)
	in := func(repository string) func(*jobs.Job) { return func(j *jobs.Job) { j.Target.Repository = repository } }
	asked := func(e *engine.Engine, repository string, want int) {
		t.Helper()
		before := int(b.asked.Load())
		if _, err := e.Build(t.Context(), b.job(b.curl(), in(repository)), &lines{}); err != nil {
			t.Fatal(err)
		}
		if n := int(b.asked.Load()) - before; n != want {
			t.Errorf("for %s the channel was asked %d times instead of %d", repository, n, want)
		}
	}
	asked(first, "team/env", 2)
	asked(b.sharing(nc), "team/env", 0)
	asked(first, "team/other", 0) // it has the layers, and notes them
	asked(b.sharing(nc), "team/other", 0)

	b.lose("team/env")
	asked(b.sharing(nc), "team/env", 2)
	asked(b.sharing(nc), "team/env", 0)
}

// TestCondaOnceOfLogin checks that layers from private channels are not shared.
func TestCondaOnceOfLogin(t *testing.T) {
	t.Parallel()
	b, nc := newBench(t), jobstest.WithClaims(t, testkit.NATS(t))
	b.service.Logins[strings.TrimPrefix(b.channel.URL, "http://")] = testkit.Password
	for n := range 2 {
		job := b.job(b.curl(), func(j *jobs.Job) { j.PrivateChannels, j.CacheScope = []string{b.channel.URL + "/lab"}, "ada" })
		if _, err := b.sharing(nc).Build(t.Context(), job, &lines{}); err != nil || int(b.asked.Load()) != 2*(n+1) {
			t.Errorf("worker %d: the channel was asked %d times, %v", n, b.asked.Load(), err)
		}
	}
}

// first uses answer for the first requests for the two packages, and closes the channel
// both when both have arrived.
func (b *bench) first(answer func(w http.ResponseWriter) bool) (both chan struct{}) {
	both = make(chan struct{})
	var asked atomic.Int32
	b.respond = func(w http.ResponseWriter, _ *http.Request) bool {
		n := asked.Add(1)
		if n == 2 {
			close(both)
		}
		return n <= 2 && answer(w)
	}
	return both
}

// TestCondaHolderSilent checks that a waiting worker builds the layers if the worker that
// was building them falls silent.
func TestCondaHolderSilent(t *testing.T) {
	t.Parallel()
	b, nc := newBench(t), jobstest.WithClaims(t, testkit.NATS(t))
	silent, alive := make(chan struct{}), make(chan struct{})
	both := b.first(func(http.ResponseWriter) bool { <-alive; return false })
	holder := b.sharing(nc, func(c *claim.Claims) {
		c.After = func(time.Duration) <-chan time.Time { return nil } // it renews no claim
	})
	other := b.sharing(nc, func(c *claim.Claims) {
		usual := c.After
		c.After = func(d time.Duration) <-chan time.Time {
			if d != limits.LayerSilence {
				return usual(d)
			}
			come := make(chan time.Time)
			go func() { <-silent; close(come) }()
			return come
		}
	})
	var all sync.WaitGroup
	var late string
	all.Go(func() {
		var err error
		if late, err = b.build(t.Context(), holder, 1, &lines{}); err != nil {
			t.Error("the holder:", err)
		}
	})
	<-both
	made, err := b.build(t.Context(), other, 2, outputFunc(func(text string) {
		if strings.Contains(text, "Waiting for another worker that builds 2 layers") {
			close(silent)
		}
	}))
	close(alive)
	all.Wait()
	if err != nil || made != late || b.asked.Load() != 4 {
		t.Errorf("it made %s, and the holder %s; the channel was asked %d times; %v", made, late, b.asked.Load(), err)
	}
}

// TestCondaHolderFails checks that if the worker that builds the layers fails, only its own
// build fails.
func TestCondaHolderFails(t *testing.T) {
	t.Parallel()
	b, nc := newBench(t), jobstest.WithClaims(t, testkit.NATS(t))
	waits := make(chan struct{})
	both := b.first(func(w http.ResponseWriter) bool { <-waits; w.WriteHeader(http.StatusNotFound); return true })
	var all sync.WaitGroup
	all.Go(func() {
		_, err := b.build(t.Context(), b.sharing(nc), 1, &lines{})
		if f := new(jobs.Failure); !errors.As(err, &f) || !strings.Contains(f.Message, "does not have") {
			t.Errorf("the holder ends as %v", err)
		}
	})
	<-both
	_, err := b.build(t.Context(), b.sharing(nc), 2, outputFunc(func(text string) {
		if strings.Contains(text, "Waiting for another worker that builds 2 layers") {
			close(waits)
		}
	}))
	all.Wait()
	if err != nil || b.asked.Load() != 2 {
		t.Errorf("the other ends as %v; the channel served %d packages", err, b.asked.Load())
	}
}

// TestCondaWithoutNATS checks that builds continue if NATS stops while layers are built and
// waited for.
func TestCondaWithoutNATS(t *testing.T) {
	t.Parallel()
	server, err := embedded.StartNATS(t.TempDir(), testkit.Log(t))
	if err != nil {
		t.Fatal(err)
	}
	nc, err := bus.Local(server, testkit.Log(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	jobstest.WithClaims(t, nc)
	b, gone := newBench(t), make(chan struct{})
	both := b.first(func(http.ResponseWriter) bool { <-gone; return false })
	var all sync.WaitGroup
	all.Go(func() {
		if _, err := b.build(t.Context(), b.sharing(nc), 1, &lines{}); err != nil {
			t.Error("the holder:", err)
		}
	})
	<-both
	impatient := func(c *claim.Claims) {
		usual := c.After
		c.After = func(d time.Duration) <-chan time.Time {
			if d != limits.LayerSilence {
				return usual(d)
			}
			come := make(chan time.Time)
			go func() { <-gone; close(come) }()
			return come
		}
	}
	_, err = b.build(t.Context(), b.sharing(nc, impatient), 2, outputFunc(func(text string) {
		if strings.Contains(text, "Waiting for another worker that builds 2 layers") {
			server.Shutdown()
			server.WaitForShutdown()
			close(gone)
		}
	}))
	all.Wait()
	if err != nil || b.asked.Load() != 4 {
		t.Errorf("who waited ends as %v; the channel was asked %d times", err, b.asked.Load())
	}
}

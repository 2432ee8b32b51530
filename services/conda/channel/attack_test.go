package channel_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"slipway.dev/services/conda/channel"
	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/limits"
	"slipway.dev/services/internal/upstream"
)

// tarpit is a channel's server that lets who asks for channels called slow… wait, until
// the test ends.
func tarpit(t *testing.T) *web {
	t.Helper()
	site := newWeb(t)
	site.set("/c/linux-64/repodata.json", repodata("1"))
	end := make(chan struct{})
	t.Cleanup(func() { close(end) })
	site.answers(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/slow") {
			<-end
			return
		}
		site.mu.Lock()
		file, ok := site.files[r.URL.Path]
		site.mu.Unlock()
		if !ok {
			http.NotFound(w, r)
			return
		}
		_, _ = w.Write(file)
	})
	return site
}

// canceled is of somebody who asks, and does not wait.
func canceled(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	return ctx
}

// asksFor has a client ask for channels that do not answer, and waits until all are in
// the queue, or refused.
func (w *world) asksFor(t *testing.T, client string, slow int) (refused int) {
	t.Helper()
	var all sync.WaitGroup
	var mu sync.Mutex
	for i := range slow {
		c, err := w.Resolve(fmt.Sprintf("slow-%s-%d", client, i))
		if err != nil {
			t.Fatal(err)
		}
		all.Go(func() {
			if _, err := w.Get(canceled(t), c, "linux-64", channel.Access{Client: client}); errors.Is(err, fault.Exhausted) {
				mu.Lock()
				refused++
				mu.Unlock()
			}
		})
	}
	all.Wait()
	return refused
}

// TestSlowChannels: who names channels that never answer keeps no other client from
// theirs, nor anybody from those that the operator named.
func TestSlowChannels(t *testing.T) {
	t.Parallel()
	site := tarpit(t)
	w := open(t, site, t.TempDir(), func(o *channel.Options) {
		var err error
		if o.Names, err = channel.NewNames(site.URL, []string{"ours=" + site.URL + "/ours"}); err != nil {
			t.Fatal(err)
		}
	})
	site.set("/ours/linux-64/repodata.json", repodata("1"))
	if refused := w.asksFor(t, "mallory", 2*limits.ChannelsWaiting); refused == 0 {
		t.Error("one client may have any number of channels fetched")
	}
	w.asksFor(t, "mallet", 1) // whose share is not used up
	for client, name := range map[string]string{"ada": "c", "mallory": "ours"} {
		c, err := w.Resolve(name)
		if err != nil {
			t.Fatal(err)
		}
		if state, err := w.Get(t.Context(), c, "linux-64", channel.Access{Client: client}); err != nil || state.Index == nil {
			t.Errorf("%s got no %s: %v", client, name, err)
		}
	}
}

// TestSharedWait: a channel that waits behind one client's slow ones is fetched as soon
// as another wants it.
func TestSharedWait(t *testing.T) {
	t.Parallel()
	w := open(t, tarpit(t), t.TempDir())
	w.asksFor(t, "mallory", 10)
	c, err := w.Resolve("c")
	if err != nil {
		t.Fatal(err)
	}
	_, _ = w.Get(canceled(t), c, "linux-64", channel.Access{Client: "mallory"})
	if state, err := w.Get(t.Context(), c, "linux-64", channel.Access{Client: "ada"}); err != nil || state.Index == nil {
		t.Errorf("ada waits for mallory's channels: %v", err)
	}
}

// TestManyChannels: as many channels as are remembered leave room for the next, and
// those that the operator named stay.
func TestManyChannels(t *testing.T) {
	t.Parallel()
	site := newWeb(t)
	site.answers(func(w http.ResponseWriter, r *http.Request) {
		if !strings.HasSuffix(r.URL.Path, "/repodata.json") {
			http.NotFound(w, r)
			return
		}
		_, _ = w.Write(repodata("1"))
	})
	w := open(t, site, t.TempDir(), func(o *channel.Options) {
		var err error
		if o.Names, err = channel.NewNames(site.URL, []string{"ours=" + site.URL + "/ours"}); err != nil {
			t.Fatal(err)
		}
	})
	const most = 50
	w.Remember(most)
	for i := range 2 * most {
		name := fmt.Sprintf("c%d", i)
		if i == 0 {
			name = "ours"
		}
		c, err := w.Resolve(name)
		if err != nil {
			t.Fatal(err)
		}
		if state, err := w.Get(t.Context(), c, "linux-64", channel.Access{Client: "ada"}); err != nil || state.Index == nil {
			t.Fatalf("channel %d: %v", i, err)
		}
	}
	site.paths()
	if _, err := w.Resolve("ours"); err != nil || w.Entries() > most || !w.Remembers("ours") {
		t.Errorf("%d are remembered, ours among them: %v", w.Entries(), w.Remembers("ours"))
	}
}

// TestMirrorGetsNoLogin: a login is for the host that its owner named.
func TestMirrorGetsNoLogin(t *testing.T) {
	t.Parallel()
	site, mirror := newWeb(t), newWeb(t)
	site.answers(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadGateway) })
	mirror.set("/c/linux-64/repodata.json", repodata("1"))
	for i, a := range []channel.Access{{Username: "token", Password: "s3cret"}, {Username: "ada", Password: "s3cret"}} {
		w := open(t, site, t.TempDir(), func(o *channel.Options) {
			var err error
			if o.Names, err = channel.NewNames(site.URL, []string{"c=" + site.URL + "/c", "c=" + mirror.URL + "/c"}); err != nil {
				t.Fatal(err)
			}
			egress, err := upstream.NewEgress([]string{"127.0.0.1"})
			if err != nil {
				t.Fatal(err)
			}
			o.Client = channel.NewClient(upstream.NewTransport(egress))
		})
		a.Scope = fmt.Sprint(i)
		if state, err := w.get(t, a); err != nil || state.Index == nil {
			t.Errorf("with a mirror: %v", err)
		}
	}
	for _, r := range mirror.asked {
		if r.Header.Get("Authorization") != "" || strings.Contains(r.URL.Path, "s3cret") {
			t.Errorf("the mirror was told %s %v", r.URL, r.Header)
		}
	}
}

// TestRedirectToAnotherPort: a service beside the channel, on the same machine, is
// another.
func TestRedirectToAnotherPort(t *testing.T) {
	t.Parallel()
	beside, site := newWeb(t), newWeb(t)
	beside.answers(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(repodata("1")) })
	site.answers(func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, beside.URL+"/file", http.StatusFound)
	})
	w := open(t, site, t.TempDir(), func(o *channel.Options) {
		egress, err := upstream.NewEgress([]string{"127.0.0.1"})
		if err != nil {
			t.Fatal(err)
		}
		o.Client = channel.NewClient(upstream.NewTransport(egress))
	})
	_, _ = w.get(t, channel.Access{Scope: "1", Username: "ada", Password: "s3cret"})
	for _, r := range beside.asked {
		if r.Header.Get("Authorization") != "" {
			t.Errorf("the other service was told %v", r.Header)
		}
	}
	if len(beside.asked) == 0 {
		t.Error("the redirect was not followed")
	}
}

// TestLoginEnds: what a login showed is gone when the channel no longer takes it.
func TestLoginEnds(t *testing.T) {
	t.Parallel()
	site := newWeb(t)
	site.set("/c/linux-64/repodata.json", repodata("1"))
	w := open(t, site, t.TempDir())
	a := channel.Access{Scope: "u1", Username: "ada", Password: "s3cret"}
	if state, err := w.get(t, a); err != nil || state.Index == nil {
		t.Fatalf("with a login that is good: %v", err)
	}
	site.answers(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusUnauthorized) })
	w.clock.forward(2 * limits.ChannelUnused)
	_, _ = w.get(t, a)
	w.settled()
	if state, err := w.get(t, a); !errors.Is(err, fault.Denied) || state.Index != nil {
		t.Errorf("with a login that has ended: %v, %v", state, err)
	}
	if left, _ := filepath.Glob(filepath.Join(w.Dir(), "*.idx")); len(left) > 0 {
		for _, path := range left {
			st, _ := os.Stat(path)
			t.Errorf("%s was left, of %d bytes", path, st.Size())
		}
	}
}

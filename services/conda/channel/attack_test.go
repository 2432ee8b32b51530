package channel_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"

	"slipway.dev/services/conda/channel"
	"slipway.dev/services/internal/fairshare"
	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/limits"
	"slipway.dev/services/internal/upstream"
)

// newSlowChannel returns a channel server that does not respond to requests for channels named
// slow… until the test ends.
func newSlowChannel(t *testing.T) *web {
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

// canceled returns a cancelled context, for a client that does not wait.
func canceled(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	return ctx
}

// asksFor requests channels that do not respond, on behalf of a client, until each request
// is queued or rejected.
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
			if _, err := w.Get(canceled(t), c, "linux-64", channel.Access{Client: fairshare.User(client)}); errors.Is(err, fault.Exhausted) {
				mu.Lock()
				refused++
				mu.Unlock()
			}
		})
	}
	all.Wait()
	return refused
}

// TestSlowChannels checks that a client that names unresponsive channels delays neither
// other clients nor the operator's channels.
func TestSlowChannels(t *testing.T) {
	t.Parallel()
	site := newSlowChannel(t)
	w := open(t, site, t.TempDir(), func(o *channel.Options) {
		var err error
		if o.Names, err = channel.NewNames(site.URL, []string{"ours=" + site.URL + "/ours"}); err != nil {
			t.Fatal(err)
		}
	})
	site.set("/ours/linux-64/repodata.json", repodata("1"))
	if refused := w.asksFor(t, "mallory", 2*limits.ChannelsWaiting); refused == 0 {
		t.Error("the fetches of one client are not limited")
	}
	w.asksFor(t, "mallet", 1) // mallet's share of concurrent fetches is not used up
	for client, name := range map[string]string{"ada": "c", "mallory": "ours"} {
		c, err := w.Resolve(name)
		if err != nil {
			t.Fatal(err)
		}
		if state, err := w.Get(t.Context(), c, "linux-64", channel.Access{Client: fairshare.User(client)}); err != nil || state.Index == nil {
			t.Errorf("%s got no %s: %v", client, name, err)
		}
	}
}

// TestSharedWait checks that a channel queued behind one client's slow channels is fetched
// as soon as another client needs it.
func TestSharedWait(t *testing.T) {
	t.Parallel()
	w := open(t, newSlowChannel(t), t.TempDir())
	w.asksFor(t, "mallory", 10)
	c, err := w.Resolve("c")
	if err != nil {
		t.Fatal(err)
	}
	_, _ = w.Get(canceled(t), c, "linux-64", channel.Access{Client: fairshare.User("mallory")})
	if state, err := w.Get(t.Context(), c, "linux-64", channel.Access{Client: fairshare.User("ada")}); err != nil || state.Index == nil {
		t.Errorf("ada's request waited for mallory's channels: %v", err)
	}
}

// TestBlanks checks that highly compressed lists do not delay other clients.
func TestBlanks(t *testing.T) {
	t.Parallel()
	var blanks bytes.Buffer
	z, err := zstd.NewWriter(&blanks, zstd.WithEncoderConcurrency(1))
	if err != nil {
		t.Fatal(err)
	}
	for block := bytes.Repeat([]byte(" "), 1<<20); blanks.Len() < 16<<10; {
		if _, err := z.Write(block); err != nil {
			t.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	site := newWeb(t)
	site.answers(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case strings.HasPrefix(r.URL.Path, "/blank") && strings.HasSuffix(r.URL.Path, ".json.zst"):
			_, _ = w.Write(blanks.Bytes())
		case r.URL.Path == "/c/linux-64/repodata.json":
			_, _ = w.Write(repodata("1"))
		default:
			http.NotFound(w, r)
		}
	})
	w := open(t, site, t.TempDir())
	for _, client := range []string{"192.0.2.1", "198.51.100.1"} {
		for i := range 40 {
			c, err := w.Resolve(fmt.Sprintf("blank-%s-%d", client, i))
			if err != nil {
				t.Fatal(err)
			}
			_, _ = w.Get(canceled(t), c, "linux-64", channel.Access{Client: fairshare.Address(netip.MustParseAddr(client))})
		}
	}
	start := time.Now()
	if state, err := w.get(t, channel.Access{Client: fairshare.Address(netip.MustParseAddr("203.0.113.1"))}); err != nil || state.Index == nil || time.Since(start) > 5*time.Second {
		t.Errorf("%v after %s", err, time.Since(start))
	}
	c, err := w.Resolve("blank-192.0.2.1-0")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Get(t.Context(), c, "linux-64", channel.Access{}); !errors.Is(err, fault.Unavailable) || !strings.Contains(err.Error(), "times its download size") {
		t.Errorf("a list of blanks: %v", err)
	}
}

// TestDiskShares checks that a client that names many channels only evicts its own indexes.
func TestDiskShares(t *testing.T) {
	t.Parallel()
	site := newWeb(t)
	site.answers(func(w http.ResponseWriter, r *http.Request) {
		if !strings.HasSuffix(r.URL.Path, "/repodata.json") {
			http.NotFound(w, r)
			return
		}
		_, _ = w.Write(repodata("1"))
	})
	const size = 32 << 10
	w := open(t, site, t.TempDir(), func(o *channel.Options) {
		var err error
		if o.Names, err = channel.NewNames(site.URL, []string{"ours=" + site.URL + "/ours"}); err != nil {
			t.Fatal(err)
		}
		o.Size = size
	})
	get := func(client, name string) {
		c, err := w.Resolve(name)
		if err != nil {
			t.Fatal(err)
		}
		if state, err := w.Get(t.Context(), c, "linux-64", channel.Access{Client: fairshare.User(client)}); err != nil || state.Index == nil {
			t.Fatalf("%s: %v", name, err)
		}
		w.clock.forward(time.Second)
	}
	get("ada", "hers")
	get("ada", "ours")
	for i := range 100 {
		get("mallory", fmt.Sprintf("c%d", i))
	}
	w.settled()
	var total int64
	for _, s := range w.Statuses() {
		total += s.Size
	}
	if !w.Remembers("hers") || !w.Remembers("ours") || w.Remembers("c0") || !w.Remembers("c99") || total > size/8+size/16 {
		t.Errorf("hers %v, ours %v, the first %v and the last of mallory's %v; %d bytes", w.Remembers("hers"), w.Remembers("ours"), w.Remembers("c0"), w.Remembers("c99"), total)
	}
}

// TestManyChannels checks that further channels can be read when the limit of entries is
// reached, and that the operator's channels are retained.
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
		if state, err := w.Get(t.Context(), c, "linux-64", channel.Access{Client: fairshare.User("ada")}); err != nil || state.Index == nil {
			t.Fatalf("channel %d: %v", i, err)
		}
	}
	site.paths()
	if _, err := w.Resolve("ours"); err != nil || w.Entries() > most || !w.Remembers("ours") {
		t.Errorf("%d entries, the operator's among them: %v", w.Entries(), w.Remembers("ours"))
	}
}

// TestMirrorGetsNoLogin checks that a login is only sent to the host that its owner
// configured.
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
			t.Errorf("the mirror received %s %v", r.URL, r.Header)
		}
	}
}

// TestRedirectToAnotherPort checks that no login is sent to another port of the channel's
// host.
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
			t.Errorf("the other service received %v", r.Header)
		}
	}
	if len(beside.asked) == 0 {
		t.Error("the redirect was not followed")
	}
}

// TestLoginEnds checks that an index that was read with a login is deleted when the channel
// rejects the login.
func TestLoginEnds(t *testing.T) {
	t.Parallel()
	site := newWeb(t)
	site.set("/c/linux-64/repodata.json", repodata("1"))
	w := open(t, site, t.TempDir())
	a := channel.Access{Scope: "u1", Username: "ada", Password: "s3cret"}
	if state, err := w.get(t, a); err != nil || state.Index == nil {
		t.Fatalf("with a valid login: %v", err)
	}
	site.answers(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusUnauthorized) })
	w.clock.forward(2 * limits.ChannelUnused)
	_, _ = w.get(t, a)
	w.settled()
	if state, err := w.get(t, a); !errors.Is(err, fault.Denied) || state.Index != nil {
		t.Errorf("with a revoked login: %v, %v", state, err)
	}
	if left, _ := filepath.Glob(filepath.Join(w.Dir(), "*.idx")); len(left) > 0 {
		for _, path := range left {
			st, _ := os.Stat(path)
			t.Errorf("%s with %d bytes was not removed", path, st.Size())
		}
	}
}

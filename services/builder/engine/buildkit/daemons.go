package buildkit

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/moby/buildkit/client"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	"slipway.dev/services/builder/daemon/step"
	"slipway.dev/services/internal/retry"
)

// daemonState is what is known of a daemon.
type daemonState struct {
	address  string // where it was reached
	client   *client.Client
	archs    []string // empty while it does not answer
	isolates bool     // it says that somebody serves its steps
	answered bool     // it did, once
	problem  string   // "" where there is none, or it may just be starting
}

// watch asks a daemon now and then what it can do.
func (b *Engine) watch(ctx context.Context, name string) {
	for wait := time.Duration(0); retry.Sleep(ctx, wait); {
		wait = 250 * time.Millisecond
		if b.probe(ctx, name) {
			wait = 2 * time.Second
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if d := b.daemons[name]; d.client != nil {
		_ = d.client.Close()
		d.client, d.archs = nil, nil
	}
}

func (b *Engine) probe(ctx context.Context, name string) bool {
	c, gone := b.connect(ctx, name)
	var w workers
	var silent error
	if gone == nil {
		ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
		defer cancel()
		w, silent = ask(ctx, c)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	d := b.daemons[name]
	if came := len(d.archs) == 0 && len(w.archs) > 0; came && !w.isolate && name != local {
		b.o.Log.Warn("The steps of builds share one network with this BuildKit daemon and with each other, and may read each other's traffic. "+
			"Start it with `slipwayd buildkitd`, or let it build for callers alone who trust each other", "buildkit_addr", name)
	}
	d.archs, d.isolates, d.problem = w.archs, w.isolate, ""
	d.answered = d.answered || len(w.archs) > 0
	switch {
	case gone != nil:
		d.problem = gone.Error()
	case silent != nil && (d.answered || time.Since(b.began) > startup):
		d.problem = "the BuildKit daemon does not answer: " + silent.Error()
	}
	return len(w.archs) > 0
}

// connect returns the client of a daemon, a new one where its address changed.
func (b *Engine) connect(ctx context.Context, name string) (*client.Client, error) {
	address := name
	if name == local {
		var err error
		if address, err = b.o.Local.Address(); err != nil {
			return nil, err
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	d := b.daemons[name]
	if d.client != nil && d.address == address {
		return d.client, nil
	}
	if d.client != nil {
		_ = d.client.Close()
	}
	c, err := client.New(ctx, address, b.dialing(address)...)
	d.client, d.address = c, address
	return c, err
}

// dialing is how a daemon is spoken to; the name in its certificate is the one in
// its address.
func (b *Engine) dialing(address string) []client.ClientOpt {
	if b.o.TLS == nil || !strings.HasPrefix(address, "tcp://") {
		return nil
	}
	return []client.ClientOpt{client.WithGRPCDialOption(grpc.WithTransportCredentials(credentials.NewTLS(b.o.TLS)))}
}

// workers is what a daemon says of them.
type workers struct {
	archs   []string // those of linux, at least one
	isolate bool     // all say that their steps are served
}

func ask(ctx context.Context, c *client.Client) (w workers, err error) {
	all, err := c.ListWorkers(ctx)
	if err != nil {
		return w, err
	}
	w.isolate = true
	for _, one := range all {
		w.isolate = w.isolate && one.Labels[step.Label] == step.LabelIsolated
		for _, p := range one.Platforms {
			// Variants are another matter of the CPU, not of the queue.
			if p.OS == "linux" && (p.Architecture == "amd64" || p.Architecture == "arm64") && !slices.Contains(w.archs, p.Architecture) {
				w.archs = append(w.archs, p.Architecture)
			}
		}
	}
	if len(w.archs) == 0 {
		return workers{}, errors.New("it has no worker for linux")
	}
	return w, nil
}

// choose picks the daemon for a build: the same one for the same caches, as long
// as it answers, so that they are warm.
func (b *Engine) choose(scope, arch string) (string, *client.Client, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	var able []string
	for name, d := range b.daemons {
		if d.client != nil && slices.Contains(d.archs, arch) {
			able = append(able, name)
		}
	}
	name := rendezvous(scope, able)
	if name == "" {
		return "", nil, errors.New("no BuildKit daemon answers")
	}
	return name, b.daemons[name].client, nil
}

// share is what a build of a scope is given of the machine of a daemon. What it has
// elsewhere is its operator's matter; there it is only told apart from others.
func (b *Engine) share(name, scope string) step.Share {
	if name == local {
		return b.o.Local.Admit(scope)
	}
	s := step.Share{OutOfMemory: func() bool { return false }, Release: func() {}}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.daemons[name].isolates {
		s.Scope, s.Token = "/slipway/"+scope, step.NewToken(scope)
	}
	return s
}

// rendezvous picks a name for a key: another name that comes or goes moves only
// its own keys. "" when there are no names.
func rendezvous(key string, names []string) string {
	var best, bestHash string
	for _, n := range names {
		sum := sha256.Sum256([]byte(key + "\x00" + n))
		if h := hex.EncodeToString(sum[:]); h > bestHash {
			best, bestHash = n, h
		}
	}
	return best
}

// architecture is that of a platform, e.g. "arm64" of "linux/arm64/v8"; of a list
// with commas, that of the first.
func architecture(platform string) string {
	first, _, _ := strings.Cut(platform, ",")
	parts := strings.Split(first, "/")
	if len(parts) < 2 {
		return first
	}
	return parts[1]
}

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

// daemonState is the known state of a daemon.
type daemonState struct {
	address      string // where it was reached
	client       *client.Client
	archs        []string // empty while it does not respond
	isolates     bool     // it reports that its steps are served
	hasResponded bool     // it has responded before
	problem      string   // "" if it works or may still be starting
}

// watch polls a daemon's capabilities.
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
	c, daemonEnded := b.connect(ctx, name)
	var w workers
	var silent error
	if daemonEnded == nil {
		ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
		defer cancel()
		w, silent = listWorkers(ctx, c)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	d := b.daemons[name]
	if came := len(d.archs) == 0 && len(w.archs) > 0; came && !w.isolate && name != local {
		b.o.Log.Warn("The steps of builds share one network with this BuildKit daemon and with each other, and may read each other's traffic. "+
			"Start it with `slipwayd buildkitd`, or only let it build for callers that trust each other", "buildkit_addr", name)
	}
	d.archs, d.isolates, d.problem = w.archs, w.isolate, ""
	d.hasResponded = d.hasResponded || len(w.archs) > 0
	switch {
	case daemonEnded != nil:
		d.problem = daemonEnded.Error()
	case silent != nil && (d.hasResponded || time.Since(b.began) > startup):
		d.problem = "the BuildKit daemon does not respond: " + silent.Error()
	}
	return len(w.archs) > 0
}

// connect returns the client of a daemon, a new one if its address has changed.
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

// dialing returns the client options of an address. The name in the daemon's certificate
// must be the one in its address.
func (b *Engine) dialing(address string) []client.ClientOpt {
	if b.o.TLS == nil || !strings.HasPrefix(address, "tcp://") {
		return nil
	}
	return []client.ClientOpt{client.WithGRPCDialOption(grpc.WithTransportCredentials(credentials.NewTLS(b.o.TLS)))}
}

// workers holds what a daemon reports about its workers.
type workers struct {
	archs   []string // of Linux workers, at least one
	isolate bool     // all report that their steps are served
}

func listWorkers(ctx context.Context, c *client.Client) (w workers, err error) {
	all, err := c.ListWorkers(ctx)
	if err != nil {
		return w, err
	}
	w.isolate = true
	for _, one := range all {
		w.isolate = w.isolate && one.Labels[step.Label] == step.LabelIsolated
		for _, p := range one.Platforms {
			// CPU variants do not select a queue.
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

// choose picks the daemon of a build: the same one for the same cache scope as long as it
// responds, so that its cache is warm.
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
		return "", nil, errors.New("no BuildKit daemon responds")
	}
	return name, b.daemons[name].client, nil
}

// share returns a build's share of a daemon's machine. A remote daemon's operator sets its
// limits; there the share only separates builds from each other.
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

// rendezvous picks a name for a key by rendezvous hashing, so that adding or removing a
// name only moves its own keys. It returns "" if there are no names.
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

// architecture returns the architecture of a platform, for example "arm64" for
// "linux/arm64/v8", or that of the first one in a list.
func architecture(platform string) string {
	first, _, _ := strings.Cut(platform, ",")
	parts := strings.Split(first, "/")
	if len(parts) < 2 {
		return first
	}
	return parts[1]
}

// Package conda is the engine that makes images of locked Conda packages, without a
// container. It owns a folder of layers (package layering), which it may lose: each can
// be made again from its package.
package conda

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"syscall"

	"slipway.dev/services/builder/jobs"
	"slipway.dev/services/builder/layering"
	"slipway.dev/services/builder/remote"
	"slipway.dev/services/internal/conda"
	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/upstream"
)

// Options are the settings of the engine.
type Options struct {
	remote.Deps
	// Dir is the engine's own folder: the layers that it has made, and artifacts while
	// they are read.
	Dir string
	// Keep is how much the layers may take there together, in bytes; beyond it those go
	// that were asked for longest ago. 0 is no limit.
	Keep int64
	// Disk is how long the packages of one image may be together, in bytes; 0 is no
	// limit.
	Disk int64
	// Claims say who of several workers makes a layer; nil where this one makes all of its
	// own.
	Claims layering.Claims
}

// Engine makes images of locked Conda packages, without a container: each package is
// a layer, and the layers lie on a base image that is never read. A layer has the same
// bytes wherever it is made, so that those of a worker that was killed, in its folder,
// are there when the job comes again; and what its registry has is not sent again,
// whichever worker made it. Of several workers that want a layer in the same repository
// at the same moment, one makes it; for each repository it is made once.
type Engine struct {
	o       Options
	store   *layering.Folder
	client  *http.Client
	problem string
	hosts   layering.Hosts
	// pruning is held by who removes layers.
	pruning sync.Mutex
}

// New makes the engine; where it cannot keep layers it says so when it is asked.
func New(o Options) *Engine {
	c := &Engine{o: o, client: &http.Client{Transport: upstream.NewTransport(o.Egress), CheckRedirect: upstream.CheckRedirect}}
	err := os.RemoveAll(c.scratch()) // of a process that was killed
	if err == nil {
		err = os.MkdirAll(c.scratch(), 0o700)
	}
	if err == nil {
		c.store, err = layering.NewFolder(filepath.Join(o.Dir, "layers"))
	}
	if err != nil {
		c.problem = "layers of packages cannot be kept: " + err.Error()
	}
	return c
}

func (c *Engine) scratch() string { return filepath.Join(c.o.Dir, "scratch") }

// Name is "conda".
func (c *Engine) Name() string { return "conda" }

// Architectures is "any" where layers can be kept: nothing of a package is run.
func (c *Engine) Architectures() []string {
	if c.problem != "" {
		return nil
	}
	return []string{jobs.AnyArchitecture}
}

// Problem is why layers cannot be kept.
func (c *Engine) Problem() string { return c.problem }

// Run has nothing to keep ready.
func (c *Engine) Run(context.Context) error { return nil }

// Build makes the image of a lock. The same lock on the same base image gives the same
// digest. Where something has to be run on it, that is StepsNeeded.
func (c *Engine) Build(ctx context.Context, job jobs.Job, out jobs.Output) (string, error) {
	records, err := c.lock(job)
	if err != nil {
		return "", err
	}
	l := c.o.Logins(job)
	from, err := c.o.Source(ctx, job, l)
	if err != nil {
		return "", err
	}
	to, err := c.o.Target(ctx, job, l)
	if err != nil {
		return "", err
	}
	doors, err := channels(l, ctx, job.PrivateChannels)
	if err != nil {
		return "", fmt.Errorf("asking for the logins of channels: %w", err)
	}
	defer c.prune(out)
	e := &environment{Engine: c, job: job, out: out, records: records, from: from, to: to, doors: doors}
	return e.put(ctx)
}

// lock reads what the image is made of.
func (c *Engine) lock(job jobs.Job) ([]conda.Record, error) {
	sum := sha256.Sum256([]byte(job.Lock))
	var records []conda.Record
	if hex.EncodeToString(sum[:]) != job.Recipe.GetLockDigest() {
		return nil, errors.New("the lock is not that of the recipe")
	}
	if err := json.Unmarshal([]byte(job.Lock), &records); err != nil {
		return nil, fmt.Errorf("reading the lock: %w", err)
	}
	left := c.o.Disk
	for _, r := range records {
		if c.o.Disk > 0 && r.Size > left {
			return nil, c.tooLarge()
		}
		left -= max(r.Size, 0) // what the channel does not say is seen when it comes
	}
	return records, nil
}

func (c *Engine) tooLarge() error {
	return jobs.Build.Failure(fmt.Sprintf("The packages are larger than %d bytes together, which is what this service takes (its operator's setting build_disk)", c.o.Disk), nil)
}

// prune keeps the folder within its size.
func (c *Engine) prune(out jobs.Output) {
	if c.o.Keep == 0 || !c.pruning.TryLock() {
		return
	}
	defer c.pruning.Unlock()
	// The build has ended, whatever became of its context.
	if _, err := c.store.Prune(context.Background(), c.o.Keep); err != nil {
		out.Print("", "Old layers could not be removed from the worker")
	}
}

// blamed is what a fault means for the build: what a package or its channel is to
// blame for is told to the user.
func blamed(err error) error {
	if errors.Is(err, syscall.ENOSPC) {
		const text = "The disk is full of the worker that puts the image together; its operator has to give it room (data_dir), or let it keep fewer layers (setting conda_layers)"
		return jobs.Internal.Failure(text, err)
	}
	if f, ok := fault.As(err); ok && !errors.As(err, new(*jobs.Failure)) {
		return jobs.Build.Failure(f.Public, err)
	}
	return err
}

// Package conda is the engine that builds images of locked Conda packages without running a
// container. It owns a folder of layers (package layering), which may be lost, since each
// layer can be built again from its package.
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
	"slipway.dev/services/builder/remote"
	"slipway.dev/services/builder/sif/parts"
	"slipway.dev/services/conda/packages/layering"
	"slipway.dev/services/conda/spec"
	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/upstream"
)

// Options are the settings of the engine.
type Options struct {
	remote.Deps
	// Channels reads channels in registries (oci://); nil if there are none.
	Channels *upstream.Client
	// Dir is the engine's own folder, for layers and for artifacts while they are read.
	Dir string
	// Keep limits the size of the layers in Dir in bytes. Beyond it, the least recently
	// used ones are evicted. 0 means no limit.
	Keep int64
	// Disk limits the total size of the packages of one image in bytes; 0 means no limit.
	Disk int64
	// Parts stores the parts of layers that Singularity images will be made of; nil if none are made.
	Parts *parts.Store
	// Claims decides which of several workers builds a layer. If it is nil, this worker
	// builds all of its layers.
	Claims layering.Claims
}

// Engine builds images of locked Conda packages without running a container: each package
// is a layer on top of a base image, whose layers are never read. A layer has the same
// bytes wherever it is built. So a job that is delivered again reuses the layers that a
// killed worker left in its folder, and layers that the registry already has are not sent
// again. If several workers need a layer in the same repository at the same time, only one
// of them builds it.
type Engine struct {
	o       Options
	store   *layering.Folder
	client  *http.Client
	problem string
	hosts   layering.Hosts
	// pruning is held while layers are removed.
	pruning sync.Mutex
}

// New creates the engine. If it cannot store layers, Problem returns why.
func New(o Options) *Engine {
	var transport http.RoundTripper = upstream.NewTransport(o.Egress)
	if o.Channels != nil {
		transport = upstream.NewChannelTransport(o.Channels, transport)
	}
	c := &Engine{o: o, client: &http.Client{Transport: transport, CheckRedirect: upstream.CheckRedirect}}
	err := os.RemoveAll(c.scratch()) // files of a process that was killed
	if err == nil {
		err = os.MkdirAll(c.scratch(), 0o700)
	}
	if err == nil {
		c.store, err = layering.NewFolder(filepath.Join(o.Dir, "layers"))
	}
	if err != nil {
		c.problem = "layers of packages cannot be stored: " + err.Error()
	}
	return c
}

func (c *Engine) scratch() string { return filepath.Join(c.o.Dir, "scratch") }

// Name returns "conda".
func (c *Engine) Name() string { return "conda" }

// Architectures returns "any" if layers can be stored, since nothing of a package is run.
func (c *Engine) Architectures() []string {
	if c.problem != "" {
		return nil
	}
	return []string{jobs.AnyArchitecture}
}

// Problem returns the reason why layers cannot be stored, or "".
func (c *Engine) Problem() string { return c.problem }

// Run returns immediately.
func (c *Engine) Run(context.Context) error { return nil }

// Build builds the image of a lock, or its environment only. The same lock on the same base image
// produces the same digest. If something has to run on the image, Build returns StepsNeeded.
func (c *Engine) Build(ctx context.Context, job jobs.Job, out jobs.Output) (string, error) {
	records, err := c.lock(job)
	if err != nil {
		return "", err
	}
	l := c.o.Logins(job)
	from, err := c.source(ctx, job, l)
	if err != nil {
		return "", err
	}
	to, err := c.o.Target(ctx, job, l)
	if err != nil {
		return "", err
	}
	channelLogins, err := channels(l, ctx, job.PrivateChannels)
	if err != nil {
		return "", fmt.Errorf("fetching the logins of channels: %w", err)
	}
	defer c.prune(out)
	e := &environment{Engine: c, job: job, out: out, records: records, from: from, to: to, channelLogins: channelLogins, store: c.store}
	return e.put(ctx)
}

// source returns the base image of a job; nil for an environment, which has none.
func (c *Engine) source(ctx context.Context, job jobs.Job, l *jobs.Logins) (*remote.Source, error) {
	if isStandalone(job) {
		return nil, nil //nolint:nilnil // there is no base image
	}
	return c.o.Source(ctx, job, l)
}

// lock parses the records that the image is made of.
func (c *Engine) lock(job jobs.Job) ([]spec.Record, error) {
	sum := sha256.Sum256([]byte(job.Lock))
	var records []spec.Record
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
		left -= max(r.Size, 0) // a size that the channel does not state is checked during the download
	}
	return records, nil
}

func (c *Engine) tooLarge() error {
	return jobs.Build.Failure(fmt.Sprintf("The packages are larger than %d bytes together, the limit of this service (setting build_disk)", c.o.Disk), nil)
}

// prune keeps the layers, and their parts, within their size limits.
func (c *Engine) prune(out jobs.Output) {
	if c.o.Parts != nil {
		if err := c.o.Parts.Prune(); err != nil {
			out.Print("", "Old compressed layers could not be removed from the worker")
		}
	}
	if c.o.Keep == 0 || !c.pruning.TryLock() {
		return
	}
	defer c.pruning.Unlock()
	// The build has ended, and its context may be cancelled.
	if _, err := c.store.Prune(context.Background(), c.o.Keep); err != nil {
		out.Print("", "Old layers could not be removed from the worker")
	}
}

// asFailure converts a fault to a build failure. Errors of a package or its channel are shown
// to the user.
func asFailure(err error) error {
	if errors.Is(err, syscall.ENOSPC) {
		const text = "The worker's disk is full; its operator has to free space on the disk of data_dir, or lower the setting conda_layers"
		return jobs.Internal.Failure(text, err)
	}
	if f, ok := fault.As(err); ok && !errors.As(err, new(*jobs.Failure)) {
		out := jobs.Build.Failure(f.Public, err)
		out.Outdated = errors.Is(err, layering.ErrOutdated)
		return out
	}
	return err
}

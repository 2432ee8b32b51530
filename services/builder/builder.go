// Package builder makes images: it takes jobs from the bus, runs each on an
// engine, and tells the build room how it went.
//
// It owns the durable consumers of the stream BUILD_JOBS (one for each engine
// and architecture) and writes three subjects: build.workers (that it lives),
// build.logs.<id> (what a build prints) and build.events (how it ended), and the
// key-value bucket BUILD_LAYERS (which layers it makes for others, package claim). It
// keeps nothing: what to make, where to push it and every login come from the
// build room's WorkService, and the truth about a build is there. It never
// touches SQL or Redis, and never writes a login to disk or to a log.
//
// From the top: the worker is here; package jobs is what it hands to the engines
// (engine/…), which reach registries through package remote; what files, layers and
// images are, the packages below know (artifact, layering, flatten, squashfs, sif).
package builder

import (
	"context"
	"log/slog"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/prometheus/client_golang/prometheus"

	buildv1 "slipway.dev/proto/gen/slipway/build/v1"
	"slipway.dev/services/builder/jobs"
)

// Engine makes images of one kind. Safe for concurrent use.
type Engine interface {
	// Name is what a job calls the engine, e.g. "buildkit".
	Name() string
	// Architectures lists what it can build for now, e.g. "amd64". It may change
	// at any time; it is empty while the engine cannot work.
	Architectures() []string
	// Problem says why it cannot work, in words for an operator; "" when it can, or
	// is only starting.
	Problem() string
	// Run keeps the engine ready until ctx ends, or returns nil at once where there is
	// nothing to keep ready. It is called once, and ends after every Build.
	Run(ctx context.Context) error
	// Build makes and pushes the image and returns the digest of what was pushed.
	// It prints to out until it returns. A build that fails is a *Failure; any
	// other error counts as Internal and its text is only logged.
	Build(ctx context.Context, job jobs.Job, out jobs.Output) (digest string, err error)
}

// Settings are a worker's own; the zero value of each works.
type Settings struct {
	// Name tells workers apart; "" is the machine's name.
	Name string
	// Concurrency is how many jobs of each engine run at a time; 0 is 1.
	Concurrency int
	// DrainTimeout is how long running jobs may go on after the worker was told
	// to stop; 0 hands them back at once.
	DrainTimeout time.Duration
}

// Deps are what a worker stands on. All are required but Settings.
type Deps struct {
	NATS     *nats.Conn
	Work     buildv1.WorkServiceClient
	Engines  []Engine
	Log      *slog.Logger
	Now      func() time.Time
	Metrics  prometheus.Registerer
	Settings Settings
}

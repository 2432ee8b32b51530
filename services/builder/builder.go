// Package builder is the worker: it takes jobs from the bus, runs each on an engine, and
// reports the result to the build service.
//
// It owns the durable consumers of the stream BUILD_JOBS, one for each engine and
// architecture. It writes three subjects: build.workers (the worker's presence),
// build.logs.<id> (a build's output) and build.events (results). Through package claim it
// writes the key-value bucket BUILD_LAYERS (which worker builds which layer). It stores
// nothing: recipes, push targets and logins come from the build service's WorkService,
// which also holds the state of every build. It never uses SQL or Redis, and never writes a
// login to disk or to a log.
//
// The worker is in this package. Package jobs defines what the engines (engine/…) receive.
// The engines reach registries through package remote. The packages artifact, layering,
// flatten, squashfs and sif implement files, layers and images.
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

// Engine builds images of one kind. It is safe for concurrent use.
type Engine interface {
	// Name returns the engine's name in jobs, for example "buildkit".
	Name() string
	// Architectures lists the architectures that the engine can build for now, for example
	// "amd64". The list may change at any time, and is empty while the engine cannot work.
	Architectures() []string
	// Problem returns the reason why the engine cannot work, for an operator. It returns ""
	// if the engine works or is still starting.
	Problem() string
	// Run keeps the engine ready until ctx ends. It returns nil immediately if nothing has
	// to be kept ready. It is called once, and returns after every Build.
	Run(ctx context.Context) error
	// Build builds and pushes the image, and returns the digest of the pushed manifest. It
	// prints to out until it returns. A failed build returns a *Failure. Any other error
	// counts as Internal, and its text is only logged.
	Build(ctx context.Context, job jobs.Job, out jobs.Output) (digest string, err error)
}

// Settings are the settings of one worker. The zero value of each field is valid.
type Settings struct {
	// Name identifies the worker; "" is the host name.
	Name string
	// Concurrency is the number of jobs that each engine runs at a time; 0 is 1.
	Concurrency int
	// DrainTimeout is how long running jobs may continue after the worker was told to stop;
	// 0 returns them to the queue immediately.
	DrainTimeout time.Duration
}

// Deps are the dependencies of a worker. All fields except Settings and
// DiskFull are required.
type Deps struct {
	NATS     *nats.Conn
	Work     buildv1.WorkServiceClient
	Engines  []Engine
	Log      *slog.Logger
	Now      func() time.Time
	Metrics  prometheus.Registerer
	Settings Settings
	// DiskFull returns an error while a disk of the worker is too full for new jobs. If it
	// is nil, disks are not checked.
	DiskFull func() error
}

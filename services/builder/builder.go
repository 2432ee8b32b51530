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
package builder

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/prometheus/client_golang/prometheus"

	buildv1 "slipway.dev/proto/gen/slipway/build/v1"
	containerv1 "slipway.dev/proto/gen/slipway/container/v1"
	"slipway.dev/services/internal/oci"
	"slipway.dev/services/internal/upstream"
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
	Build(ctx context.Context, job Job, out Output) (digest string, err error)
}

// Job is one delivery of a build to make.
type Job struct {
	// ID is the build's id, e.g. "3f2a…_1".
	ID string
	// Delivery says which try it is, from 1.
	Delivery int32
	// Recipe is what to make, without the bytes of a context.
	Recipe *buildv1.Recipe
	// Target is where to push it.
	Target *buildv1.Target
	// ContentDigest is for the image's annotations, 64 hex digits.
	ContentDigest string
	// CacheScope names the caches; builds with different scopes share none.
	CacheScope string
	// CacheDigest is the cache manifest to import from Target's cache repository; ""
	// for none.
	CacheDigest string
	// Exported is told the digest of the cache manifest that was pushed there; nil for
	// nobody.
	Exported func(digest string)
	// Forbidden are images that no step may read: "<host>/<repository>", with all
	// below it.
	Forbidden []string
	// Given are those of them that this build reads, by digest.
	Given []*containerv1.Source
	// Ticket is good for the logins and the context of this delivery. Secret.
	Ticket string
	// Lock are the repodata records that the image is made of, as a list in JSON; "" where
	// the recipe is no lock.
	Lock string
	// PrivateChannels are those of its channels that are read with a login, by URL.
	PrivateChannels []string
	// sequence is the job's place in its stream: deliveries are counted from 1
	// again when a build is queued again.
	sequence uint64
}

// LogValue keeps the ticket out of logs.
func (j Job) LogValue() slog.Value { return slog.StringValue(j.ID) }

// try names one try of a build.
func (j Job) try() string { return fmt.Sprintf("build %s.%d", j.ID, j.Delivery) }

// repository is where the image is pushed to, place that in one text, image its name
// there.
func (j Job) repository() upstream.Repository {
	return upstream.Repository{Host: j.Target.GetRegistry(), Name: j.Target.GetRepository()}
}

func (j Job) place() string { return j.Target.GetRegistry() + "/" + j.Target.GetRepository() }

func (j Job) image() string { return j.place() + ":" + j.Target.GetTag() }

// cacheRepository is where layers are kept; zero for nowhere.
func (j Job) cacheRepository() upstream.Repository {
	host, path, err := oci.ParseRepository(j.Target.GetCacheRepository())
	if err != nil {
		return upstream.Repository{}
	}
	return upstream.Repository{Host: host, Name: path}
}

// Output takes what a build prints. Safe for concurrent use; it never blocks.
type Output interface {
	// Print adds a line, without its end. phase is the phase that begins with
	// it, "" for none.
	Print(phase, text string)
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

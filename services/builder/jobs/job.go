// Package jobs is what engines are given to make: one delivery of a build, the logins
// that it may use, and how an engine says that it made no image. It asks the build room
// for logins, keeps them in memory alone, and never writes one.
package jobs

import (
	"fmt"
	"log/slog"

	buildv1 "slipway.dev/proto/gen/slipway/build/v1"
	containerv1 "slipway.dev/proto/gen/slipway/container/v1"
	"slipway.dev/services/internal/oci"
	"slipway.dev/services/internal/upstream"
)

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
	// Sequence is the job's place in its stream: deliveries are counted from 1
	// again when a build is queued again.
	Sequence uint64
}

// LogValue keeps the ticket out of logs.
func (j Job) LogValue() slog.Value { return slog.StringValue(j.ID) }

// Try names one try of a build.
func (j Job) Try() string { return fmt.Sprintf("build %s.%d", j.ID, j.Delivery) }

// Repository is where the image is pushed to.
func (j Job) Repository() upstream.Repository {
	return upstream.Repository{Host: j.Target.GetRegistry(), Name: j.Target.GetRepository()}
}

// Place is the repository in one text, "<host>/<repository>".
func (j Job) Place() string { return j.Target.GetRegistry() + "/" + j.Target.GetRepository() }

// Image is the image's name, with its tag.
func (j Job) Image() string { return j.Place() + ":" + j.Target.GetTag() }

// CacheRepository is where layers are kept; zero for nowhere.
func (j Job) CacheRepository() upstream.Repository {
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

// AnyArchitecture is what an engine declares that runs nothing of an image.
const AnyArchitecture = "any"

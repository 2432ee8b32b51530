// Package jobs defines the input and the failures of engines: one delivery of a build, its
// logins, and the reason why it produced no image. Logins are fetched from the build
// service, held in memory only, and never written.
package jobs

import (
	"fmt"
	"log/slog"

	buildv1 "slipway.dev/proto/gen/slipway/build/v1"
	containerv1 "slipway.dev/proto/gen/slipway/container/v1"
	"slipway.dev/services/internal/oci"
	"slipway.dev/services/internal/upstream"
)

// A Job is one delivery of a build.
type Job struct {
	// ID is the build's id, e.g. "3f2a…_1".
	ID string
	// Delivery is the number of the attempt, from 1.
	Delivery int32
	// Recipe describes the image, without the bytes of a context.
	Recipe *buildv1.Recipe
	// Target is the repository and tag to push to.
	Target *buildv1.Target
	// ContentDigest is for the image's annotations, as 64 hex digits.
	ContentDigest string
	// CacheScope identifies the caches. Builds with different scopes share none.
	CacheScope string
	// CacheDigest is the cache manifest to import from Target's cache repository, or "".
	CacheDigest string
	// Exported, if not nil, is called with the digest of the cache manifest that was
	// pushed.
	Exported func(digest string)
	// Environment, if not nil, is called with the digest of the artifact with which the image's
	// environment is mounted. The last call counts.
	Environment func(digest string)
	// UsedKeys, if not nil, is called with the key ids of other workers that signed layers
	// of the image.
	UsedKeys func(ids []string)
	// Inputs, if not nil, is called with what was read to make the image. The last call counts.
	Inputs func(*buildv1.Inputs)
	// Forbidden are the repositories that no step may read, as "<host>/<repository>",
	// including everything below.
	Forbidden []string
	// Allowed are the exceptions from Forbidden that this build reads, by digest.
	Allowed []*containerv1.Source
	// Rules are the operator's rules about images that the build reads; nil for none.
	Rules *buildv1.ImageRules
	// Ticket grants access to this delivery's logins and context. It is a secret.
	Ticket string
	// Lock holds the image's repodata records as a JSON list, or "" if the recipe is no
	// lock.
	Lock string
	// PrivateChannels are the URLs of the channels that require a login.
	PrivateChannels []string
	// Sequence is the job's sequence number in its stream. Deliveries are counted from 1
	// again when a build is queued again.
	Sequence uint64
}

// Rebuilt is an image that was built again and not pushed.
type Rebuilt struct{ Manifest, Config []byte }

// LogValue keeps the ticket out of logs.
func (j Job) LogValue() slog.Value { return slog.StringValue(j.ID) }

// Try identifies one attempt of a build.
func (j Job) Try() string { return fmt.Sprintf("build %s.%d", j.ID, j.Delivery) }

// Repository returns the repository that the image is pushed to.
func (j Job) Repository() upstream.Repository {
	return upstream.Repository{Host: j.Target.GetRegistry(), Name: j.Target.GetRepository()}
}

// RepositoryName returns the repository as "<host>/<repository>".
func (j Job) RepositoryName() string { return j.Target.GetRegistry() + "/" + j.Target.GetRepository() }

// Image returns the image's name with its tag or, for a mirror without a tag, its digest.
func (j Job) Image() string {
	if j.Target.GetDigest() != "" {
		return j.RepositoryName() + "@" + j.Target.GetDigest()
	}
	return j.RepositoryName() + ":" + j.Target.GetTag()
}

// CacheRepository returns the repository for cached layers, or the zero value.
func (j Job) CacheRepository() upstream.Repository {
	host, path, err := oci.ParseRepository(j.Target.GetCacheRepository())
	if err != nil {
		return upstream.Repository{}
	}
	return upstream.Repository{Host: host, Name: path}
}

// Output receives a build's output. It is safe for concurrent use and never blocks.
type Output interface {
	// Print adds a line, without a line end. If phase is not "", that phase begins with the
	// line.
	Print(phase, text string)
}

// Shared reports the keys of other workers that signed layers of the image.
func (j Job) Shared(ids []string) {
	if j.UsedKeys != nil && len(ids) > 0 {
		j.UsedKeys(ids)
	}
}

// AnyArchitecture is the architecture of engines that run no program of an image.
const AnyArchitecture = "any"

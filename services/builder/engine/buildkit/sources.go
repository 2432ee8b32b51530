package buildkit

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/opencontainers/go-digest"

	containerv1 "slipway.dev/proto/gen/slipway/container/v1"
	"slipway.dev/services/builder/jobs"
	"slipway.dev/services/builder/remote"
	"slipway.dev/services/internal/dockerfile"
	"slipway.dev/services/internal/fairshare"
	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/oci"
	"slipway.dev/services/internal/policy/enforce"
	"slipway.dev/services/internal/retry"
	"slipway.dev/services/internal/upstream"
)

// sources decides which sources a build may use. The daemon caches fetched images and would
// use them for any build that knows their digest. So each build queries the registry
// whether its own login may read the image. Safe for concurrent use.
type sources struct {
	registries remote.Registries
	logins     *jobs.Logins
	scope      string
	policy     *enforce.Enforcer // nil permits every image
	// forbidden are repositories, as "<host>/<repository>" including everything below, that
	// no step may read, except for the build's own source and the images allowed by its
	// request; nil for none.
	forbidden []string
	source    *containerv1.Source
	issued    []*containerv1.Source

	mu   sync.Mutex
	seen map[string]string // why an image is refused; "" if allowed
	last string            // the last refused source, and the reason
	// allowed are the repositories that the build reads, with their logins.
	allowed map[upstream.Repository]upstream.Login
	// first is the first login at a host.
	first map[string]upstream.Login

	// dockerfile is the text that is built, and file its parsed form.
	dockerfile string
	file       *dockerfile.File
	// checked are the images whose configuration was accepted, and grown is the sum of how
	// much they can lengthen the Dockerfile.
	checked map[string]bool
	grown   int
	// offered are the digests of the images that this build offers to the daemon itself.
	offered map[string]bool
	// read are the images that the build has read.
	read map[readImage]bool
}

func newSources(r remote.Registries, l *jobs.Logins, job jobs.Job) *sources {
	return &sources{
		registries: r, logins: l, scope: fmt.Sprintf("%s.%d", job.ID, job.Delivery), forbidden: job.Forbidden, source: job.Recipe.GetSource(), issued: job.Allowed, seen: map[string]string{},
		allowed: map[upstream.Repository]upstream.Login{}, first: map[string]upstream.Login{},
		dockerfile: job.Recipe.GetContainerFile(), checked: map[string]bool{}, offered: map[string]bool{}, read: map[readImage]bool{},
	}
}

// of returns the login with which the build reads a repository, or false if it does not
// read it.
func (s *sources) of(repo upstream.Repository) (login upstream.Login, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	login, ok = s.allowed[repo]
	return login, ok
}

// at returns the first login with which the build reads from a registry, or the zero value.
func (s *sources) at(host string) upstream.Login {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.first[host]
}

func (s *sources) allow(repo upstream.Repository, login upstream.Login) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.allowed[repo] = login
	if s.first[repo.Host] == (upstream.Login{}) {
		s.first[repo.Host] = login
	}
}

// offer allows an image that this build offers to the daemon itself.
func (s *sources) offer(manifest digest.Digest) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.offered[manifest.String()] = true
}

func (s *sources) isOffered(name string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.offered[digestIn(name)]
}

// deny records the reason for the build's failure.
func (s *sources) deny(identifier, why string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last = fault.Clip(identifier, jobs.TextBytes) + " cannot be used: " + why
}

// refused returns the source that was refused and the reason, or "".
func (s *sources) refused() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.TrimPrefix(s.last, imageScheme)
}

// explainFailure names the refused image if the build failed because of it.
func (s *sources) explainFailure(f *jobs.Failure, redact func(string) string) *jobs.Failure {
	if why := s.refused(); why != "" && f.Reason == jobs.Build {
		f.Message = redact(why)
	}
	return f
}

func (s *sources) refusal(ctx context.Context, identifier string) string {
	scheme, name, _ := strings.Cut(identifier, "://")
	switch scheme {
	case "local", "git", "http", "https": // fetched again each time, without a login
		return ""
	case "oci-layout":
		if s.isOffered(name) {
			return ""
		}
		return "it is no image of this build"
	case "docker-image":
	default:
		return "a build cannot be made from " + fault.Clip(scheme, 40)
	}
	s.mu.Lock()
	why, ok := s.seen[name]
	s.mu.Unlock()
	if ok {
		return why
	}
	why = s.checkAccess(ctx, name)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seen[name] = why
	return why
}

// checkAccess asks the registry whether the build's login may read an image.
func (s *sources) checkAccess(ctx context.Context, name string) string {
	ref, err := oci.ParseReference(name)
	if err != nil {
		return "the image name " + fault.Clip(name, jobs.TextBytes) + " is malformed"
	}
	for _, f := range s.forbidden {
		host, path, _ := strings.Cut(f, "/")
		if !s.isOwnSource(ref) && !s.isAllowed(ref) && oci.SameHost(ref.Registry, host) && strings.HasPrefix(ref.Repository+"/", path+"/") {
			return "it belongs to the build service, and is read through the names of container requests only"
		}
	}
	if !s.isOwnSource(ref) && !s.isAllowed(ref) {
		if err := s.policy.Image(ctx, "", ref); err != nil {
			return reason(err)
		}
	}
	repo := upstream.Repository{Host: oci.CanonicalHost(ref.Registry), Name: ref.Repository}
	read := s.logins.Read
	if s.isOwnSource(ref) { // only by digest, so that a base image cannot refer to another image of the repository
		read = s.logins.Push
	}
	login, err := read(ctx, repo)
	if err == nil && s.registries != nil {
		_, err = s.registries.Resolve(ctx, repo, ref.Identifier(), upstream.Access{Scope: "build " + s.scope, Login: login})
	}
	if err == nil {
		s.allow(repo, login)
		return ""
	}
	if f, ok := fault.As(err); ok {
		return f.Public
	}
	return "the registry " + ref.Registry + " did not confirm that the image may be read"
}

// signatureTries is how often a registry is asked for the signatures of an image while it fails, with
// signaturePause between them.
const (
	signatureTries = 3
	signaturePause = 5 * time.Second
)

// checkSigned returns why an image lacks the signature that policy_signatures requires; "" if it does
// not. The image must have been accepted by checkAccess.
func (s *sources) checkSigned(ctx context.Context, name, imageDigest string) string {
	ref, err := oci.ParseReference(name)
	if err != nil {
		return "the image name " + fault.Clip(name, jobs.TextBytes) + " is malformed"
	}
	if !s.policy.MustBeSigned(ref) || s.isOwnSource(ref) || s.isAllowed(ref) {
		return ""
	}
	login, _ := s.of(upstream.Repository{Host: oci.CanonicalHost(ref.Registry), Name: ref.Repository})
	for range signatureTries {
		err = s.policy.Signature(ctx, enforce.Image{
			Name: ref, Digest: digest.Digest(imageDigest), Access: upstream.Access{Scope: "build " + s.scope, Login: login}, Client: fairshare.User("build " + s.scope),
		})
		if err == nil || enforce.IsRefusal(err) || !retry.Sleep(ctx, signaturePause) {
			break
		}
	}
	switch {
	case err == nil:
		return ""
	case ctx.Err() != nil:
		return "the build was cancelled while its signature was read"
	}
	return reason(err)
}

// isOwnSource reports whether the image is the build's own source, which an earlier build
// of the same image has pushed.
func (s *sources) isOwnSource(ref oci.Reference) bool { return isAt(s.source, ref) }

// isAllowed reports whether the image's name was issued to the build's request.
func (s *sources) isAllowed(ref oci.Reference) bool {
	return slices.ContainsFunc(s.issued, func(image *containerv1.Source) bool { return isAt(image, ref) })
}

// isAt reports whether an image is the given source, requested by its digest. A tag may
// refer to another image a moment later.
func isAt(image *containerv1.Source, ref oci.Reference) bool {
	return image != nil && oci.SameHost(ref.Registry, image.GetRegistry()) && ref.Repository == image.GetRepository() &&
		ref.Digest != "" && ref.Digest.String() == image.GetReference()
}

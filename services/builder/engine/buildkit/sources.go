package buildkit

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	gateway "github.com/moby/buildkit/frontend/gateway/pb"
	spb "github.com/moby/buildkit/sourcepolicy/pb"
	"github.com/moby/buildkit/sourcepolicy/policysession"

	containerv1 "slipway.dev/proto/gen/slipway/container/v1"
	"slipway.dev/services/builder/jobs"
	"slipway.dev/services/builder/remote"
	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/oci"
	"slipway.dev/services/internal/upstream"
)

// sources decides what a build may be made from. The daemon keeps what it once
// fetched, and would hand it to whoever knows its digest: so the registry is asked
// each time whether this build's own login may read the image. Safe for
// concurrent use.
type sources struct {
	registries remote.Registries
	logins     *jobs.Logins
	scope      string
	// forbidden are "<host>/<repository>", with all below, that no step may read, but for
	// the one image that is the build's own source, and those that its request was given;
	// nil for none.
	forbidden []string
	source    *containerv1.Source
	given     []*containerv1.Source

	mu   sync.Mutex
	seen map[string]string // why an image is refused; "" when it is not
	last string            // what was refused last, and why
	// allowed are the repositories that the build reads, and with which login.
	allowed map[upstream.Repository]upstream.Login
	// first is the first login at a host.
	first map[string]upstream.Login
}

func newSources(r remote.Registries, l *jobs.Logins, job jobs.Job) *sources {
	return &sources{
		registries: r, logins: l, scope: fmt.Sprintf("%s.%d", job.ID, job.Delivery), forbidden: job.Forbidden, source: job.Recipe.GetSource(), given: job.Given, seen: map[string]string{},
		allowed: map[upstream.Repository]upstream.Login{}, first: map[string]upstream.Login{},
	}
}

// of is the login that the build reads a repository with; not ok for one that it
// reads nothing from.
func (s *sources) of(repo upstream.Repository) (login upstream.Login, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	login, ok = s.allowed[repo]
	return login, ok
}

// at is the first login that the build reads with at a registry; the zero value for
// none.
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

// decide answers the daemon's question about one source.
func (s *sources) decide(ctx context.Context, req *policysession.CheckPolicyRequest) (*policysession.DecisionResponse, *gateway.ResolveSourceMetaRequest, error) {
	why := s.refusal(ctx, req.GetSource().GetSource().GetIdentifier())
	if why == "" {
		return &policysession.DecisionResponse{Action: spb.PolicyAction_ALLOW}, nil, nil
	}
	s.mu.Lock()
	s.last = fault.Clip(req.GetSource().GetSource().GetIdentifier(), jobs.TextBytes) + " cannot be used: " + why
	s.mu.Unlock()
	return &policysession.DecisionResponse{
		Action: spb.PolicyAction_DENY, DenyMessages: []*policysession.DenyMessage{{Message: why}},
	}, nil, nil
}

// refused says what was refused, and why; "" when nothing was.
func (s *sources) refused() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.TrimPrefix(s.last, "docker-image://")
}

// blame names the image that was refused, where that is why a build failed.
func (s *sources) blame(f *jobs.Failure, redact func(string) string) *jobs.Failure {
	if why := s.refused(); why != "" && f.Reason == jobs.Build {
		f.Message = redact(why)
	}
	return f
}

func (s *sources) refusal(ctx context.Context, identifier string) string {
	scheme, name, _ := strings.Cut(identifier, "://")
	switch scheme {
	case "local", "git", "http", "https": // fetched, or asked for anew, each time and without a login
		return ""
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
	why = s.ask(ctx, name)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seen[name] = why
	return why
}

// ask asks the registry about an image.
func (s *sources) ask(ctx context.Context, name string) string {
	ref, err := oci.ParseReference(name)
	if err != nil {
		return "the image name " + fault.Clip(name, jobs.TextBytes) + " is malformed"
	}
	for _, f := range s.forbidden {
		host, path, _ := strings.Cut(f, "/")
		if !s.isSource(ref) && !s.isGiven(ref) && oci.SameHost(ref.Registry, host) && strings.HasPrefix(ref.Repository+"/", path+"/") {
			return "it belongs to the build service, and is read through the names of container requests only"
		}
	}
	repo := upstream.Repository{Host: oci.CanonicalHost(ref.Registry), Name: ref.Repository}
	read := s.logins.Read
	if s.isSource(ref) { // by its digest, so that no base image has another one read so
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
	return "the registry " + ref.Registry + " did not say whether the image may be read"
}

// isSource says whether an image is the one that the build itself has pushed before, to
// go on from it.
func (s *sources) isSource(ref oci.Reference) bool { return isAt(s.source, ref) }

// isGiven says whether an image is one that the build's request was given the name of.
func (s *sources) isGiven(ref oci.Reference) bool {
	return slices.ContainsFunc(s.given, func(image *containerv1.Source) bool { return isAt(image, ref) })
}

// isAt says whether an image is the one that lies somewhere, and is asked for by its
// digest: a tag may be another image's a moment later.
func isAt(image *containerv1.Source, ref oci.Reference) bool {
	return image != nil && oci.SameHost(ref.Registry, image.GetRegistry()) && ref.Repository == image.GetRepository() &&
		ref.Digest != "" && ref.Digest.String() == image.GetReference()
}

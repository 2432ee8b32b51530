package build

import (
	"context"
	"crypto/rand"
	"errors"
	"net/url"
	"slices"
	"strings"

	"github.com/opencontainers/go-digest"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/timestamppb"

	buildv1 "slipway.dev/proto/gen/slipway/build/v1"
	containerv1 "slipway.dev/proto/gen/slipway/container/v1"

	"slipway.dev/services/build/engine"
	"slipway.dev/services/build/store"
	"slipway.dev/services/conda/spec"
	"slipway.dev/services/internal/caller"
	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/oci"
	"slipway.dev/services/internal/upstream"
)

// TakeJob returns a job's description to a worker. The time limit starts with the first
// call. Every delivery has its own ticket, which invalidates the previous one.
func (s *Service) TakeJob(ctx context.Context, req *buildv1.TakeJobRequest) (*buildv1.TakeJobResponse, error) {
	if err := s.checkCertificate(ctx); err != nil {
		return nil, err
	}
	ticket := rand.Text()
	taken, err := s.store.Take(ctx, req.GetBuildId(), int64(req.GetDelivery()), req.GetWorker(), hash(ticket), s.deps.Now())
	if err != nil {
		return nil, s.store.Fault("noting that a job was taken", err)
	}
	if !taken {
		return nil, fault.NotFound.Newf("The build %s has ended, or another worker has it", req.GetBuildId())
	}
	wake(s.happened)
	rec, err := s.read(ctx, req.GetBuildId())
	if err != nil {
		return nil, err
	}
	recipe, err := s.recipe(ctx, rec)
	if err != nil {
		return nil, err
	}
	cache, err := s.store.Cache(ctx, rec)
	if err != nil {
		return nil, s.store.Fault("looking up a build's cache", err)
	}
	out := &buildv1.TakeJobResponse{
		Recipe: recipe, Target: rec.Request.GetTarget(), ContentDigest: rec.Request.GetContentDigest(),
		CacheScope: rec.CacheScope(), CacheDigest: cache, Ticket: ticket, Deadline: timestamppb.New(rec.Deadline()),
		GivenImages: rec.Request.GetGivenImages(), Rules: s.deps.ImageRules,
	}
	if recipe.GetEngine() == engine.Conda {
		lock, err := s.store.Lock(ctx, rec.ID)
		if err != nil {
			return nil, s.store.Fault("reading a build's lock", err)
		}
		out.Lock, out.PrivateChannels = lockRecords(lock), lock.GetPrivateChannels()
	}
	if s.deps.Own != "" {
		out.Forbidden = []string{s.deps.Own}
	}
	return out, nil
}

// hash returns the stored form of a ticket.
func hash(ticket string) string { return digest.FromString(ticket).Encoded() }

// holder returns the build that a ticket belongs to, or fault.NotFound if the ticket is no
// longer valid.
func (s *Service) holder(ctx context.Context, ticket string) (store.Record, error) {
	rec, err := s.store.ByTicket(ctx, hash(ticket))
	if errors.Is(err, fault.NotFound) || err == nil && s.deps.Now().After(rec.Deadline().Add(grace)) {
		return rec, fault.NotFound.New("The ticket is no longer valid", err)
	}
	if err != nil {
		return rec, s.store.Fault("looking up a ticket", err)
	}
	return rec, nil
}

// GetContext streams a build context.
func (s *Service) GetContext(req *buildv1.GetContextRequest, stream grpc.ServerStreamingServer[buildv1.GetContextResponse]) error {
	rec, err := s.holder(stream.Context(), req.GetTicket())
	if err != nil {
		return err
	}
	content, err := s.store.Context(stream.Context(), rec.Request.GetRecipe().GetContext().GetGzipDigest())
	if errors.Is(err, fault.NotFound) {
		return err
	}
	if err != nil {
		return s.store.Fault("reading a build context", err)
	}
	for part := range slices.Chunk(content, 1<<20) {
		if err := stream.Send(&buildv1.GetContextResponse{Chunk: part}); err != nil {
			return err
		}
	}
	return nil
}

// GetBuildCredentials returns the login for one repository that the build pushes to or
// reads from, and none for any other: a login for a host does not give a build access to
// everything on that host.
func (s *Service) GetBuildCredentials(ctx context.Context, req *buildv1.GetBuildCredentialsRequest) (*buildv1.GetBuildCredentialsResponse, error) {
	rec, err := s.holder(ctx, req.GetTicket())
	isRebuild := errors.Is(err, fault.NotFound)
	if isRebuild {
		_, rec, err = s.rebuildHolder(ctx, req.GetTicket())
	}
	if err != nil {
		return nil, err
	}
	ask, repo := s.noLogin, upstream.Repository{Host: req.GetRegistry(), Name: req.GetRepository()}
	switch req.GetPurpose() {
	case buildv1.LoginPurpose_LOGIN_PURPOSE_PUSH:
		ask = s.pushLogin
	case buildv1.LoginPurpose_LOGIN_PURPOSE_CACHE:
		ask = s.cacheLogin
	case buildv1.LoginPurpose_LOGIN_PURPOSE_READ:
		ask = s.readLogin
	case buildv1.LoginPurpose_LOGIN_PURPOSE_CHANNEL:
		ask = s.channelLogin
	case buildv1.LoginPurpose_LOGIN_PURPOSE_UNSPECIFIED:
	}
	if isRebuild && req.GetPurpose() != buildv1.LoginPurpose_LOGIN_PURPOSE_READ && req.GetPurpose() != buildv1.LoginPurpose_LOGIN_PURPOSE_CHANNEL {
		ask = s.noLogin // it pushes nothing
	}
	login, err := ask(ctx, rec, repo)
	if err != nil {
		return nil, err
	}
	return &buildv1.GetBuildCredentialsResponse{Username: login.Username, Password: login.Password}, nil
}

func (s *Service) noLogin(context.Context, store.Record, upstream.Repository) (upstream.Login, error) {
	return upstream.Login{}, nil
}

// pushLogin returns the login for the repository that the build pushes to.
func (s *Service) pushLogin(ctx context.Context, rec store.Record, repo upstream.Repository) (upstream.Login, error) {
	t := rec.Request.GetTarget()
	if repo.Host != t.GetRegistry() || repo.Name != t.GetRepository() {
		return upstream.Login{}, nil
	}
	return s.deps.Keychain.PushLogin(ctx, caller.Of(rec.Request.GetIdentity()), repo.Host, caller.Grant{
		Repository: repo.Name, Tag: t.GetTag(), Reads: s.issuedAt(rec, repo.Host), Build: rec.ID, Until: rec.Deadline().Add(grace),
	})
}

// issuedAt returns the service's own repositories at a host whose images were issued to the
// build's request.
func (s *Service) issuedAt(rec store.Record, host string) []string {
	var out []string
	for _, image := range rec.Request.GetGivenImages() {
		name := image.GetRepository()
		if image.GetRegistry() == host && s.deps.Keychain.IsBuildRepository(host, name) && !slices.Contains(out, name) {
			out = append(out, name)
		}
	}
	return out
}

// cacheLogin returns the login for the cache repository: the user's own, or none.
func (s *Service) cacheLogin(ctx context.Context, rec store.Record, repo upstream.Repository) (upstream.Login, error) {
	host, path, err := oci.ParseRepository(rec.Request.GetTarget().GetCacheRepository())
	if err != nil || repo.Host != host || repo.Name != path {
		return upstream.Login{}, nil //nolint:nilerr // the build has no such repository
	}
	return s.deps.Keychain.UserLogin(ctx, caller.Of(rec.Request.GetIdentity()), host, path)
}

// readLogin returns the login for an image that the recipe names. An image that only a base
// image refers to is read without a login.
func (s *Service) readLogin(ctx context.Context, rec store.Record, repo upstream.Repository) (upstream.Login, error) {
	who, read := caller.Of(rec.Request.GetIdentity()), s.deps.Keychain.Access
	recipe, err := s.recipe(ctx, rec)
	if err != nil {
		return upstream.Login{}, err
	}
	src, included := recipe.GetSource(), includes(recipe, repo)
	// An image that the same build has pushed is read with the login of the push.
	switch isSource := !isRest(recipe) && repo.Host == src.GetRegistry() && repo.Name == src.GetRepository(); {
	// The request has access to these images, which are read by digest.
	case !isSource && (slices.Contains(s.issuedAt(rec, repo.Host), repo.Name) || included && s.deps.Keychain.IsBuildRepository(repo.Host, repo.Name)):
		return s.deps.Keychain.PullLogin(repo.Host, caller.Grant{Reads: []string{repo.Name}, Build: rec.ID, Until: rec.Deadline().Add(grace)}), nil
	case isSource && (len(rec.Request.GetPartIds()) > 0 || s.deps.Keychain.IsBuildRepository(repo.Host, repo.Name)): // a build has pushed it
		read = s.deps.Keychain.BuildAccess
	case !isSource && !included && !slices.Contains(rec.Request.GetRepositories(), repo.Host+"/"+repo.Name):
		return upstream.Login{}, nil
	}
	access, err := read(ctx, who, repo.Host, repo.Name)
	return access.Login, err
}

// includes reports whether the recipe includes layers of an image in a repository.
func includes(recipe *buildv1.Recipe, repo upstream.Repository) bool {
	return slices.ContainsFunc(recipe.GetConfig().GetLayers(), func(l *containerv1.Layer) bool {
		from := l.GetIncludedFrom()
		return from != nil && from.GetRegistry() == repo.Host && from.GetRepository() == repo.Name
	})
}

// channelLogin returns the login for a private channel of the build's lock.
func (s *Service) channelLogin(ctx context.Context, rec store.Record, channel upstream.Repository) (upstream.Login, error) {
	lock, err := s.store.Lock(ctx, rec.ID)
	if err != nil {
		return upstream.Login{}, s.store.Fault("reading a build's lock", err)
	}
	name := strings.TrimSuffix(channel.Host+"/"+channel.Name, "/")
	isIts := func(address string) bool {
		at, err := url.Parse(address)
		return err == nil && strings.TrimSuffix(at.Host+"/"+spec.PathOf(at), "/") == name
	}
	if !slices.ContainsFunc(lock.GetPrivateChannels(), isIts) {
		return upstream.Login{}, nil
	}
	// The packages were solved with the same login.
	return s.deps.Keychain.UserLogin(ctx, caller.Of(rec.Request.GetIdentity()), "conda", name)
}

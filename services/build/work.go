package build

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"slices"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/timestamppb"

	buildv1 "slipway.dev/proto/gen/slipway/build/v1"

	"slipway.dev/services/internal/caller"
	"slipway.dev/services/internal/fault"
)

// TakeJob gives a worker all about a job. The time limit runs from the first
// take; every delivery has a ticket of its own, and ends the one before.
func (s *Service) TakeJob(ctx context.Context, req *buildv1.TakeJobRequest) (*buildv1.TakeJobResponse, error) {
	ticket := rand.Text()
	taken, err := s.store.take(ctx, req.GetBuildId(), int64(req.GetDelivery()), req.GetWorker(), hash(ticket), s.deps.Now())
	if err != nil {
		return nil, s.deps.DB.Fault("noting that a job was taken", err)
	}
	if !taken {
		return nil, fault.NotFound.Newf("The build %s has ended, or another worker has it", req.GetBuildId())
	}
	rec, err := s.read(ctx, req.GetBuildId())
	if err != nil {
		return nil, err
	}
	recipe, err := s.recipe(ctx, rec)
	if err != nil {
		return nil, err
	}
	out := &buildv1.TakeJobResponse{
		Recipe: recipe, Target: rec.request.GetTarget(), ContentDigest: rec.request.GetContentDigest(),
		CacheScope: cacheScope(rec), Ticket: ticket, Deadline: timestamppb.New(rec.deadline()),
	}
	if s.deps.Own != "" {
		out.Forbidden = []string{s.deps.Own}
	}
	return out, nil
}

// cacheScope names the caches of one owner: nobody finds there what another's
// build has left.
func cacheScope(r record) string { return hash(r.owner + "\n" + r.request.GetScope())[:16] }

func hash(s string) string {
	sum := sha256.Sum256([]byte(s))
	return hex.EncodeToString(sum[:])
}

// holder is the build that a ticket belongs to; fault.NotFound once it is no
// longer good.
func (s *Service) holder(ctx context.Context, ticket string) (record, error) {
	rec, err := s.store.byTicket(ctx, hash(ticket))
	if errors.Is(err, fault.NotFound) || err == nil && s.deps.Now().After(rec.deadline().Add(grace)) {
		return rec, fault.NotFound.New("The ticket is not good any more", err)
	}
	if err != nil {
		return rec, s.deps.DB.Fault("looking up a ticket", err)
	}
	return rec, nil
}

// GetContext streams a build context.
func (s *Service) GetContext(req *buildv1.GetContextRequest, stream grpc.ServerStreamingServer[buildv1.GetContextResponse]) error {
	rec, err := s.holder(stream.Context(), req.GetTicket())
	if err != nil {
		return err
	}
	content, err := s.store.context(stream.Context(), rec.request.GetRecipe().GetContext().GetGzipDigest())
	if errors.Is(err, fault.NotFound) {
		return err
	}
	if err != nil {
		return s.deps.DB.Fault("reading a build context", err)
	}
	for part := range slices.Chunk(content, 1<<20) {
		if err := stream.Send(&buildv1.GetContextResponse{Chunk: part}); err != nil {
			return err
		}
	}
	return nil
}

// GetBuildCredentials answers a login for where the build pushes to or reads
// from, and for nowhere else.
func (s *Service) GetBuildCredentials(ctx context.Context, req *buildv1.GetBuildCredentialsRequest) (*buildv1.GetBuildCredentialsResponse, error) {
	rec, err := s.holder(ctx, req.GetTicket())
	if err != nil {
		return nil, err
	}
	who, target := caller.Of(rec.request.GetIdentity()), rec.request.GetTarget()
	switch host := req.GetRegistry(); {
	case req.GetSource():
		return s.sourceLogin(ctx, rec, host)
	case host == target.GetRegistry():
		access, err := s.deps.Keychain.Target(ctx, who, host, target.GetRepository())
		return login(access.Login.Username, access.Login.Password), err
	case slices.Contains(rec.request.GetRegistries(), host):
		access, err := s.deps.Keychain.Access(ctx, who, host, "")
		return login(access.Login.Username, access.Login.Password), err
	}
	return login("", ""), nil
}

// sourceLogin is for reading the image that a build is made from.
func (s *Service) sourceLogin(ctx context.Context, rec record, host string) (*buildv1.GetBuildCredentialsResponse, error) {
	recipe, err := s.recipe(ctx, rec)
	if err != nil {
		return nil, err
	}
	who, src := caller.Of(rec.request.GetIdentity()), recipe.GetSource()
	if host != src.GetRegistry() {
		return login("", ""), nil
	}
	read := s.deps.Keychain.Access
	if len(rec.request.GetPartIds()) > 0 { // it was pushed by the build before
		read = s.deps.Keychain.Target
	}
	access, err := read(ctx, who, host, src.GetRepository())
	return login(access.Login.Username, access.Login.Password), err
}

func login(user, password string) *buildv1.GetBuildCredentialsResponse {
	return &buildv1.GetBuildCredentialsResponse{Username: user, Password: password}
}

package container

import (
	"context"

	"google.golang.org/protobuf/proto"

	buildv1 "slipway.dev/proto/gen/slipway/build/v1"
	containerv1 "slipway.dev/proto/gen/slipway/container/v1"

	"slipway.dev/services/container/store"
	"slipway.dev/services/container/tokens"
	"slipway.dev/services/internal/rpc"
)

// A submission is the result of a container request.
type submission struct {
	plan *containerv1.Plan
	// build is nil if nothing has to be built.
	build *buildv1.SubmitBuildResponse
	// record is the request in the form that is stored.
	record *containerv1.ContainerRequest
}

// submissionOf returns the submission for an image that this request does not build. The
// image may be the result of an earlier build.
func submissionOf(plan *containerv1.Plan, record *containerv1.ContainerRequest) submission {
	out := submission{plan: plan, record: record}
	if plan.GetBuildId() != "" {
		out.build = &buildv1.SubmitBuildResponse{BuildId: plan.GetBuildId(), Cached: true, Succeeded: plan.GetBuilt()}
	}
	return out
}

// hasPermanentName reports whether the name of a plan does not expire, so that it has no token.
func hasPermanentName(p *containerv1.Plan) bool { return p.GetFrozen() || p.GetKeptId() != "" }

// response returns the response for a submission.
func (s *Service) response(a submission) *containerv1.SubmitContainerResponse {
	out := &containerv1.SubmitContainerResponse{
		RequestId:      proto.String(tokens.IDOf(a.plan.GetToken())),
		TargetImage:    proto.String(s.targetImage(a.plan)),
		ContainerImage: proto.String(s.containerImage(a.plan, a.record)),
		Freeze:         proto.Bool(a.plan.GetFrozen() && !a.plan.GetMirror()),
		Mirror:         proto.Bool(a.plan.GetMirror()),
	}
	out.KeptId = rpc.Optional(a.plan.GetKeptId())
	if !hasPermanentName(a.plan) {
		out.ContainerToken, out.Expiration = proto.String(a.plan.GetToken()), a.plan.GetExpiration()
	}
	if a.build != nil {
		out.BuildId, out.Cached = proto.String(a.build.GetBuildId()), proto.Bool(a.build.GetCached())
	}
	out.ScanId = optionalScan(a.plan, a.record)
	if (a.build == nil || a.build.GetSucceeded()) && !a.plan.GetScanRequired() {
		out.Succeeded = proto.Bool(true)
	}
	return out
}

// persist writes a request in its stored form to SQL, then its plan to Redis.
func (s *Service) persist(ctx context.Context, r *containerv1.ContainerRequest, plan *containerv1.Plan) error {
	rec := store.Record{
		Created: s.deps.Now(), Expires: plan.GetExpiration().AsTime(), ClientIP: clientIP(ctx), Plan: plan, Request: r,
	}
	if err := s.charge(ctx, plan.GetIdentity(), recordCost(proto.Size(rec.Plan)+proto.Size(rec.Request))); err != nil {
		return err
	}
	if err := s.addScan(ctx, rec); err != nil {
		return err
	}
	if err := s.store.Insert(ctx, rec); err != nil {
		return s.sqlFault("writing a request", err)
	}
	if err := s.tokens.Put(ctx, plan.GetToken(), plan); err != nil {
		s.deps.Log.WarnContext(ctx, "A token was not written to Redis; it will be read from SQL", "err", err)
	}
	s.startScan(ctx, rec)
	return nil
}

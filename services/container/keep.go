package container

import (
	"context"

	"google.golang.org/protobuf/proto"

	containerv1 "slipway.dev/proto/gen/slipway/container/v1"

	"slipway.dev/services/container/store"
)

// keep writes the request to SQL, then the plan to Redis.
func (s *Service) keep(ctx context.Context, r *containerv1.ContainerRequest, plan *containerv1.Plan) error {
	rec := store.Record{
		Created: s.deps.Now(), Expires: plan.GetExpiration().AsTime(), ClientIP: clientIP(ctx), Plan: plan, Request: withoutSecrets(r),
	}
	if err := s.charge(ctx, plan.GetIdentity(), recordCost(proto.Size(rec.Plan)+proto.Size(rec.Request))); err != nil {
		return err
	}
	if err := s.store.Insert(ctx, rec); err != nil {
		return s.sqlFault("writing a request", err)
	}
	if err := s.tokens.Put(ctx, plan.GetToken(), plan); err != nil {
		s.deps.Log.WarnContext(ctx, "A token was not written to Redis; it will be read from SQL", "err", err)
	}
	return nil
}

// withoutSecrets is what is kept of a request beside its plan.
func withoutSecrets(r *containerv1.ContainerRequest) *containerv1.ContainerRequest {
	return &containerv1.ContainerRequest{
		ContainerImage:    r.GetContainerImage(),
		ContainerPlatform: r.GetContainerPlatform(),
		Timestamp:         r.GetTimestamp(),
		Fingerprint:       r.GetFingerprint(),
		WorkflowId:        r.GetWorkflowId(),
		Format:            r.GetFormat(),
		DryRun:            r.GetDryRun(),
		Freeze:            r.GetFreeze(),
		BuildRepository:   r.GetBuildRepository(),
		CacheRepository:   r.GetCacheRepository(),
		NameStrategy:      r.GetNameStrategy(),
		BuildTemplate:     r.GetBuildTemplate(),
		ContainerIncludes: r.GetContainerIncludes(),
		Compression:       r.GetCompression(),
	}
}

package container

import (
	"context"
	"errors"
	"slices"

	inspectv1 "slipway.dev/proto/gen/slipway/inspect/v1"

	"slipway.dev/services/container/store"
	"slipway.dev/services/internal/caller"
	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/vex/owners"
)

// Findings are stored without the statements of VEX documents, since requests of several users can share them. The
// documents of the server, the organisation and the user of a request are applied whenever its verdict is read.

// A vexReader reads the documents of the server and of users and organisations.
type vexReader struct{ server, own *owners.Reader }

func newVEXReader(d Deps) vexReader {
	return vexReader{own: owners.New(owners.Platform(d.Platform)), server: owners.New(func(ctx context.Context, _ caller.ID, known string) (owners.Response, error) {
		if d.Inspect == nil {
			return &inspectv1.GetServerVexResponse{}, nil
		}
		got, err := d.Inspect.GetServerVex(ctx, &inspectv1.GetServerVexRequest{KnownVersion: known})
		if errors.Is(err, fault.Unsupported) { // an earlier release, which has applied them when it scanned the image
			return &inspectv1.GetServerVexResponse{}, nil
		}
		return got, err
	})}
}

// judged returns findings as they apply to a request: vulnerabilities that the documents of the server, of the
// organisation or of the user rule out do not count.
func (s *Service) judged(ctx context.Context, rec store.Record, f store.Findings) (store.Findings, error) {
	if len(f.Result.GetVulnerabilities()) == 0 {
		return f, nil
	}
	server, err := s.vex.server.Of(ctx, caller.ID{})
	if err != nil {
		return f, err
	}
	own, err := s.vex.own.Of(ctx, caller.Of(rec.Plan.GetIdentity()))
	if err != nil {
		return f, err
	}
	f.Result, err = slices.Concat(server, own).Apply(ctx, f.Result)
	return f, err
}

// Package owners reads the OpenVEX documents that apply to the scans of a caller. Each call asks for their version, so
// that a changed document applies immediately; only parsed documents are cached.
package owners

import (
	"context"
	"fmt"

	platformv1 "slipway.dev/proto/gen/slipway/platform/v1"

	"slipway.dev/services/internal/caller"
	"slipway.dev/services/internal/limits"
	"slipway.dev/services/internal/memo"
	"slipway.dev/services/internal/vex"
)

// A Response has documents and their version. Without documents, the version is the known one, or there are none.
type Response interface {
	GetVersion() string
	GetDocuments() []*platformv1.AppliedVex
}

// A Source returns the documents that apply to a caller, unless known is their version.
type Source func(ctx context.Context, who caller.ID, known string) (Response, error)

// Platform returns the source of the documents of users and organisations. Anonymous callers have none.
func Platform(client platformv1.AccessServiceClient) Source {
	return func(ctx context.Context, who caller.ID, known string) (Response, error) {
		if who.IsAnonymous() {
			return &platformv1.GetVexResponse{}, nil
		}
		return client.GetVex(ctx, &platformv1.GetVexRequest{KnownVersion: known, Identity: &platformv1.Identity{
			Endpoint: who.Endpoint, UserId: who.UserID, WorkspaceId: who.WorkspaceID, RobotOrgId: who.RobotOrgID,
		}})
	}
}

// A Reader reads documents. Create it with New. It is safe for concurrent use.
type Reader struct {
	source  Source
	cache   *memo.Cache[caller.ID, parsed]
	parsing memo.Flight[version, parsed]
}

// A version identifies the documents of a caller.
type version struct {
	who     caller.ID
	version string
}

type parsed struct {
	version string
	sets    vex.Sets
	size    uint32
}

// New returns a Reader of the documents of a source.
func New(s Source) *Reader {
	return &Reader{source: s, cache: memo.NewCache(memo.Options[caller.ID, parsed]{
		Weight: limits.VEXCached, Weigh: func(_ caller.ID, p parsed) uint32 { return p.size },
	})}
}

// Of returns the statements of the documents that apply to a caller. It returns the error of the source, such as
// fault.Unavailable: results without the documents would be wrong.
func (r *Reader) Of(ctx context.Context, who caller.ID) (vex.Sets, error) {
	who.Repositories, who.OrganizationID = "", 0 // they have no effect on the documents
	known, _ := r.cache.Get(who)
	got, err := r.source(ctx, who, known.version)
	if err != nil {
		return nil, fmt.Errorf("reading the VEX documents that apply: %w", err)
	}
	if got.GetVersion() == known.version {
		return known.sets, nil
	}
	known, err = r.parsing.Do(ctx, version{who, got.GetVersion()}, func(context.Context) (parsed, error) { return parse(got) })
	if err == nil {
		r.cache.Set(who, known)
	}
	return known.sets, err
}

// parse parses documents. They were valid when they were stored.
func parse(from Response) (parsed, error) {
	out := parsed{version: from.GetVersion(), size: 1 << 10}
	var docs []vex.Document
	for _, d := range from.GetDocuments() {
		docs = append(docs, vex.Document{Name: d.GetName(), Content: []byte(d.GetContent())})
	}
	var err error
	out.sets, err = vex.ParseAll(docs)
	for i, set := range out.sets {
		out.size += uint32(len(docs[i].Content)/4 + 512*set.Products()) // about what is in memory
	}
	return out, err
}

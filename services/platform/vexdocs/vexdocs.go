// Package vexdocs owns the OpenVEX documents of users and organisations, in the table platform_vex. The services that
// scan images apply them; see the package vex.
package vexdocs

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	platformv1 "slipway.dev/proto/gen/slipway/platform/v1"

	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/limits"
	"slipway.dev/services/internal/sqldb"
	"slipway.dev/services/internal/vex"
	"slipway.dev/services/platform/api"
	"slipway.dev/services/platform/audit"
	"slipway.dev/services/platform/identity"
	"slipway.dev/services/platform/orgs"
)

// Users looks up users.
type Users interface {
	// HasUser reports whether a user or robot exists and is not disabled.
	HasUser(ctx context.Context, id int64) (bool, error)
}

// Workspaces looks up the roles of users.
type Workspaces interface {
	// WorkspaceRole returns a workspace and the user's role in it. It returns fault.Denied if the user has no role.
	WorkspaceRole(ctx context.Context, userID, workspaceID int64) (orgs.Space, orgs.Role, error)
}

// Deps are the dependencies of a Service.
type Deps struct {
	DB         *sqldb.DB
	Users      Users
	Workspaces Workspaces
	Audit      audit.Log
	// Now returns the current time.
	Now func() time.Time
}

// Service implements the calls for OpenVEX documents. Create it with New.
type Service struct {
	store store
	deps  Deps
}

// New returns a Service. The table must exist.
func New(d Deps) *Service { return &Service{store: store{d.DB, d.Audit}, deps: d} }

// An owner is a user or an organisation; the other id is 0.
type owner struct{ user, org int64 }

// A document is a row of platform_vex.
type document struct {
	owner
	name, content, digest string
	size, statements      int64
	products              int64
	updated               time.Time
	updatedBy             string
}

func (d document) toProto() *platformv1.VexDocument {
	return &platformv1.VexDocument{
		Name: d.name, Statements: int32(d.statements), Size: int32(d.size), LastUpdated: api.Timestamp(d.updated), UpdatedBy: d.updatedBy,
	}
}

// values returns a document for the audit trail.
func (d document) values() map[string]any {
	return map[string]any{"sha256": d.digest, "size": d.size, "statements": d.statements}
}

// title returns how the results of scans mention the document.
func (d document) title() string {
	if d.org != 0 {
		return "organization/" + d.name
	}
	return "user/" + d.name
}

// ownerOf returns the owner that a call names: an organisation, or the caller.
func ownerOf(ctx context.Context, req interface{ GetOrgId() int64 }) owner {
	if org := req.GetOrgId(); org != 0 {
		return owner{org: org}
	}
	return owner{user: identity.CallerFrom(ctx).User.ID}
}

// ListVexDocuments returns the documents of the caller or of an organisation.
func (s *Service) ListVexDocuments(ctx context.Context, req *platformv1.ListVexDocumentsRequest) (*platformv1.ListVexDocumentsResponse, error) {
	list, err := s.store.documents(ctx, ownerOf(ctx, req))
	if err != nil {
		return nil, fmt.Errorf("reading OpenVEX documents: %w", err)
	}
	out := &platformv1.ListVexDocumentsResponse{}
	for _, d := range list {
		out.Documents = append(out.Documents, d.toProto())
	}
	return out, nil
}

// DescribeVexDocument returns a document with its content, or fault.NotFound.
func (s *Service) DescribeVexDocument(ctx context.Context, req *platformv1.DescribeVexDocumentRequest) (*platformv1.DescribeVexDocumentResponse, error) {
	d, err := s.store.document(ctx, ownerOf(ctx, req), req.GetName())
	if err != nil {
		return nil, fmt.Errorf("reading the OpenVEX document %s: %w", fault.Quote(req.GetName()), err)
	}
	return &platformv1.DescribeVexDocumentResponse{Document: d.toProto(), Content: d.content}, nil
}

// SetVexDocument stores or replaces a document. It returns fault.Invalid if the content is not an OpenVEX document or
// if the owner has too many.
func (s *Service) SetVexDocument(ctx context.Context, req *platformv1.SetVexDocumentRequest) (*platformv1.SetVexDocumentResponse, error) {
	content := req.GetDocument().GetContent()
	if err := api.CheckName(req.GetName()); err != nil {
		return nil, err
	}
	if len(content) > limits.VEXOwned {
		return nil, fault.Invalid.Newf("An OpenVEX document may have %d MiB", limits.VEXOwned>>20)
	}
	parsed, err := vex.Parse(vex.Document{Name: req.GetName(), Content: []byte(content)})
	if err != nil {
		return nil, err
	}
	// A statement of the future would apply instead of all that are made until then.
	if at := parsed.Newest(); at.After(s.deps.Now().Add(limits.VEXClock)) {
		return nil, fault.Invalid.Newf("The OpenVEX document has a statement of the time %s, which is in the future", at.Format(time.RFC3339))
	}
	sum := sha256.Sum256([]byte(content))
	d := document{
		owner: ownerOf(ctx, req), name: req.GetName(), content: content, digest: hex.EncodeToString(sum[:]), size: int64(len(content)),
		statements: int64(parsed.Statements()), products: int64(parsed.Products()), updated: s.deps.Now(), updatedBy: identity.CallerFrom(ctx).User.Name,
	}
	if err := s.store.set(ctx, d); err != nil {
		return nil, fmt.Errorf("writing the OpenVEX document %s: %w", d.name, err)
	}
	return &platformv1.SetVexDocumentResponse{Document: d.toProto()}, nil
}

// DeleteVexDocument deletes a document, or returns fault.NotFound.
func (s *Service) DeleteVexDocument(ctx context.Context, req *platformv1.DeleteVexDocumentRequest) (*platformv1.DeleteVexDocumentResponse, error) {
	if err := s.store.delete(ctx, ownerOf(ctx, req), req.GetName()); err != nil {
		return nil, fmt.Errorf("deleting the OpenVEX document %s: %w", fault.Quote(req.GetName()), err)
	}
	return &platformv1.DeleteVexDocumentResponse{}, nil
}

// Applied returns the documents that apply to the scans of a user of this platform: those of the organisation, and
// then the user's own. The user's role is checked at each call: without one in the workspace, the documents of its
// organisation do not apply.
func (s *Service) Applied(ctx context.Context, id *platformv1.Identity, known string) (*platformv1.GetVexResponse, error) {
	has, err := s.deps.Users.HasUser(ctx, id.GetUserId())
	if err != nil {
		return nil, err
	}
	if !has {
		return &platformv1.GetVexResponse{}, nil
	}
	of := owner{user: id.GetUserId()}
	if id.GetWorkspaceId() != 0 {
		space, _, err := s.deps.Workspaces.WorkspaceRole(ctx, id.GetUserId(), id.GetWorkspaceId())
		if err != nil && !errors.Is(err, fault.Denied) {
			return nil, err
		}
		of.org = space.Workspace.OrgID
	} else if id.GetRobotOrgId() != 0 {
		if of.org, err = s.store.robotOrg(ctx, id.GetUserId()); err != nil {
			return nil, fmt.Errorf("reading the organisation of robot %d: %w", id.GetUserId(), err)
		}
	}
	version, err := s.store.version(ctx, of)
	if err != nil || version == known {
		return &platformv1.GetVexResponse{Version: version}, err
	}
	list, err := s.store.applied(ctx, of)
	if err != nil {
		return nil, err
	}
	out := &platformv1.GetVexResponse{Version: versionOf(list)} // a document may have changed since
	for _, d := range list {
		out.Documents = append(out.Documents, &platformv1.AppliedVex{Name: d.title(), Content: d.content})
	}
	return out, nil
}

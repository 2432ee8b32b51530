package orgs

import (
	"context"
	"errors"
	"fmt"

	platformv1 "slipway.dev/proto/gen/slipway/platform/v1"

	"slipway.dev/services/internal/fault"
	"slipway.dev/services/platform/api"
)

func (w Workspace) toProto() *platformv1.Workspace {
	return &platformv1.Workspace{
		Id: float64(w.ID), Name: w.Name, FullName: w.FullName, Description: w.Description, Visibility: w.Visibility,
		DateCreated: api.Timestamp(w.created), LastUpdated: api.Timestamp(w.updated),
	}
}

// apply copies the fields that are set in spec to w and validates the result. The default
// visibility is private.
func (w *Workspace) apply(spec *platformv1.WorkspaceSpec) error {
	if spec != nil {
		api.SetTrimmed(&w.Name, spec.Name)
		api.SetTrimmed(&w.FullName, spec.FullName)
		api.SetTrimmed(&w.Description, spec.Description)
		api.SetTrimmed(&w.Visibility, spec.Visibility)
	}
	if w.Visibility == "" {
		w.Visibility = visibilityPrivate
	}
	if w.Visibility != visibilityPrivate && w.Visibility != visibilityShared {
		return fault.Invalid.Newf("visibility must be PRIVATE or SHARED")
	}
	return errors.Join(api.CheckName(w.Name), api.CheckLength("fullName", w.FullName, 100), api.CheckLength("description", w.Description, 1000))
}

// ListWorkspaces returns a page of the organisation's workspaces that the caller may see.
func (s *Service) ListWorkspaces(ctx context.Context, req *platformv1.ListWorkspacesRequest) (*platformv1.ListWorkspacesResponse, error) {
	p := PrincipalFrom(ctx)
	page, err := api.ReadPage(req)
	if err != nil {
		return nil, err
	}
	list, total, err := s.store.workspacesOf(ctx, p.User.ID, req.GetOrgId(), page)
	if err != nil {
		return nil, fmt.Errorf("reading the workspaces of %d: %w", req.GetOrgId(), err)
	}
	resp := &platformv1.ListWorkspacesResponse{TotalSize: int32(total)}
	for _, w := range list {
		resp.Workspaces = append(resp.Workspaces, w.workspace.toProto())
	}
	return resp, nil
}

// CreateWorkspace creates a workspace. It returns fault.Conflict if the name is taken.
func (s *Service) CreateWorkspace(ctx context.Context, req *platformv1.CreateWorkspaceRequest) (*platformv1.CreateWorkspaceResponse, error) {
	now := s.deps.Now()
	w := Workspace{ID: api.NewID(), OrgID: req.GetOrgId(), created: now, updated: now}
	if err := w.apply(req.GetBody().GetWorkspace()); err != nil {
		return nil, err
	}
	if err := api.Workspaces.CheckRows(ctx, s.deps.DB, `platform_workspaces WHERE org_id = $1`, w.OrgID); err != nil {
		return nil, err
	}
	created, err := s.store.insertWorkspace(ctx, w, now)
	if err != nil {
		return nil, fmt.Errorf("writing the workspace %s: %w", w.Name, err)
	}
	if !created {
		return nil, api.NameTaken("a workspace", w.Name)
	}
	return &platformv1.CreateWorkspaceResponse{Workspace: w.toProto()}, nil
}

// DescribeWorkspace returns a workspace.
func (s *Service) DescribeWorkspace(ctx context.Context, req *platformv1.DescribeWorkspaceRequest) (*platformv1.DescribeWorkspaceResponse, error) {
	p := PrincipalFrom(ctx)
	return &platformv1.DescribeWorkspaceResponse{Workspace: p.Space.Workspace.toProto()}, nil
}

// UpdateWorkspace changes the fields that the request sets. It returns fault.Conflict if the
// new name is taken.
func (s *Service) UpdateWorkspace(ctx context.Context, req *platformv1.UpdateWorkspaceRequest) (*platformv1.UpdateWorkspaceResponse, error) {
	p := PrincipalFrom(ctx)
	old := p.Space.Workspace
	w := old
	if err := w.apply(req.GetWorkspace()); err != nil {
		return nil, err
	}
	w.updated = s.deps.Now()
	done, err := s.store.updateWorkspace(ctx, old, w, w.updated)
	if err != nil {
		return nil, fmt.Errorf("writing workspace %d: %w", w.ID, err)
	}
	if !done {
		return nil, api.NameTaken("a workspace", w.Name)
	}
	return &platformv1.UpdateWorkspaceResponse{Workspace: w.toProto()}, nil
}

// DeleteWorkspace deletes a workspace. It returns fault.Conflict if the workspace has
// credentials or runs.
func (s *Service) DeleteWorkspace(ctx context.Context, req *platformv1.DeleteWorkspaceRequest) (*platformv1.DeleteWorkspaceResponse, error) {
	done, err := s.store.deleteWorkspace(ctx, req.GetId(), s.deps.WorkspaceTables)
	if err != nil {
		return nil, fmt.Errorf("deleting workspace %d: %w", req.GetId(), err)
	}
	if !done {
		return nil, fault.Conflict.Newf("The workspace has credentials or runs; delete them first")
	}
	return &platformv1.DeleteWorkspaceResponse{}, nil
}

// ValidateWorkspaceName returns fault.Conflict if a name is taken and fault.Invalid if it is
// malformed.
func (s *Service) ValidateWorkspaceName(ctx context.Context, req *platformv1.ValidateWorkspaceNameRequest) (*platformv1.ValidateWorkspaceNameResponse, error) {
	if err := api.CheckName(req.GetName()); err != nil {
		return nil, err
	}
	has, err := s.store.hasWorkspaceNamed(ctx, req.GetOrgId(), req.GetName())
	if err != nil {
		return nil, fmt.Errorf("looking for the workspace %s: %w", req.GetName(), err)
	}
	if has {
		return nil, api.NameTaken("a workspace", req.GetName())
	}
	return &platformv1.ValidateWorkspaceNameResponse{}, nil
}

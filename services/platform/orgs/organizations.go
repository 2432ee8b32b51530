package orgs

import (
	"context"
	"errors"
	"fmt"

	platformv1 "slipway.dev/proto/gen/slipway/platform/v1"

	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/limits"
	"slipway.dev/services/platform/api"
)

// orgType is what every organisation is.
const orgType = "community"

func (o org) shown(m member) *platformv1.Organization {
	return &platformv1.Organization{
		OrgId: float64(o.ID), Name: o.Name, FullName: o.FullName, Description: o.Description, Location: o.Location, Website: o.Website,
		MemberId: api.Number(m.id), MemberRole: api.Text(m.role), Type: orgType,
	}
}

// change takes over what is given and checks it.
func (o *org) change(spec *platformv1.OrganizationSpec) error {
	if spec != nil {
		api.Set(&o.Name, spec.Name)
		api.Set(&o.FullName, spec.FullName)
		api.Set(&o.Description, spec.Description)
		api.Set(&o.Location, spec.Location)
		api.Set(&o.Website, spec.Website)
	}
	return errors.Join(api.CheckName(o.Name), api.Within("fullName", o.FullName, 100), api.Within("description", o.Description, 1000),
		api.Within("location", o.Location, 100), api.Within("website", o.Website, 200))
}

// ListOrganizations lists those that the caller is a member of.
func (s *Service) ListOrganizations(ctx context.Context, req *platformv1.ListOrganizationsRequest) (*platformv1.ListOrganizationsResponse, error) {
	p := PrincipalFrom(ctx)
	part, err := api.PageOf(req)
	if err != nil {
		return nil, err
	}
	list, total, err := s.store.orgsOf(ctx, p.User.ID, part)
	if err != nil {
		return nil, fmt.Errorf("reading the organisations of user %d: %w", p.User.ID, err)
	}
	resp := &platformv1.ListOrganizationsResponse{TotalSize: int32(total)}
	for _, m := range list {
		resp.Organizations = append(resp.Organizations, m.org.shown(m.member))
	}
	return resp, nil
}

// CreateOrganization makes one that the caller owns.
func (s *Service) CreateOrganization(ctx context.Context, req *platformv1.CreateOrganizationRequest) (*platformv1.CreateOrganizationResponse, error) {
	p := PrincipalFrom(ctx)
	o := org{ID: api.NewID()}
	if err := o.change(req.GetBody().GetOrganization()); err != nil {
		return nil, err
	}
	if err := api.CheckRows(ctx, s.deps.DB, "organisations of a user", limits.OrganizationsPerUser, `platform_members WHERE user_id = $1 AND role = 'owner'`, p.User.ID); err != nil {
		return nil, err
	}
	owner := member{id: api.NewID(), orgID: o.ID, role: "owner", user: p.User}
	made, err := s.store.insertOrg(ctx, o, owner, s.deps.Now())
	if err != nil {
		return nil, fmt.Errorf("writing the organisation %s: %w", o.Name, err)
	}
	if !made {
		return nil, api.Taken("an organisation", o.Name)
	}
	return &platformv1.CreateOrganizationResponse{Organization: o.shown(owner)}, nil
}

// DescribeOrganization returns one.
func (s *Service) DescribeOrganization(ctx context.Context, req *platformv1.DescribeOrganizationRequest) (*platformv1.DescribeOrganizationResponse, error) {
	p := PrincipalFrom(ctx)
	o, err := s.store.org(ctx, req.GetOrgId())
	if err != nil {
		return nil, fmt.Errorf("reading organisation %d: %w", req.GetOrgId(), err)
	}
	return &platformv1.DescribeOrganizationResponse{Organization: o.shown(p.member)}, nil
}

// UpdateOrganization changes what is given.
func (s *Service) UpdateOrganization(ctx context.Context, req *platformv1.UpdateOrganizationRequest) (*platformv1.UpdateOrganizationResponse, error) {
	o, err := s.store.org(ctx, req.GetOrgId())
	if err != nil {
		return nil, fmt.Errorf("reading organisation %d: %w", req.GetOrgId(), err)
	}
	if err := o.change(req.GetOrganization()); err != nil {
		return nil, err
	}
	done, err := s.store.updateOrg(ctx, o)
	if err != nil {
		return nil, fmt.Errorf("writing organisation %d: %w", o.ID, err)
	}
	if !done {
		return nil, api.Taken("an organisation", o.Name)
	}
	return &platformv1.UpdateOrganizationResponse{}, nil
}

// DeleteOrganization removes one without workspaces.
func (s *Service) DeleteOrganization(ctx context.Context, req *platformv1.DeleteOrganizationRequest) (*platformv1.DeleteOrganizationResponse, error) {
	done, err := s.store.deleteOrg(ctx, req.GetOrgId())
	if err != nil {
		return nil, fmt.Errorf("deleting organisation %d: %w", req.GetOrgId(), err)
	}
	if !done {
		return nil, fault.Conflict.Newf("The organisation has workspaces; delete them first")
	}
	return &platformv1.DeleteOrganizationResponse{}, nil
}

// ValidateOrganizationName says whether a name is free.
func (s *Service) ValidateOrganizationName(ctx context.Context, req *platformv1.ValidateOrganizationNameRequest) (*platformv1.ValidateOrganizationNameResponse, error) {
	if err := api.CheckName(req.GetName()); err != nil {
		return nil, err
	}
	has, err := s.store.hasOrgNamed(ctx, req.GetName())
	if err != nil {
		return nil, fmt.Errorf("looking for the organisation %s: %w", req.GetName(), err)
	}
	if has {
		return nil, api.Taken("an organisation", req.GetName())
	}
	return &platformv1.ValidateOrganizationNameResponse{}, nil
}

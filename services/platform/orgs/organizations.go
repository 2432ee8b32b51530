package orgs

import (
	"context"
	"errors"
	"fmt"

	platformv1 "slipway.dev/proto/gen/slipway/platform/v1"

	"slipway.dev/services/internal/fault"
	"slipway.dev/services/platform/api"
)

// orgType is the type of every organisation. The published API allows academic, evaluating,
// pro, basic and internal; typed clients reject any other value.
const orgType = "internal"

func (o org) message(m member) *platformv1.Organization {
	return &platformv1.Organization{
		OrgId: float64(o.ID), Name: o.Name, FullName: o.FullName, Description: o.Description, Location: o.Location, Website: o.Website,
		MemberId: api.IDValue(m.id), MemberRole: api.StringValue(m.role), Type: orgType,
	}
}

// apply copies the fields that are set in spec to o and validates the result.
func (o *org) apply(spec *platformv1.OrganizationSpec) error {
	if spec != nil {
		api.SetTrimmed(&o.Name, spec.Name)
		api.SetTrimmed(&o.FullName, spec.FullName)
		api.SetTrimmed(&o.Description, spec.Description)
		api.SetTrimmed(&o.Location, spec.Location)
		api.SetTrimmed(&o.Website, spec.Website)
	}
	return errors.Join(api.CheckName(o.Name), api.CheckLength("fullName", o.FullName, 100), api.CheckLength("description", o.Description, 1000),
		api.CheckLength("location", o.Location, 100), api.CheckLength("website", o.Website, 200))
}

// ListOrganizations returns a page of the organisations that the caller is a member of.
func (s *Service) ListOrganizations(ctx context.Context, req *platformv1.ListOrganizationsRequest) (*platformv1.ListOrganizationsResponse, error) {
	p := PrincipalFrom(ctx)
	page, err := api.ReadPage(req)
	if err != nil {
		return nil, err
	}
	list, total, err := s.store.orgsOf(ctx, p.User.ID, page)
	if err != nil {
		return nil, fmt.Errorf("reading the organisations of user %d: %w", p.User.ID, err)
	}
	resp := &platformv1.ListOrganizationsResponse{TotalSize: int32(total)}
	for _, m := range list {
		resp.Organizations = append(resp.Organizations, m.org.message(m.member))
	}
	return resp, nil
}

// CreateOrganization creates an organisation that the caller owns. It returns fault.Conflict
// if the name is taken.
func (s *Service) CreateOrganization(ctx context.Context, req *platformv1.CreateOrganizationRequest) (*platformv1.CreateOrganizationResponse, error) {
	p := PrincipalFrom(ctx)
	o := org{ID: api.NewID()}
	if err := o.apply(req.GetBody().GetOrganization()); err != nil {
		return nil, err
	}
	if err := api.Organizations.CheckRows(ctx, s.deps.DB, `platform_members WHERE user_id = $1 AND role = 'owner'`, p.User.ID); err != nil {
		return nil, err
	}
	owner := member{id: api.NewID(), orgID: o.ID, role: orgRoleOwner, user: p.User}
	created, err := s.store.insertOrg(ctx, o, owner, s.deps.Now())
	if err != nil {
		return nil, fmt.Errorf("writing the organisation %s: %w", o.Name, err)
	}
	if !created {
		return nil, api.NameTaken("an organisation", o.Name)
	}
	return &platformv1.CreateOrganizationResponse{Organization: o.message(owner)}, nil
}

// DescribeOrganization returns an organisation with the caller's role in it.
func (s *Service) DescribeOrganization(ctx context.Context, req *platformv1.DescribeOrganizationRequest) (*platformv1.DescribeOrganizationResponse, error) {
	p := PrincipalFrom(ctx)
	o, err := s.store.org(ctx, req.GetOrgId())
	if err != nil {
		return nil, fmt.Errorf("reading organisation %d: %w", req.GetOrgId(), err)
	}
	return &platformv1.DescribeOrganizationResponse{Organization: o.message(p.member)}, nil
}

// UpdateOrganization changes the fields that the request sets. It returns fault.Conflict if
// the new name is taken.
func (s *Service) UpdateOrganization(ctx context.Context, req *platformv1.UpdateOrganizationRequest) (*platformv1.UpdateOrganizationResponse, error) {
	o, err := s.store.org(ctx, req.GetOrgId())
	if err != nil {
		return nil, fmt.Errorf("reading organisation %d: %w", req.GetOrgId(), err)
	}
	old := o
	if err := o.apply(req.GetOrganization()); err != nil {
		return nil, err
	}
	done, err := s.store.updateOrg(ctx, old, o)
	if err != nil {
		return nil, fmt.Errorf("writing organisation %d: %w", o.ID, err)
	}
	if !done {
		return nil, api.NameTaken("an organisation", o.Name)
	}
	return &platformv1.UpdateOrganizationResponse{}, nil
}

// DeleteOrganization deletes an organisation. It returns fault.Conflict if the organisation
// has workspaces.
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

// ValidateOrganizationName returns fault.Conflict if a name is taken and fault.Invalid if it
// is malformed.
func (s *Service) ValidateOrganizationName(ctx context.Context, req *platformv1.ValidateOrganizationNameRequest) (*platformv1.ValidateOrganizationNameResponse, error) {
	if err := api.CheckName(req.GetName()); err != nil {
		return nil, err
	}
	has, err := s.store.hasOrgNamed(ctx, req.GetName())
	if err != nil {
		return nil, fmt.Errorf("looking for the organisation %s: %w", req.GetName(), err)
	}
	if has {
		return nil, api.NameTaken("an organisation", req.GetName())
	}
	return &platformv1.ValidateOrganizationNameResponse{}, nil
}

package orgs

import (
	"context"
	"fmt"

	platformv1 "slipway.dev/proto/gen/slipway/platform/v1"

	"slipway.dev/services/internal/caller"
	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/limits"
	"slipway.dev/services/platform/api"
)

func (m member) shown() *platformv1.Member {
	return &platformv1.Member{
		MemberId: float64(m.id), UserId: float64(m.user.ID), UserName: m.user.Name, Email: m.user.Email,
		FirstName: m.user.FirstName, LastName: m.user.LastName, Role: m.role,
	}
}

// ListMembers lists an organisation's members.
func (s *Service) ListMembers(ctx context.Context, req *platformv1.ListMembersRequest) (*platformv1.ListMembersResponse, error) {
	part, err := api.PageOf(req)
	if err != nil {
		return nil, err
	}
	list, total, err := s.store.members(ctx, req.GetOrgId(), part)
	if err != nil {
		return nil, fmt.Errorf("reading the members of %d: %w", req.GetOrgId(), err)
	}
	resp := &platformv1.ListMembersResponse{TotalSize: int32(total)}
	for _, m := range list {
		resp.Members = append(resp.Members, m.shown())
	}
	return resp, nil
}

// AddMember makes a user a member.
func (s *Service) AddMember(ctx context.Context, req *platformv1.AddMemberRequest) (*platformv1.AddMemberResponse, error) {
	u, err := s.deps.Users.UserByName(ctx, req.GetMember().GetUser())
	if err != nil {
		return nil, err
	}
	m := member{id: api.NewID(), orgID: req.GetOrgId(), role: "member", user: u}
	if err := api.CheckRows(ctx, s.deps.DB, "members of an organisation", limits.MembersPerOrganization, `platform_members WHERE org_id = $1`, m.orgID); err != nil {
		return nil, err
	}
	made, err := s.store.insertMember(ctx, m, s.deps.Now())
	if err != nil {
		return nil, fmt.Errorf("writing a member of %d: %w", m.orgID, err)
	}
	if !made {
		return nil, fault.Conflict.Newf("%s is a member already", u.Name)
	}
	s.deps.Rights.Notify(ctx, caller.Change{UserID: u.ID})
	return &platformv1.AddMemberResponse{Member: m.shown()}, nil
}

var errLastOwner = fault.Conflict.Newf("An organisation needs an owner; make somebody else one first")

// UpdateMemberRole changes what a member may do.
func (s *Service) UpdateMemberRole(ctx context.Context, req *platformv1.UpdateMemberRoleRequest) (*platformv1.UpdateMemberRoleResponse, error) {
	r := req.GetRole().GetRole()
	if r != "owner" && r != "member" {
		return nil, fault.Invalid.Newf("role must be owner or member")
	}
	m, err := s.store.member(ctx, req.GetOrgId(), req.GetMemberId())
	if err != nil {
		return nil, fmt.Errorf("reading member %d: %w", req.GetMemberId(), err)
	}
	done, err := s.store.setMemberRole(ctx, m, r)
	if err != nil {
		return nil, fmt.Errorf("writing member %d: %w", m.id, err)
	}
	if !done {
		return nil, errLastOwner
	}
	s.deps.Rights.Notify(ctx, caller.Change{UserID: m.user.ID})
	return &platformv1.UpdateMemberRoleResponse{}, nil
}

// DeleteMember removes a member.
func (s *Service) DeleteMember(ctx context.Context, req *platformv1.DeleteMemberRequest) (*platformv1.DeleteMemberResponse, error) {
	m, err := s.store.member(ctx, req.GetOrgId(), req.GetMemberId())
	if err != nil {
		return nil, fmt.Errorf("reading member %d: %w", req.GetMemberId(), err)
	}
	return &platformv1.DeleteMemberResponse{}, s.removeMember(ctx, m)
}

func (s *Service) removeMember(ctx context.Context, m member) error {
	done, err := s.store.deleteMember(ctx, m)
	if err != nil {
		return fmt.Errorf("deleting member %d: %w", m.id, err)
	}
	if !done {
		return errLastOwner
	}
	s.deps.Rights.Notify(ctx, caller.Change{UserID: m.user.ID})
	return nil
}

// LeaveOrganization removes the caller.
func (s *Service) LeaveOrganization(ctx context.Context, req *platformv1.LeaveOrganizationRequest) (*platformv1.LeaveOrganizationResponse, error) {
	p := PrincipalFrom(ctx)
	return &platformv1.LeaveOrganizationResponse{}, s.removeMember(ctx, p.member)
}

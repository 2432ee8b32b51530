package orgs

import (
	"context"
	"errors"
	"fmt"

	platformv1 "slipway.dev/proto/gen/slipway/platform/v1"

	"slipway.dev/services/internal/caller"
	"slipway.dev/services/internal/fault"
	"slipway.dev/services/platform/api"
)

func (m member) toProto() *platformv1.Member {
	return &platformv1.Member{
		MemberId: float64(m.id), UserId: float64(m.user.ID), UserName: m.user.Name, Email: m.user.Email,
		FirstName: m.user.FirstName, LastName: m.user.LastName, Role: m.role, Invitation: m.invited.toProto(),
	}
}

// ListMembers returns a page of an organisation's members and invitations.
func (s *Service) ListMembers(ctx context.Context, req *platformv1.ListMembersRequest) (*platformv1.ListMembersResponse, error) {
	page, err := api.ReadPage(req)
	if err != nil {
		return nil, err
	}
	list, total, err := s.store.members(ctx, req.GetOrgId(), page, req.GetSearch(), s.deps.Now())
	if err != nil {
		return nil, fmt.Errorf("reading the members of %d: %w", req.GetOrgId(), err)
	}
	resp := &platformv1.ListMembersResponse{TotalSize: int32(total)}
	for _, m := range list {
		resp.Members = append(resp.Members, m.toProto())
	}
	return resp, nil
}

// AddMember adds a user to an organisation with the role member, or invites an e-mail address
// that no user has. It returns fault.Conflict if the user is a member, or the address is invited,
// already.
func (s *Service) AddMember(ctx context.Context, req *platformv1.AddMemberRequest) (*platformv1.AddMemberResponse, error) {
	u, address, err := s.deps.Users.UserOrAddress(ctx, req.GetMember().GetUser())
	if err != nil {
		return nil, err
	}
	if address != "" {
		m, err := s.inviteMember(ctx, invitation{orgID: req.GetOrgId(), email: address, role: orgRoleMember})
		return &platformv1.AddMemberResponse{Member: m.toProto()}, err
	}
	m := member{id: api.NewID(), orgID: req.GetOrgId(), role: orgRoleMember, user: u}
	if err := api.Members.CheckRows(ctx, s.deps.DB, `platform_members WHERE org_id = $1`, m.orgID); err != nil {
		return nil, err
	}
	created, err := s.store.insertMember(ctx, m, s.deps.Now())
	if err != nil {
		return nil, fmt.Errorf("writing a member of %d: %w", m.orgID, err)
	}
	if !created {
		return nil, fault.Conflict.Newf("%s is already a member", u.Name).WithCode(fault.ObjectTaken)
	}
	s.deps.Notifier.Notify(ctx, caller.Change{UserID: u.ID})
	return &platformv1.AddMemberResponse{Member: m.toProto()}, nil
}

// inviteMember returns the new invitation as a member, or the member if a user with the address was
// created at the same time.
func (s *Service) inviteMember(ctx context.Context, i invitation) (member, error) {
	i, u, err := s.invite(ctx, i)
	if err != nil || u.ID == 0 {
		return i.member(), err
	}
	m, err := s.store.memberOf(ctx, i.orgID, u.ID)
	if errors.Is(err, fault.NotFound) { // the invitation still waits
		return i.member(), nil
	}
	return m, err
}

var errLastOwner = fault.Conflict.Newf("An organisation needs an owner; make another member an owner first")

// UpdateMemberRole changes the role of a member or an invitation. It returns fault.Conflict if the
// organisation would have no owner left.
func (s *Service) UpdateMemberRole(ctx context.Context, req *platformv1.UpdateMemberRoleRequest) (*platformv1.UpdateMemberRoleResponse, error) {
	r := req.GetRole().GetRole()
	if r != orgRoleOwner && r != orgRoleMember {
		return nil, fault.Invalid.Newf("role must be owner or member")
	}
	m, i, err := s.memberOrInvitation(ctx, req.GetOrgId(), req.GetMemberId())
	if err != nil {
		return nil, err
	}
	if i.id != 0 {
		return &platformv1.UpdateMemberRoleResponse{}, s.changeRole(ctx, i, r)
	}
	done, err := s.store.setMemberRole(ctx, m, r, false)
	if err != nil {
		return nil, fmt.Errorf("writing member %d: %w", m.id, err)
	}
	if !done {
		return nil, errLastOwner
	}
	s.deps.Notifier.Notify(ctx, caller.Change{UserID: m.user.ID})
	return &platformv1.UpdateMemberRoleResponse{}, nil
}

// DeleteMember removes a member from an organisation and its workspaces, or revokes an
// invitation. It returns fault.Conflict for the last owner.
func (s *Service) DeleteMember(ctx context.Context, req *platformv1.DeleteMemberRequest) (*platformv1.DeleteMemberResponse, error) {
	m, i, err := s.memberOrInvitation(ctx, req.GetOrgId(), req.GetMemberId())
	if err != nil {
		return nil, err
	}
	if i.id != 0 {
		return &platformv1.DeleteMemberResponse{}, s.revoke(ctx, i)
	}
	return &platformv1.DeleteMemberResponse{}, s.removeMember(ctx, m)
}

// memberOrInvitation returns the member or the invitation to an organisation with an id, and the
// zero value of the other. It returns fault.NotFound if neither exists.
func (s *Service) memberOrInvitation(ctx context.Context, orgID, id int64) (member, invitation, error) {
	m, err := s.store.member(ctx, orgID, id)
	if err == nil {
		return m, invitation{}, nil
	}
	if errors.Is(err, fault.NotFound) {
		i, err2 := s.store.invitation(ctx, invitation{id: id, orgID: orgID}, s.deps.Now())
		if !errors.Is(err2, fault.NotFound) {
			return member{}, i, err2
		}
	}
	return member{}, invitation{}, fmt.Errorf("reading member %d: %w", id, err)
}

func (s *Service) removeMember(ctx context.Context, m member) error {
	done, err := s.store.deleteMember(ctx, m, s.deps.Now())
	if err != nil {
		return fmt.Errorf("deleting member %d: %w", m.id, err)
	}
	if !done {
		return errLastOwner
	}
	s.deps.Notifier.Notify(ctx, caller.Change{UserID: m.user.ID})
	return nil
}

// LeaveOrganization removes the caller from an organisation, as DeleteMember does.
func (s *Service) LeaveOrganization(ctx context.Context, req *platformv1.LeaveOrganizationRequest) (*platformv1.LeaveOrganizationResponse, error) {
	p := PrincipalFrom(ctx)
	return &platformv1.LeaveOrganizationResponse{}, s.removeMember(ctx, p.member)
}

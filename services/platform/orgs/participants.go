package orgs

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	platformv1 "slipway.dev/proto/gen/slipway/platform/v1"

	"slipway.dev/services/internal/caller"
	"slipway.dev/services/internal/fault"
	"slipway.dev/services/platform/api"
	"slipway.dev/services/platform/identity"
)

func (p participant) toProto() *platformv1.Participant {
	kind := "MEMBER"
	if p.memberID == 0 {
		kind = "COLLABORATOR"
	}
	return &platformv1.Participant{
		ParticipantId: float64(p.id), MemberId: api.IDValue(p.memberID), UserName: p.user.Name, FirstName: p.user.FirstName,
		LastName: p.user.LastName, Email: p.user.Email, OrgRole: api.StringValue(p.orgRole), WspRole: p.role, Type: kind,
		Invitation: p.invited.toProto(),
	}
}

// ListParticipants returns a page of a workspace's participants and invitations.
func (s *Service) ListParticipants(ctx context.Context, req *platformv1.ListParticipantsRequest) (*platformv1.ListParticipantsResponse, error) {
	page, err := api.ReadPage(req)
	if err != nil {
		return nil, err
	}
	list, total, err := s.store.participants(ctx, req.GetId(), page, req.GetSearch(), s.deps.Now())
	if err != nil {
		return nil, fmt.Errorf("reading the participants of %d: %w", req.GetId(), err)
	}
	resp := &platformv1.ListParticipantsResponse{TotalSize: int32(total)}
	for _, p := range list {
		resp.Participants = append(resp.Participants, p.toProto())
	}
	return resp, nil
}

// AddParticipant adds a member of the organisation, or any other user, to a workspace with
// the role launch, or invites an e-mail address that no user has. It returns fault.Conflict if the
// user is a participant, or the address is invited, already.
func (s *Service) AddParticipant(ctx context.Context, req *platformv1.AddParticipantRequest) (*platformv1.AddParticipantResponse, error) {
	m, err := s.candidate(ctx, req.GetOrgId(), req.GetParticipant())
	if err != nil {
		return nil, err
	}
	if m.user.ID == 0 {
		p, err := s.inviteParticipant(ctx, invitation{orgID: req.GetOrgId(), workspaceID: req.GetId(), email: m.user.Email, role: RoleLaunch.String()}, m)
		return &platformv1.AddParticipantResponse{Participant: p.toProto()}, err
	}
	p := participant{id: api.NewID(), workspaceID: req.GetId(), role: RoleLaunch.String(), user: m.user, memberID: m.id, orgRole: m.role}
	if err := api.Participants.CheckRows(ctx, s.deps.DB, `platform_participants WHERE workspace_id = $1`, p.workspaceID); err != nil {
		return nil, err
	}
	created, err := s.store.insertParticipant(ctx, p, s.deps.Now())
	if err != nil {
		return nil, fmt.Errorf("writing a participant of %d: %w", p.workspaceID, err)
	}
	if !created {
		return nil, fault.Conflict.Newf("%s is already a participant", p.user.Name).WithCode(fault.ObjectTaken)
	}
	s.deps.Notifier.Notify(ctx, caller.Change{UserID: p.user.ID})
	return &platformv1.AddParticipantResponse{Participant: p.toProto()}, nil
}

// inviteParticipant returns the new invitation as a participant, or the participant if a user with
// the address was created at the same time. m is as in invitation.participant.
func (s *Service) inviteParticipant(ctx context.Context, i invitation, m member) (participant, error) {
	i, u, err := s.invite(ctx, i)
	if err != nil || u.ID == 0 {
		return i.participant(m), err
	}
	p, err := s.store.participantOf(ctx, i.workspaceID, u.ID)
	if errors.Is(err, fault.NotFound) { // the invitation still waits
		return i.participant(m), nil
	}
	return p, err
}

// candidate returns the user that a request names, with the user's membership in the
// organisation if there is one. For an address to invite, the result has no user but this address.
func (s *Service) candidate(ctx context.Context, orgID int64, spec *platformv1.ParticipantSpec) (member, error) {
	if id := spec.GetMemberId(); id != 0 {
		m, i, err := s.memberOrInvitation(ctx, orgID, id)
		if errors.Is(err, fault.NotFound) {
			return member{}, fault.Invalid.Newf("No such member: %d", id)
		}
		if i.id != 0 {
			m = i.member()
		}
		return m, err
	}
	if spec.GetUserNameOrEmail() == "" {
		return member{}, fault.Invalid.Newf("memberId or userNameOrEmail must be set")
	}
	u, address, err := s.deps.Users.UserOrAddress(ctx, spec.GetUserNameOrEmail())
	if err != nil {
		return member{}, err
	}
	if address != "" {
		i, err := s.store.orgInvitation(ctx, orgID, address, s.deps.Now())
		if errors.Is(err, fault.NotFound) {
			return member{user: identity.User{Email: address}}, nil
		}
		return i.member(), err
	}
	m, err := s.store.memberOf(ctx, orgID, u.ID)
	if errors.Is(err, fault.NotFound) {
		return member{user: u}, nil
	}
	return m, err
}

// manageable returns a participant or an invitation, and the zero value of the other, if the caller
// may change it. It returns fault.Denied if its role is above the caller's.
func (s *Service) manageable(ctx context.Context, p Principal, id int64) (participant, invitation, error) {
	target, i, err := s.participantOrInvitation(ctx, p.Space, id)
	if err != nil {
		return participant{}, invitation{}, err
	}
	if r, err := parseRole(cmp.Or(target.role, i.role)); err != nil || r > p.Role {
		return participant{}, invitation{}, fault.Denied.New("Only an owner may change an owner", err)
	}
	return target, i, nil
}

// participantOrInvitation returns the participant or the invitation to a workspace with an id, and
// the zero value of the other. It returns fault.NotFound if neither exists.
func (s *Service) participantOrInvitation(ctx context.Context, at Space, id int64) (participant, invitation, error) {
	p, err := s.store.participant(ctx, at.ID(), id)
	if err == nil {
		return p, invitation{}, nil
	}
	if errors.Is(err, fault.NotFound) {
		i, err2 := s.store.invitation(ctx, invitation{id: id, orgID: at.Workspace.OrgID, workspaceID: at.ID()}, s.deps.Now())
		if !errors.Is(err2, fault.NotFound) {
			return participant{}, i, err2
		}
	}
	return participant{}, invitation{}, fmt.Errorf("reading participant %d: %w", id, err)
}

// UpdateParticipantRole changes the role of a participant or an invitation. Callers cannot grant a
// role above their own.
func (s *Service) UpdateParticipantRole(ctx context.Context, req *platformv1.UpdateParticipantRoleRequest) (*platformv1.UpdateParticipantRoleResponse, error) {
	p := PrincipalFrom(ctx)
	r, err := parseRole(req.GetRole().GetRole())
	if err != nil {
		return nil, err
	}
	if r > p.Role {
		return nil, fault.Denied.Newf("Only an owner may make another user an owner")
	}
	target, i, err := s.manageable(ctx, p, req.GetParticipantId())
	if err != nil {
		return nil, err
	}
	if i.id != 0 {
		return &platformv1.UpdateParticipantRoleResponse{}, s.changeRole(ctx, i, r.String())
	}
	if _, err := s.store.setParticipantRole(ctx, target, r.String(), false); err != nil {
		return nil, fmt.Errorf("writing participant %d: %w", target.id, err)
	}
	s.deps.Notifier.Notify(ctx, caller.Change{UserID: target.user.ID})
	return &platformv1.UpdateParticipantRoleResponse{}, nil
}

// DeleteParticipant removes a participant from a workspace, or revokes an invitation.
func (s *Service) DeleteParticipant(ctx context.Context, req *platformv1.DeleteParticipantRequest) (*platformv1.DeleteParticipantResponse, error) {
	p := PrincipalFrom(ctx)
	target, i, err := s.manageable(ctx, p, req.GetParticipantId())
	if err != nil {
		return nil, err
	}
	if i.id != 0 {
		return &platformv1.DeleteParticipantResponse{}, s.revoke(ctx, i)
	}
	return &platformv1.DeleteParticipantResponse{}, s.removeParticipant(ctx, target)
}

func (s *Service) removeParticipant(ctx context.Context, target participant) error {
	if _, err := s.store.deleteParticipant(ctx, target, s.deps.Now()); err != nil {
		return fmt.Errorf("deleting participant %d: %w", target.id, err)
	}
	s.deps.Notifier.Notify(ctx, caller.Change{UserID: target.user.ID})
	return nil
}

// LeaveWorkspace removes the caller from the participants of a workspace. It returns
// fault.NotFound if the caller has a role without being a participant, such as an owner of
// the organisation.
func (s *Service) LeaveWorkspace(ctx context.Context, req *platformv1.LeaveWorkspaceRequest) (*platformv1.LeaveWorkspaceResponse, error) {
	target, err := s.store.participantOf(ctx, req.GetId(), PrincipalFrom(ctx).User.ID)
	if errors.Is(err, fault.NotFound) {
		return nil, fault.NotFound.New("You are not a participant of this workspace: you have access through the organisation, or because the workspace is shared", err)
	}
	if err != nil {
		return nil, fmt.Errorf("reading a participant of %d: %w", req.GetId(), err)
	}
	return &platformv1.LeaveWorkspaceResponse{}, s.removeParticipant(ctx, target)
}

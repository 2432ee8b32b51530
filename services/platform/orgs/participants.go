package orgs

import (
	"context"
	"errors"
	"fmt"

	platformv1 "slipway.dev/proto/gen/slipway/platform/v1"

	"slipway.dev/services/internal/caller"
	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/limits"
	"slipway.dev/services/platform/api"
)

func (p participant) shown() *platformv1.Participant {
	kind := "MEMBER"
	if p.memberID == 0 {
		kind = "COLLABORATOR"
	}
	return &platformv1.Participant{
		ParticipantId: float64(p.id), MemberId: api.Number(p.memberID), UserName: p.user.Name, FirstName: p.user.FirstName,
		LastName: p.user.LastName, Email: p.user.Email, OrgRole: api.Text(p.orgRole), WspRole: p.role, Type: kind,
	}
}

// ListParticipants lists who works in a workspace.
func (s *Service) ListParticipants(ctx context.Context, req *platformv1.ListParticipantsRequest) (*platformv1.ListParticipantsResponse, error) {
	part, err := api.PageOf(req)
	if err != nil {
		return nil, err
	}
	list, total, err := s.store.participants(ctx, req.GetId(), part)
	if err != nil {
		return nil, fmt.Errorf("reading the participants of %d: %w", req.GetId(), err)
	}
	resp := &platformv1.ListParticipantsResponse{TotalSize: int32(total)}
	for _, p := range list {
		resp.Participants = append(resp.Participants, p.shown())
	}
	return resp, nil
}

// AddParticipant lets a member or another user in, to launch.
func (s *Service) AddParticipant(ctx context.Context, req *platformv1.AddParticipantRequest) (*platformv1.AddParticipantResponse, error) {
	m, err := s.candidate(ctx, req.GetOrgId(), req.GetParticipant())
	if err != nil {
		return nil, err
	}
	p := participant{id: api.NewID(), workspaceID: req.GetId(), role: RoleLaunch.String(), user: m.user, memberID: m.id, orgRole: m.role}
	if err := api.CheckRows(ctx, s.deps.DB, "participants of a workspace", limits.ParticipantsPerWorkspace, `platform_participants WHERE workspace_id = $1`, p.workspaceID); err != nil {
		return nil, err
	}
	made, err := s.store.insertParticipant(ctx, p, s.deps.Now())
	if err != nil {
		return nil, fmt.Errorf("writing a participant of %d: %w", p.workspaceID, err)
	}
	if !made {
		return nil, fault.Conflict.Newf("%s is a participant already", p.user.Name)
	}
	s.deps.Rights.Notify(ctx, caller.Change{UserID: p.user.ID})
	return &platformv1.AddParticipantResponse{Participant: p.shown()}, nil
}

// candidate finds whom a request names, with a membership if there is one.
func (s *Service) candidate(ctx context.Context, orgID int64, spec *platformv1.ParticipantSpec) (member, error) {
	if id := spec.GetMemberId(); id != 0 {
		m, err := s.store.member(ctx, orgID, id)
		if errors.Is(err, fault.NotFound) {
			return member{}, fault.Invalid.Newf("No such member: %d", id)
		}
		return m, err
	}
	if spec.GetUserNameOrEmail() == "" {
		return member{}, fault.Invalid.Newf("memberId or userNameOrEmail must be given")
	}
	u, err := s.deps.Users.UserByName(ctx, spec.GetUserNameOrEmail())
	if err != nil {
		return member{}, err
	}
	m, err := s.store.memberOf(ctx, orgID, u.ID)
	if errors.Is(err, fault.NotFound) {
		return member{user: u}, nil
	}
	return m, err
}

// reach finds a participant whom the caller may change: nobody raises anybody
// above themselves, or touches who stands higher.
func (s *Service) reach(ctx context.Context, p Principal, id int64) (participant, error) {
	target, err := s.store.participant(ctx, p.Space.ID(), id)
	if err != nil {
		return participant{}, fmt.Errorf("reading participant %d: %w", id, err)
	}
	if r, err := parseRole(target.role); err != nil || r > p.Role {
		return participant{}, fault.Denied.New("Only an owner may change an owner", err)
	}
	return target, nil
}

// UpdateParticipantRole changes what a participant may do.
func (s *Service) UpdateParticipantRole(ctx context.Context, req *platformv1.UpdateParticipantRoleRequest) (*platformv1.UpdateParticipantRoleResponse, error) {
	p := PrincipalFrom(ctx)
	r, err := parseRole(req.GetRole().GetRole())
	if err != nil {
		return nil, err
	}
	if r > p.Role {
		return nil, fault.Denied.Newf("Only an owner may make an owner")
	}
	target, err := s.reach(ctx, p, req.GetParticipantId())
	if err != nil {
		return nil, err
	}
	if _, err := s.store.setParticipantRole(ctx, target, r.String()); err != nil {
		return nil, fmt.Errorf("writing participant %d: %w", target.id, err)
	}
	s.deps.Rights.Notify(ctx, caller.Change{UserID: target.user.ID})
	return &platformv1.UpdateParticipantRoleResponse{}, nil
}

// DeleteParticipant removes a participant.
func (s *Service) DeleteParticipant(ctx context.Context, req *platformv1.DeleteParticipantRequest) (*platformv1.DeleteParticipantResponse, error) {
	p := PrincipalFrom(ctx)
	target, err := s.reach(ctx, p, req.GetParticipantId())
	if err != nil {
		return nil, err
	}
	if _, err := s.store.deleteParticipant(ctx, target); err != nil {
		return nil, fmt.Errorf("deleting participant %d: %w", target.id, err)
	}
	s.deps.Rights.Notify(ctx, caller.Change{UserID: target.user.ID})
	return &platformv1.DeleteParticipantResponse{}, nil
}

package account

import (
	"context"
	"fmt"
	"net/http"
	"strings"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/proto"

	platformv1 "slipway.dev/proto/gen/slipway/platform/v1"
	"slipway.dev/services/cmd/slipway/internal/output"
	"slipway.dev/services/cmd/slipway/internal/session"
	"slipway.dev/services/cmd/slipway/internal/usage"
)

// Member returns `slipway member`.
func Member(s *session.Settings) *cobra.Command {
	cmd := usage.Group("member", "List, add, invite and remove members of an organisation or a workspace")
	cmd.AddCommand(memberListCommand(s), memberAddCommand(s), memberRoleCommand(s), memberRemoveCommand(s))
	return cmd
}

// memberScope is an organisation or a workspace.
type memberScope struct {
	name        string
	path        string // of its own calls
	isWorkspace bool
}

// membersPath returns the path of the calls for members.
func (p memberScope) membersPath() string {
	if p.isWorkspace {
		return p.path + "/participants"
	}
	return p.path + "/members"
}

// parseMemberScope parses ORGANISATION or ORGANISATION/WORKSPACE.
func parseMemberScope(ctx context.Context, c *session.Client, name string) (memberScope, error) {
	org, workspace, isWorkspace := strings.Cut(name, "/")
	id, err := orgID(ctx, c, org)
	if err != nil || !isWorkspace {
		return memberScope{name: name, path: "/api/orgs/" + id}, err
	}
	var res platformv1.ListWorkspacesResponse
	_, err = c.Do(ctx, session.Call{Method: http.MethodGet, Path: "/api/orgs/" + id + "/workspaces", Query: listed(), Signed: true}, &res)
	if err != nil {
		return memberScope{}, fmt.Errorf("listing the workspaces of %s: %w", org, err)
	}
	ws, err := idOf(res.GetWorkspaces(), workspace, "workspace of "+org+" called", func(w *platformv1.Workspace) (string, string) { return output.Tallied(w.GetId()), w.GetName() })
	return memberScope{name: name, path: "/api/orgs/" + id + "/workspaces/" + ws, isWorkspace: true}, err
}

// person is a member of an organisation or a workspace, or an invitation with the address as its name.
type person struct {
	id, name, email, role string
	invitation            *platformv1.Invitation
}

func personOfMember(m *platformv1.Member) person {
	return person{output.Tallied(m.GetMemberId()), m.GetUserName(), m.GetEmail(), m.GetRole(), m.GetInvitation()}
}

func personOfParticipant(m *platformv1.Participant) person {
	return person{output.Tallied(m.GetParticipantId()), m.GetUserName(), m.GetEmail(), m.GetWspRole(), m.GetInvitation()}
}

// invitedUntil returns when the invitation expires, or "-" for users.
func (p person) invitedUntil() string {
	if p.invitation == nil {
		return "-"
	}
	return output.FormatTime(p.invitation.GetExpires())
}

// membersOf returns the members and invitations that a search finds; "" finds all.
func membersOf(ctx context.Context, c *session.Client, p memberScope, search string) (raw []byte, out []person, err error) {
	what := session.Call{Method: http.MethodGet, Path: p.membersPath(), Query: listed(), Signed: true}
	if search != "" {
		what.Query.Set("search", search)
	}
	if p.isWorkspace {
		var res platformv1.ListParticipantsResponse
		raw, err = c.Do(ctx, what, &res)
		for _, m := range res.GetParticipants() {
			out = append(out, personOfParticipant(m))
		}
	} else {
		var res platformv1.ListMembersResponse
		raw, err = c.Do(ctx, what, &res)
		for _, m := range res.GetMembers() {
			out = append(out, personOfMember(m))
		}
	}
	if err != nil {
		return nil, nil, fmt.Errorf("listing the members of %s: %w", p.name, err)
	}
	return raw, out, nil
}

// locate finds an organisation or a workspace and one of its members or invitations, by user name
// or e-mail address.
func locate(ctx context.Context, s *session.Settings, where, who string) (*session.Client, memberScope, person, error) {
	c, err := s.Client()
	if err != nil {
		return nil, memberScope{}, person{}, err
	}
	p, err := parseMemberScope(ctx, c, where)
	if err != nil || who == "" {
		return c, p, person{}, err
	}
	_, list, err := membersOf(ctx, c, p, who)
	if err != nil {
		return c, p, person{}, err
	}
	m, err := choose(list, where, who)
	return c, p, m, err
}

// choose returns the member with a name, or else the one with an e-mail address, or else the
// invitation of the address. It returns an error if several members have the address.
func choose(list []person, where, who string) (person, error) {
	var users, invitations []person
	for _, m := range list {
		switch {
		case m.invitation == nil && m.name == who:
			return m, nil
		case !strings.EqualFold(m.email, who):
		case m.invitation == nil:
			users = append(users, m)
		default:
			invitations = append(invitations, m)
		}
	}
	if len(users) > 1 {
		return person{}, fmt.Errorf("several members of %s have the address %q; name one of them by user name", where, who)
	}
	if found := append(users, invitations...); len(found) > 0 {
		return found[0], nil
	}
	return person{}, fmt.Errorf("there is no member of %s called %q", where, who)
}

func memberListCommand(s *session.Settings) *cobra.Command {
	cmd := &cobra.Command{
		Use: "list ORGANISATION[/WORKSPACE]", Short: "List the members, the invitations and their roles", Args: usage.Exactly(1), ValidArgsFunction: cobra.NoFileCompletions,
		Example: "  slipway member list lab\n  slipway member list lab/rnaseq",
	}
	format := output.Flag(cmd, &platformv1.ListMembersResponse{}, &platformv1.ListParticipantsResponse{})
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		c, p, _, err := locate(cmd.Context(), s, args[0], "")
		if err != nil {
			return err
		}
		raw, list, err := membersOf(cmd.Context(), c, p, "")
		if err != nil {
			return err
		}
		t := output.Table{{"USER", "EMAIL", "ROLE", "INVITED UNTIL"}}
		for _, m := range list {
			t = append(t, []string{m.name, m.email, m.role, m.invitedUntil()})
		}
		return format.List(cmd, raw, t, "No members.")
	}
	return cmd
}

const rolesHelp = `Roles in an organisation: owner, member. In a workspace: owner, admin, maintain,
launch, connect, view.`

const addHelp = `Add a user, by name or e-mail address.

If no user has the e-mail address, it is invited: the user who first signs in at the
server's sign-in provider with this address, verified, gets the role. An invitation
expires after 30 days. "slipway member list" shows it, and "slipway member remove"
revokes it.

`

func memberAddCommand(s *session.Settings) *cobra.Command {
	var role string
	cmd := &cobra.Command{
		Use: "add ORGANISATION[/WORKSPACE] USER", Short: "Add a user, or invite an e-mail address", Long: addHelp + rolesHelp,
		Args: usage.Exactly(2), ValidArgsFunction: cobra.NoFileCompletions,
		Example: "  slipway member add lab ada\n  slipway member add lab/rnaseq ada --role launch\n  slipway member add lab new@example.org",
	}
	cmd.Flags().StringVar(&role, "role", "", "The role (default: the server's: member, or launch).")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		c, p, _, err := locate(cmd.Context(), s, args[0], "")
		if err != nil {
			return err
		}
		var body proto.Message = &platformv1.MemberSpec{User: args[1]}
		if p.isWorkspace {
			body = &platformv1.ParticipantSpec{UserNameOrEmail: args[1]}
		}
		added, err := addMember(cmd.Context(), c, p, body)
		if err != nil {
			return fmt.Errorf("adding %s to %s: %w", args[1], args[0], err)
		}
		if role != "" {
			return setRole(cmd, c, p, added, args[1], role)
		}
		if added.invitation != nil {
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "Invited %s to %s. The invitation waits for the first sign-in with this address until %s.\n",
				output.Printable(added.email), output.Printable(args[0]), added.invitedUntil())
			return err
		}
		_, err = fmt.Fprintf(cmd.OutOrStdout(), "Added %s to %s.\n", output.Printable(args[1]), output.Printable(args[0]))
		return err
	}
	return cmd
}

// addMember adds a user or invites an address, and returns the new member or invitation.
func addMember(ctx context.Context, c *session.Client, p memberScope, body proto.Message) (person, error) {
	what := session.Call{Method: http.MethodPut, Path: p.membersPath() + "/add", Signed: true, Body: body}
	if p.isWorkspace {
		var res platformv1.AddParticipantResponse
		_, err := c.Do(ctx, what, &res)
		return personOfParticipant(res.GetParticipant()), err
	}
	var res platformv1.AddMemberResponse
	_, err := c.Do(ctx, what, &res)
	return personOfMember(res.GetMember()), err
}

func memberRoleCommand(s *session.Settings) *cobra.Command {
	return &cobra.Command{
		Use: "role ORGANISATION[/WORKSPACE] USER ROLE", Short: "Give a member another role", Long: "Give a member another role.\n\n" + rolesHelp,
		Args: usage.Exactly(3), ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, args []string) error {
			c, p, m, err := locate(cmd.Context(), s, args[0], args[1])
			if err != nil {
				return err
			}
			return setRole(cmd, c, p, m, args[1], args[2])
		},
	}
}

// setRole sets the role of a member or an invitation. who is the name that the user typed.
func setRole(cmd *cobra.Command, c *session.Client, p memberScope, m person, who, role string) error {
	where := p.name
	// Both kinds of places have the same request.
	what := session.Call{Method: http.MethodPut, Path: p.membersPath() + "/" + m.id + "/role", Signed: true, Body: &platformv1.RoleSpec{Role: role}}
	if _, err := c.Do(cmd.Context(), what, nil); err != nil {
		return fmt.Errorf("making %s %s of %s: %w", who, role, where, err)
	}
	if m.invitation != nil {
		_, err := fmt.Fprintf(cmd.OutOrStdout(), "%s is invited as %s of %s until %s.\n", output.Printable(m.email), output.Printable(role), output.Printable(where), m.invitedUntil())
		return err
	}
	_, err := fmt.Fprintf(cmd.OutOrStdout(), "%s is %s of %s now.\n", output.Printable(who), output.Printable(role), output.Printable(where))
	return err
}

func memberRemoveCommand(s *session.Settings) *cobra.Command {
	return &cobra.Command{
		Use: "remove ORGANISATION[/WORKSPACE] USER", Short: "Remove a member or an invitation; from an organisation, also from its workspaces",
		Args: usage.Exactly(2), ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, args []string) error {
			c, p, m, err := locate(cmd.Context(), s, args[0], args[1])
			if err != nil {
				return err
			}
			if _, err := c.Do(cmd.Context(), session.Call{Method: http.MethodDelete, Path: p.membersPath() + "/" + m.id, Signed: true}, nil); err != nil {
				return fmt.Errorf("removing %s from %s: %w", args[1], args[0], err)
			}
			if m.invitation != nil {
				_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s is no longer invited to %s.\n", output.Printable(m.email), output.Printable(args[0]))
				return err
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s is no longer a member of %s.\n", output.Printable(args[1]), output.Printable(args[0]))
			return err
		},
	}
}

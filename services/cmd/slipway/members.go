package main

import (
	"context"
	"fmt"
	"net/http"
	"strings"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/proto"

	platformv1 "slipway.dev/proto/gen/slipway/platform/v1"
)

func memberCommand(s *settings) *cobra.Command {
	cmd := group("member", "Show, add and remove who belongs to an organisation or a workspace")
	cmd.AddCommand(memberListCommand(s), memberAddCommand(s), memberRoleCommand(s), memberRemoveCommand(s))
	return cmd
}

// place is where people belong: an organisation, or a workspace.
type place struct {
	name        string
	path        string // of its own calls
	isWorkspace bool
}

// people is the path of the calls about them.
func (p place) people() string {
	if p.isWorkspace {
		return p.path + "/participants"
	}
	return p.path + "/members"
}

// placeOf reads ORGANISATION or ORGANISATION/WORKSPACE.
func (c *client) placeOf(ctx context.Context, name string) (place, error) {
	org, workspace, isWorkspace := strings.Cut(name, "/")
	id, err := c.orgID(ctx, org)
	if err != nil || !isWorkspace {
		return place{name: name, path: "/api/orgs/" + id}, err
	}
	var res platformv1.ListWorkspacesResponse
	_, err = c.do(ctx, call{method: http.MethodGet, path: "/api/orgs/" + id + "/workspaces", query: listed(), signed: true}, &res)
	if err != nil {
		return place{}, fmt.Errorf("listing the workspaces of %s: %w", org, err)
	}
	ws, err := idOf(res.GetWorkspaces(), workspace, "workspace of "+org+" called", func(w *platformv1.Workspace) (string, string) { return tallied(w.GetId()), w.GetName() })
	return place{name: name, path: "/api/orgs/" + id + "/workspaces/" + ws, isWorkspace: true}, err
}

// person is somebody who belongs to a place.
type person struct{ id, name, email, role string }

func (c *client) peopleOf(ctx context.Context, p place) (raw []byte, out []person, err error) {
	what := call{method: http.MethodGet, path: p.people(), query: listed(), signed: true}
	if p.isWorkspace {
		var res platformv1.ListParticipantsResponse
		raw, err = c.do(ctx, what, &res)
		for _, m := range res.GetParticipants() {
			out = append(out, person{tallied(m.GetParticipantId()), m.GetUserName(), m.GetEmail(), m.GetWspRole()})
		}
	} else {
		var res platformv1.ListMembersResponse
		raw, err = c.do(ctx, what, &res)
		for _, m := range res.GetMembers() {
			out = append(out, person{tallied(m.GetMemberId()), m.GetUserName(), m.GetEmail(), m.GetRole()})
		}
	}
	if err != nil {
		return nil, nil, fmt.Errorf("listing who belongs to %s: %w", p.name, err)
	}
	return raw, out, nil
}

// at finds a place, and somebody there by user name or e-mail address.
func (s *settings) at(ctx context.Context, where, who string) (*client, place, string, error) {
	c, err := s.client()
	if err != nil {
		return nil, place{}, "", err
	}
	p, err := c.placeOf(ctx, where)
	if err != nil || who == "" {
		return c, p, "", err
	}
	_, list, err := c.peopleOf(ctx, p)
	if err != nil {
		return c, p, "", err
	}
	id, err := idOf(list, who, "member of "+where+" called", func(m person) (string, string) {
		if strings.EqualFold(m.email, who) {
			return m.id, who
		}
		return m.id, m.name
	})
	return c, p, id, err
}

func memberListCommand(s *settings) *cobra.Command {
	cmd := &cobra.Command{
		Use: "list ORGANISATION[/WORKSPACE]", Short: "Show who belongs to it, and as what", Args: exactly(1), ValidArgsFunction: cobra.NoFileCompletions,
		Example: "  slipway member list lab\n  slipway member list lab/rnaseq",
	}
	output := outputFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		c, p, _, err := s.at(cmd.Context(), args[0], "")
		if err != nil {
			return err
		}
		raw, list, err := c.peopleOf(cmd.Context(), p)
		if err != nil {
			return err
		}
		t := table{{"USER", "EMAIL", "ROLE"}}
		for _, m := range list {
			t = append(t, []string{m.name, m.email, m.role})
		}
		return output.list(cmd, raw, t, "No members.")
	}
	return cmd
}

const rolesHelp = `Roles in an organisation: owner, member. In a workspace: owner, admin, maintain,
launch, connect, view.`

func memberAddCommand(s *settings) *cobra.Command {
	var role string
	cmd := &cobra.Command{
		Use: "add ORGANISATION[/WORKSPACE] USER", Short: "Add a user, by name or e-mail address", Long: "Add a user, by name or e-mail address.\n\n" + rolesHelp,
		Args: exactly(2), ValidArgsFunction: cobra.NoFileCompletions, Example: "  slipway member add lab ada\n  slipway member add lab/rnaseq ada --role launch",
	}
	cmd.Flags().StringVar(&role, "role", "", "As what (default: what the server gives: member, or launch).")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		c, p, _, err := s.at(cmd.Context(), args[0], "")
		if err != nil {
			return err
		}
		var body proto.Message = &platformv1.MemberSpec{User: args[1]}
		if p.isWorkspace {
			body = &platformv1.ParticipantSpec{UserNameOrEmail: args[1]}
		}
		if _, err := c.do(cmd.Context(), call{method: http.MethodPut, path: p.people() + "/add", signed: true, body: body}, nil); err != nil {
			return fmt.Errorf("adding %s to %s: %w", args[1], args[0], err)
		}
		if role != "" {
			return s.setRole(cmd, args[0], args[1], role)
		}
		_, err = fmt.Fprintf(cmd.OutOrStdout(), "Added %s to %s.\n", printable(args[1]), printable(args[0]))
		return err
	}
	return cmd
}

func memberRoleCommand(s *settings) *cobra.Command {
	return &cobra.Command{
		Use: "role ORGANISATION[/WORKSPACE] USER ROLE", Short: "Give a member another role", Long: "Give a member another role.\n\n" + rolesHelp,
		Args: exactly(3), ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, args []string) error { return s.setRole(cmd, args[0], args[1], args[2]) },
	}
}

func (s *settings) setRole(cmd *cobra.Command, where, who, role string) error {
	c, p, id, err := s.at(cmd.Context(), where, who)
	if err != nil {
		return err
	}
	// Both kinds of places take the same words.
	what := call{method: http.MethodPut, path: p.people() + "/" + id + "/role", signed: true, body: &platformv1.RoleSpec{Role: role}}
	if _, err := c.do(cmd.Context(), what, nil); err != nil {
		return fmt.Errorf("making %s %s of %s: %w", who, role, where, err)
	}
	_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s is %s of %s now.\n", printable(who), printable(role), printable(where))
	return err
}

func memberRemoveCommand(s *settings) *cobra.Command {
	return &cobra.Command{
		Use: "remove ORGANISATION[/WORKSPACE] USER", Short: "Take somebody out; out of an organisation, out of its workspaces too",
		Args: exactly(2), ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, args []string) error {
			c, p, id, err := s.at(cmd.Context(), args[0], args[1])
			if err != nil {
				return err
			}
			if _, err := c.do(cmd.Context(), call{method: http.MethodDelete, path: p.people() + "/" + id, signed: true}, nil); err != nil {
				return fmt.Errorf("taking %s out of %s: %w", args[1], args[0], err)
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s is no member of %s any more.\n", printable(args[1]), printable(args[0]))
			return err
		},
	}
}

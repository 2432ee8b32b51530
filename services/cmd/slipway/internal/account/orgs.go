package account

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/proto"

	platformv1 "slipway.dev/proto/gen/slipway/platform/v1"
	"slipway.dev/services/cmd/slipway/internal/output"
	"slipway.dev/services/cmd/slipway/internal/session"
	"slipway.dev/services/cmd/slipway/internal/usage"
)

// Org returns `slipway org`.
func Org(s *session.Settings) *cobra.Command {
	cmd := usage.Group("org", "List, create and delete organisations, which workspaces belong to")
	cmd.AddCommand(orgListCommand(s), orgCreateCommand(s), orgDeleteCommand(s))
	return cmd
}

// Workspace returns `slipway workspace`.
func Workspace(s *session.Settings) *cobra.Command {
	cmd := usage.Group("workspace", "List, create and delete workspaces, in which users share credentials and runs")
	list := Workspaces(s)
	list.Use = "list"
	cmd.AddCommand(list, workspaceCreateCommand(s), workspaceDeleteCommand(s))
	return cmd
}

// mostListed is the maximum number of entries that are requested for a list.
const mostListed = "1000"

func listed() url.Values { return url.Values{"max": {mostListed}} }

func orgs(ctx context.Context, c *session.Client) ([]byte, []*platformv1.Organization, error) {
	var res platformv1.ListOrganizationsResponse
	raw, err := c.Do(ctx, session.Call{Method: http.MethodGet, Path: "/api/orgs", Query: listed(), Signed: true}, &res)
	if err != nil {
		return nil, nil, fmt.Errorf("listing the organisations: %w", err)
	}
	return raw, res.GetOrganizations(), nil
}

// orgID finds an organisation by id or name.
func orgID(ctx context.Context, c *session.Client, name string) (string, error) {
	_, list, err := orgs(ctx, c)
	if err != nil {
		return "", err
	}
	return idOf(list, name, "organisation of yours called", func(o *platformv1.Organization) (string, string) { return output.Tallied(o.GetOrgId()), o.GetName() })
}

func orgListCommand(s *session.Settings) *cobra.Command {
	cmd := &cobra.Command{Use: "list", Short: "List your organisations", Args: usage.Exactly(0), ValidArgsFunction: cobra.NoFileCompletions}
	format := output.Flag(cmd, &platformv1.ListOrganizationsResponse{})
	cmd.RunE = s.WithClient(func(cmd *cobra.Command, c *session.Client, _ []string) error {
		raw, list, err := orgs(cmd.Context(), c)
		if err != nil {
			return err
		}
		t := output.Table{{"ID", "NAME", "FULL NAME", "YOUR ROLE"}}
		for _, o := range list {
			t = append(t, []string{output.Tallied(o.GetOrgId()), o.GetName(), o.GetFullName(), o.GetMemberRole().GetValue()})
		}
		return format.List(cmd, raw, t, "No organisations yet. `slipway org create NAME` creates one.")
	})
	return cmd
}

func orgCreateCommand(s *session.Settings) *cobra.Command {
	var full, about string
	cmd := &cobra.Command{
		Use: "create NAME", Short: "Create an organisation, as its owner", Args: usage.Exactly(1), ValidArgsFunction: cobra.NoFileCompletions,
		Example: "  slipway org create lab --full-name 'The laboratory'\n  slipway workspace create lab/rnaseq",
	}
	cmd.Flags().StringVar(&full, "full-name", "", "Its full name (default: the name).")
	cmd.Flags().StringVar(&about, "description", "", "A description.")
	format := output.Flag(cmd, &platformv1.CreateOrganizationResponse{})
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if full == "" {
			full = args[0]
		}
		body := &platformv1.CreateOrganizationBody{Organization: &platformv1.OrganizationSpec{Name: &args[0], FullName: &full, Description: &about}}
		var res platformv1.CreateOrganizationResponse
		raw, err := s.Do(cmd.Context(), session.Call{Method: http.MethodPost, Path: "/api/orgs", Signed: true, Body: body}, &res)
		if err != nil {
			return fmt.Errorf("creating the organisation %s: %w", args[0], err)
		}
		return format.Print(cmd.OutOrStdout(), raw, output.Table{{"Created the organisation", res.GetOrganization().GetName()}})
	}
	return cmd
}

func orgDeleteCommand(s *session.Settings) *cobra.Command {
	return &cobra.Command{
		Use: "delete NAME|ID", Short: "Delete an organisation that has no workspaces any more", Args: usage.Exactly(1), ValidArgsFunction: cobra.NoFileCompletions,
		RunE: s.WithClient(func(cmd *cobra.Command, c *session.Client, args []string) error {
			id, err := orgID(cmd.Context(), c, args[0])
			if err != nil {
				return err
			}
			return c.Remove(cmd, session.Call{Path: "/api/orgs/" + id}, "the organisation "+args[0])
		}),
	}
}

func workspaceCreateCommand(s *session.Settings) *cobra.Command {
	var full, about string
	var shared bool
	cmd := &cobra.Command{
		Use: "create ORGANISATION/NAME", Short: "Create a workspace", Args: usage.Exactly(1), ValidArgsFunction: cobra.NoFileCompletions,
		Example: "  slipway workspace create lab/rnaseq\n  slipway member add lab/rnaseq ada --role launch",
	}
	cmd.Flags().StringVar(&full, "full-name", "", "Its full name (default: the name).")
	cmd.Flags().StringVar(&about, "description", "", "A description.")
	cmd.Flags().BoolVar(&shared, "shared", false, "Whether the whole organisation sees it.")
	format := output.Flag(cmd, &platformv1.CreateWorkspaceResponse{})
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		org, name, ok := strings.Cut(args[0], "/")
		if !ok || org == "" || name == "" {
			return usage.Errorf("a workspace is named ORGANISATION/NAME, not %q; `slipway org list` shows your organisations", args[0])
		}
		c, err := s.Client()
		if err != nil {
			return err
		}
		id, err := orgID(cmd.Context(), c, org)
		if err != nil {
			return err
		}
		if full == "" {
			full = name
		}
		spec := &platformv1.WorkspaceSpec{Name: &name, FullName: &full, Description: &about, Visibility: proto.String("PRIVATE")}
		if shared {
			spec.Visibility = proto.String("SHARED")
		}
		var res platformv1.CreateWorkspaceResponse
		what := session.Call{Method: http.MethodPost, Path: "/api/orgs/" + id + "/workspaces", Signed: true, Body: &platformv1.CreateWorkspaceBody{Workspace: spec}}
		raw, err := c.Do(cmd.Context(), what, &res)
		if err != nil {
			return fmt.Errorf("creating the workspace %s: %w", args[0], err)
		}
		return format.Print(cmd.OutOrStdout(), raw, output.Table{{"Created the workspace", args[0], "with the id " + output.Tallied(res.GetWorkspace().GetId())}})
	}
	return cmd
}

func workspaceDeleteCommand(s *session.Settings) *cobra.Command {
	return &cobra.Command{
		Use: "delete ORGANISATION/NAME", Short: "Delete a workspace, with its credentials and runs", Args: usage.Exactly(1), ValidArgsFunction: cobra.NoFileCompletions,
		RunE: s.WithClient(func(cmd *cobra.Command, c *session.Client, args []string) error {
			at, err := parseMemberScope(cmd.Context(), c, args[0])
			if err != nil {
				return err
			}
			if !at.isWorkspace {
				return usage.Errorf("a workspace is named ORGANISATION/NAME, not %q", args[0])
			}
			return c.Remove(cmd, session.Call{Path: at.path}, "the workspace "+args[0])
		}),
	}
}

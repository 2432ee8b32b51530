package main

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/proto"

	platformv1 "slipway.dev/proto/gen/slipway/platform/v1"
)

func orgCommand(s *settings) *cobra.Command {
	cmd := group("org", "Show, make and delete organisations, which workspaces belong to")
	cmd.AddCommand(orgListCommand(s), orgCreateCommand(s), orgDeleteCommand(s))
	return cmd
}

func workspaceCommand(s *settings) *cobra.Command {
	cmd := group("workspace", "Show, make and delete workspaces, in which people share credentials and runs")
	list := workspacesCommand(s)
	list.Use = "list"
	cmd.AddCommand(list, workspaceCreateCommand(s), workspaceDeleteCommand(s))
	return cmd
}

// mostListed is how many entries a list asks for.
const mostListed = "1000"

func listed() url.Values { return url.Values{"max": {mostListed}} }

func (c *client) orgs(ctx context.Context) ([]byte, []*platformv1.Organization, error) {
	var res platformv1.ListOrganizationsResponse
	raw, err := c.do(ctx, call{method: http.MethodGet, path: "/api/orgs", query: listed(), signed: true}, &res)
	if err != nil {
		return nil, nil, fmt.Errorf("listing the organisations: %w", err)
	}
	return raw, res.GetOrganizations(), nil
}

// orgID finds an organisation by its id, or its name.
func (c *client) orgID(ctx context.Context, name string) (string, error) {
	_, list, err := c.orgs(ctx)
	if err != nil {
		return "", err
	}
	return idOf(list, name, "organisation of yours called", func(o *platformv1.Organization) (string, string) { return tallied(o.GetOrgId()), o.GetName() })
}

func orgListCommand(s *settings) *cobra.Command {
	cmd := &cobra.Command{Use: "list", Short: "Show your organisations", Args: exactly(0), ValidArgsFunction: cobra.NoFileCompletions}
	output := outputFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		c, err := s.client()
		if err != nil {
			return err
		}
		raw, list, err := c.orgs(cmd.Context())
		if err != nil {
			return err
		}
		t := table{{"ID", "NAME", "FULL NAME", "YOUR ROLE"}}
		for _, o := range list {
			t = append(t, []string{tallied(o.GetOrgId()), o.GetName(), o.GetFullName(), o.GetMemberRole().GetValue()})
		}
		return output.list(cmd, raw, t, "No organisations yet. `slipway org create NAME` makes one.")
	}
	return cmd
}

func orgCreateCommand(s *settings) *cobra.Command {
	var full, about string
	cmd := &cobra.Command{
		Use: "create NAME", Short: "Make an organisation, as its owner", Args: exactly(1), ValidArgsFunction: cobra.NoFileCompletions,
		Example: "  slipway org create lab --full-name 'The laboratory'\n  slipway workspace create lab/rnaseq",
	}
	cmd.Flags().StringVar(&full, "full-name", "", "Its full name (default: the name).")
	cmd.Flags().StringVar(&about, "description", "", "What it is.")
	output := outputFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if full == "" {
			full = args[0]
		}
		body := &platformv1.CreateOrganizationBody{Organization: &platformv1.OrganizationSpec{Name: &args[0], FullName: &full, Description: &about}}
		var res platformv1.CreateOrganizationResponse
		raw, err := s.do(cmd.Context(), call{method: http.MethodPost, path: "/api/orgs", signed: true, body: body}, &res)
		if err != nil {
			return fmt.Errorf("making the organisation %s: %w", args[0], err)
		}
		return output.print(cmd.OutOrStdout(), raw, table{{"Made the organisation", res.GetOrganization().GetName()}})
	}
	return cmd
}

func orgDeleteCommand(s *settings) *cobra.Command {
	return &cobra.Command{
		Use: "delete NAME|ID", Short: "Delete an organisation that has no workspaces any more", Args: exactly(1), ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := s.client()
			if err != nil {
				return err
			}
			id, err := c.orgID(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			return c.remove(cmd, call{path: "/api/orgs/" + id}, "the organisation "+args[0])
		},
	}
}

func workspaceCreateCommand(s *settings) *cobra.Command {
	var full, about string
	var shared bool
	cmd := &cobra.Command{
		Use: "create ORGANISATION/NAME", Short: "Make a workspace", Args: exactly(1), ValidArgsFunction: cobra.NoFileCompletions,
		Example: "  slipway workspace create lab/rnaseq\n  slipway member add lab/rnaseq ada --role launch",
	}
	cmd.Flags().StringVar(&full, "full-name", "", "Its full name (default: the name).")
	cmd.Flags().StringVar(&about, "description", "", "What it is.")
	cmd.Flags().BoolVar(&shared, "shared", false, "Whether the whole organisation sees it.")
	output := outputFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		org, name, ok := strings.Cut(args[0], "/")
		if !ok || org == "" || name == "" {
			return usagef("a workspace is named ORGANISATION/NAME, not %q; `slipway org list` shows your organisations", args[0])
		}
		c, err := s.client()
		if err != nil {
			return err
		}
		id, err := c.orgID(cmd.Context(), org)
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
		what := call{method: http.MethodPost, path: "/api/orgs/" + id + "/workspaces", signed: true, body: &platformv1.CreateWorkspaceBody{Workspace: spec}}
		raw, err := c.do(cmd.Context(), what, &res)
		if err != nil {
			return fmt.Errorf("making the workspace %s: %w", args[0], err)
		}
		return output.print(cmd.OutOrStdout(), raw, table{{"Made the workspace", args[0], "with the id " + tallied(res.GetWorkspace().GetId())}})
	}
	return cmd
}

func workspaceDeleteCommand(s *settings) *cobra.Command {
	return &cobra.Command{
		Use: "delete ORGANISATION/NAME", Short: "Delete a workspace, with its credentials and runs", Args: exactly(1), ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := s.client()
			if err != nil {
				return err
			}
			at, err := c.placeOf(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			if !at.isWorkspace {
				return usagef("a workspace is named ORGANISATION/NAME, not %q", args[0])
			}
			return c.remove(cmd, call{path: at.path}, "the workspace "+args[0])
		},
	}
}

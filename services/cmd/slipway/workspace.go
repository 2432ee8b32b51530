package main

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	platformv1 "slipway.dev/proto/gen/slipway/platform/v1"
)

// workspaceFlag adds --workspace: an id, or "organisation/workspace".
func workspaceFlag(cmd *cobra.Command, s *settings, what string) *string {
	name := cmd.Flags().String("workspace", s.workspace, "The `workspace` "+what+": its id, or ORGANISATION/NAME (environment: SLIPWAY_WORKSPACE; default: your own).")
	cmd.Flags().Lookup("workspace").DefValue = ""
	registerFlag(cmd, "workspace", s.offers(func(ctx context.Context, c *client) ([]cobra.Completion, error) {
		_, list, err := c.workspaces(ctx)
		var out []cobra.Completion
		for _, w := range list {
			if w.GetWorkspaceId() != nil {
				out = append(out, offer(fullWorkspace(w), tallied(w.GetWorkspaceId().GetValue())))
			}
		}
		return out, err
	}))
	return name
}

// workspace returns the id of a workspace; 0 is the caller's own.
func (c *client) workspace(ctx context.Context, name string) (int64, error) {
	if name == "" {
		return 0, nil
	}
	if id, err := strconv.ParseInt(name, 10, 64); err == nil && id >= 0 {
		return id, nil
	}
	if org, rest, ok := strings.Cut(name, "/"); !ok || org == "" || rest == "" {
		return 0, usagef("the workspace must be an id or ORGANISATION/NAME, not %q; `slipway workspaces` shows yours", name)
	}
	_, list, err := c.workspaces(ctx)
	if err != nil {
		return 0, fmt.Errorf("looking for the workspace %s: %w", name, err)
	}
	for _, w := range list {
		if w.GetWorkspaceId() != nil && strings.EqualFold(fullWorkspace(w), name) {
			return int64(w.GetWorkspaceId().GetValue()), nil
		}
	}
	return 0, fmt.Errorf("you have no workspace %s; `slipway workspaces` shows yours", name)
}

// inWorkspace is the query of calls in a workspace.
func (c *client) inWorkspace(ctx context.Context, name string) (url.Values, error) {
	id, err := c.workspace(ctx, name)
	query := url.Values{}
	if id != 0 {
		query.Set("workspaceId", strconv.FormatInt(id, 10))
	}
	return query, err
}

// workspaces lists the caller's organisations and workspaces.
func (c *client) workspaces(ctx context.Context) ([]byte, []*platformv1.UserWorkspace, error) {
	user, err := c.whoAmI(ctx)
	if err != nil {
		return nil, nil, err
	}
	var res platformv1.ListUserWorkspacesResponse
	raw, err := c.do(ctx, call{method: http.MethodGet, path: "/api/user/" + tallied(user.GetId()) + "/workspaces", signed: true}, &res)
	return raw, res.GetOrgsAndWorkspaces(), err
}

func fullWorkspace(w *platformv1.UserWorkspace) string {
	return w.GetOrgName() + "/" + w.GetWorkspaceName().GetValue()
}

// within returns a client, and the query of calls in a workspace.
func (s *settings) within(ctx context.Context, workspace string) (*client, url.Values, error) {
	c, err := s.client()
	if err != nil {
		return nil, nil, err
	}
	query, err := c.inWorkspace(ctx, workspace)
	return c, query, err
}

// whoAmI asks whose token it is.
func (c *client) whoAmI(ctx context.Context) (*platformv1.User, error) {
	var res platformv1.GetUserInfoResponse
	if _, err := c.do(ctx, call{method: http.MethodGet, path: "/api/user-info", signed: true}, &res); err != nil {
		return nil, err
	}
	if res.GetUser().GetUserName() == "" {
		return nil, fmt.Errorf("%s does not say who you are; check --server", c.base.Redacted())
	}
	return res.GetUser(), nil
}

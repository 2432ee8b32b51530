package session

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	platformv1 "slipway.dev/proto/gen/slipway/platform/v1"
	"slipway.dev/services/cmd/slipway/internal/output"
	"slipway.dev/services/cmd/slipway/internal/usage"
)

// WorkspaceFlag adds --workspace: an id, or "organisation/workspace".
func WorkspaceFlag(cmd *cobra.Command, s *Settings, what string) *string {
	name := cmd.Flags().String("workspace", s.workspace, "The `workspace` "+what+": its id, or ORGANISATION/NAME (environment: SLIPWAY_WORKSPACE; default: your own).")
	cmd.Flags().Lookup("workspace").DefValue = ""
	CompleteWorkspaces(cmd, s)
	return name
}

// CompleteWorkspaces completes --workspace with the caller's workspaces.
func CompleteWorkspaces(cmd *cobra.Command, s *Settings) {
	usage.CompleteFlagFrom(cmd, "workspace", s.Completions(func(ctx context.Context, c *Client) ([]cobra.Completion, error) {
		_, list, err := c.Workspaces(ctx)
		var out []cobra.Completion
		for _, w := range list {
			if w.GetWorkspaceId() != nil {
				out = append(out, CompleteFlag(FullWorkspace(w), output.Tallied(w.GetWorkspaceId().GetValue())))
			}
		}
		return out, err
	}))
}

// Workspace returns the id of a workspace; 0 is the caller's own.
func (c *Client) Workspace(ctx context.Context, name string) (int64, error) {
	if name == "" {
		return 0, nil
	}
	if id, err := strconv.ParseInt(name, 10, 64); err == nil && id >= 0 {
		return id, nil
	}
	if org, rest, ok := strings.Cut(name, "/"); !ok || org == "" || rest == "" {
		return 0, usage.Errorf("the workspace must be an id or ORGANISATION/NAME, not %q; `slipway workspaces` shows yours", name)
	}
	_, list, err := c.Workspaces(ctx)
	if err != nil {
		return 0, fmt.Errorf("looking for the workspace %s: %w", name, err)
	}
	for _, w := range list {
		if w.GetWorkspaceId() != nil && strings.EqualFold(FullWorkspace(w), name) {
			return int64(w.GetWorkspaceId().GetValue()), nil
		}
	}
	return 0, fmt.Errorf("you have no workspace %s; `slipway workspaces` shows yours", name)
}

// InWorkspace returns the query of calls in a workspace.
func (c *Client) InWorkspace(ctx context.Context, name string) (url.Values, error) {
	id, err := c.Workspace(ctx, name)
	query := url.Values{}
	if id != 0 {
		query.Set("workspaceId", strconv.FormatInt(id, 10))
	}
	return query, err
}

// Workspaces lists the caller's organisations and workspaces.
func (c *Client) Workspaces(ctx context.Context) ([]byte, []*platformv1.UserWorkspace, error) {
	user, err := c.whoAmI(ctx)
	if err != nil {
		return nil, nil, err
	}
	var res platformv1.ListUserWorkspacesResponse
	raw, err := c.Do(ctx, Call{Method: http.MethodGet, Path: "/api/user/" + output.Tallied(user.GetId()) + "/workspaces", Signed: true}, &res)
	return raw, res.GetOrgsAndWorkspaces(), err
}

// FullWorkspace returns ORGANISATION/WORKSPACE.
func FullWorkspace(w *platformv1.UserWorkspace) string {
	return w.GetOrgName() + "/" + w.GetWorkspaceName().GetValue()
}

// Within returns a client, and the query of calls in a workspace.
func (s *Settings) Within(ctx context.Context, workspace string) (*Client, url.Values, error) {
	c, err := s.Client()
	if err != nil {
		return nil, nil, err
	}
	query, err := c.InWorkspace(ctx, workspace)
	return c, query, err
}

// whoAmI returns the owner of the token.
func (c *Client) whoAmI(ctx context.Context) (*platformv1.User, error) {
	var res platformv1.GetUserInfoResponse
	if _, err := c.Do(ctx, Call{Method: http.MethodGet, Path: "/api/user-info", Signed: true}, &res); err != nil {
		return nil, err
	}
	if res.GetUser().GetUserName() == "" {
		return nil, fmt.Errorf("%s did not return your user; check --server", c.Base.Redacted())
	}
	return res.GetUser(), nil
}

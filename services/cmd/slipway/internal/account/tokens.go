package account

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/spf13/cobra"

	platformv1 "slipway.dev/proto/gen/slipway/platform/v1"
	"slipway.dev/services/cmd/slipway/internal/output"
	"slipway.dev/services/cmd/slipway/internal/session"
	"slipway.dev/services/cmd/slipway/internal/usage"
	"slipway.dev/services/internal/lifetime"
)

// Tokens returns `slipway tokens`.
func Tokens(s *session.Settings) *cobra.Command {
	cmd := usage.Group("tokens", "List, create and delete your access tokens")
	cmd.AddCommand(tokensListCommand(s), tokensCreateCommand(s), tokensDeleteCommand(s))
	return cmd
}

func tokens(ctx context.Context, c *session.Client) ([]byte, *platformv1.ListTokensResponse, error) {
	var res platformv1.ListTokensResponse
	raw, err := c.Do(ctx, session.Call{Method: http.MethodGet, Path: "/api/tokens", Signed: true}, &res)
	if err != nil {
		return nil, nil, fmt.Errorf("listing the tokens: %w", err)
	}
	return raw, &res, nil
}

func tokensListCommand(s *session.Settings) *cobra.Command {
	cmd := &cobra.Command{
		Use:               "list",
		Short:             "List your access tokens, and the programs that are signed in with them",
		Example:           "  slipway tokens list\n  slipway tokens list -o json",
		Args:              usage.Exactly(0),
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	format := output.Flag(cmd, &platformv1.ListTokensResponse{})
	cmd.RunE = s.WithClient(func(cmd *cobra.Command, c *session.Client, _ []string) error {
		raw, list, err := tokens(cmd.Context(), c)
		if err != nil {
			return err
		}
		const all = "all"
		t := output.Table{{"ID", "NAME", "SCOPES", "WORKSPACE", "REPOSITORIES", "CREATED", "LAST USED", "FROM", "EXPIRES"}}
		for _, r := range list.GetTokens() {
			workspace := all
			if r.GetWorkspaceId() != nil {
				workspace = output.Tallied(r.GetWorkspaceId().GetValue())
			}
			t = append(t, []string{
				output.Tallied(r.GetId()), r.GetName(), cmp.Or(strings.Join(r.GetScopes(), ","), all), workspace, cmp.Or(strings.Join(r.GetRepositories(), ","), all),
				output.FormatTime(r.GetDateCreated()), output.MomentOrNever(r.GetLastUsed()), cmp.Or(r.GetLastAddress().GetValue(), "-"), output.MomentOrNever(r.GetExpires()),
			})
		}
		for _, r := range list.GetSessions() {
			t = append(t, []string{
				output.Tallied(r.GetId()), "session of " + r.GetClientId(), all, all, all,
				output.FormatTime(r.GetDateCreated()), output.MomentOrNever(r.GetLastUsed()), "-", output.MomentOrNever(r.GetExpires()),
			})
		}
		return format.List(cmd, raw, t, "No tokens yet. `slipway tokens create NAME` creates one.")
	})
	return cmd
}

func tokensCreateCommand(s *session.Settings) *cobra.Command {
	var scopes, repositories []string
	var workspace string
	cmd := &cobra.Command{
		Use:   "create NAME",
		Short: "Create an access token and print it, this once",
		Long: `Create an access token and print it, this once.

Only the token is printed. It gives access to everything that you can do, unless
--scope, --workspace and --repository restrict it. Such a token cannot sign in to
programs or to the web page.

Scopes: pull (get images that you requested, inspect), request (existing images,
Conda packages), build (images that are built), freeze (push with your logins), runs
(workflow runs), credentials:read, admin (everything else).

With --repository, requests may only name images of these repositories, and push to
these: REGISTRY/PATH, or REGISTRY/PATH/* for everything below a path. Images that the
server builds in its own repository remain usable. The token reads no credentials and
administers nothing.`,
		Example:           "  slipway tokens create laptop\n  slipway tokens create ci --expires-in 90d > token\n  slipway tokens create cluster --scope pull,request,build --workspace lab/rnaseq\n  slipway tokens create lab --repository 'ghcr.io/lab/*' --repository docker.io/library/debian",
		Args:              usage.Exactly(1),
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	expires := expiryFlag(cmd)
	cmd.Flags().StringSliceVar(&scopes, "scope", nil, "What the token may be used for; can be repeated (default: everything that you can do).")
	usage.CompleteFlag(cmd, "scope", append(scopeNames(), "admin")...)
	cmd.Flags().StringVar(&workspace, "workspace", "", "The only `workspace` in which the token works: its id, or ORGANISATION/NAME (default: all).")
	session.CompleteWorkspaces(cmd, s)
	repositoryFlag(cmd, &repositories)
	format := output.Flag(cmd, &platformv1.CreateTokenResponse{})
	cmd.RunE = s.WithClient(func(cmd *cobra.Command, c *session.Client, args []string) error {
		spec := &platformv1.TokenSpec{Name: args[0], Scopes: scopes, Repositories: repositories, Expires: expires()}
		var err error
		if spec.WorkspaceId, err = c.Workspace(cmd.Context(), workspace); err != nil {
			return err
		}
		var res platformv1.CreateTokenResponse
		raw, err := c.Do(cmd.Context(), session.Call{Method: http.MethodPost, Path: "/api/tokens", Signed: true, Body: spec}, &res)
		if err != nil {
			return fmt.Errorf("creating the token %s: %w", args[0], err)
		}
		return format.Print(cmd.OutOrStdout(), raw, output.Table{{res.GetAccessKey()}})
	})
	return cmd
}

// scopeNames returns the scopes that tokens of users and robots can have.
func scopeNames() []string {
	return []string{"pull", "request", "build", "freeze", "runs", "credentials:read"}
}

// repositoryFlag adds --repository.
func repositoryFlag(cmd *cobra.Command, into *[]string) {
	cmd.Flags().StringSliceVar(into, "repository", nil, "A `repository` that requests with the token may name, or all below a path, e.g. ghcr.io/lab/*; can be repeated (default: all).")
	usage.CompleteFlagFrom(cmd, "repository", cobra.NoFileCompletions)
}

// expiryFlag adds --expires-in, and returns a function that returns `expires` of the new token.
func expiryFlag(cmd *cobra.Command) func() string {
	var ttl lifetime.Value
	cmd.Flags().Var(&ttl, "expires-in", "Lifetime of the token, e.g. 30d or 12h; 0 means that it does not expire, if the server allows that (default: 90 days).")
	usage.CompleteFlag(cmd, "expires-in", "1d", "30d", "90d")
	return func() string {
		if end := ttl.From(time.Now()); !end.IsZero() {
			return end.UTC().Format(time.RFC3339)
		}
		if cmd.Flags().Changed("expires-in") {
			return "never"
		}
		return ""
	}
}

func tokensDeleteCommand(s *session.Settings) *cobra.Command {
	var all bool
	cmd := &cobra.Command{
		Use:   "delete ID|NAME...",
		Short: "Delete access tokens",
		Long: `Delete access tokens by their ids or names, effective immediately.

The sessions of programs that signed in with a token end with it; delete one of them
by its id. With --all every token and session of yours is deleted, including the one
that this command uses.`,
		Example: "  slipway tokens delete laptop\n  slipway tokens delete --all",
		Args: func(cmd *cobra.Command, args []string) error {
			if all == (len(args) > 0) {
				return usage.Errorf("name the tokens to delete, or give --all; write it as `%s`", cmd.UseLine())
			}
			return nil
		},
		ValidArgsFunction: s.Completions(completeTokens),
	}
	cmd.Flags().BoolVar(&all, "all", false, "Delete all of them.")
	cmd.RunE = s.WithClient(func(cmd *cobra.Command, c *session.Client, args []string) error {
		if all {
			return c.Remove(cmd, session.Call{Path: "/api/tokens/delete-all"}, "all tokens")
		}
		return deleteTokens(cmd, c, args)
	})
	return cmd
}

// completeTokens returns the ids of tokens and sessions, for shell completion.
func completeTokens(ctx context.Context, c *session.Client) ([]cobra.Completion, error) {
	_, list, err := tokens(ctx, c)
	var out []cobra.Completion
	for _, r := range list.GetTokens() {
		out = append(out, session.CompleteFlag(output.Tallied(r.GetId()), r.GetName()))
	}
	for _, r := range list.GetSessions() {
		out = append(out, session.CompleteFlag(output.Tallied(r.GetId()), "session of "+r.GetClientId()))
	}
	return out, err
}

// deleteTokens deletes tokens and sessions by id or name. Sessions have no name.
func deleteTokens(cmd *cobra.Command, c *session.Client, names []string) error {
	_, list, err := tokens(cmd.Context(), c)
	if err != nil {
		return err
	}
	known := list.GetTokens()
	for _, r := range list.GetSessions() {
		known = append(known, &platformv1.TokenRecord{Id: r.GetId(), Name: output.Tallied(r.GetId())})
	}
	for _, name := range names {
		id, err := idOf(known, name, "token or session", func(r *platformv1.TokenRecord) (string, string) { return output.Tallied(r.GetId()), r.GetName() })
		if err != nil {
			return err
		}
		if err := c.Remove(cmd, session.Call{Path: "/api/tokens/" + id}, "token "+name); err != nil {
			return err
		}
	}
	return nil
}

// idOf returns the id of the item whose id, or else whose name, is key. In the error, what is the
// kind of the items.
func idOf[T any](list []T, key, what string, names func(T) (id, name string)) (string, error) {
	found := ""
	for _, item := range list {
		switch id, name := names(item); key {
		case id:
			return id, nil
		case name:
			found = id
		}
	}
	if found == "" {
		return "", fmt.Errorf("there is no %s %q", what, key)
	}
	return found, nil
}

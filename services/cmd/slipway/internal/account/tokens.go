package account

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/spf13/cobra"

	platformv1 "slipway.dev/proto/gen/slipway/platform/v1"
	"slipway.dev/services/cmd/slipway/internal/output"
	"slipway.dev/services/cmd/slipway/internal/session"
	"slipway.dev/services/cmd/slipway/internal/usage"
	"slipway.dev/services/internal/lifetime"
)

// Tokens is `slipway tokens`.
func Tokens(s *session.Settings) *cobra.Command {
	cmd := usage.Group("tokens", "Show, make and end your access tokens")
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
		Short:             "Show your access tokens, and the programs that are signed in with them",
		Example:           "  slipway tokens list\n  slipway tokens list -o json",
		Args:              usage.Exactly(0),
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	format := output.Flag(cmd)
	cmd.RunE = s.WithClient(func(cmd *cobra.Command, c *session.Client, _ []string) error {
		raw, list, err := tokens(cmd.Context(), c)
		if err != nil {
			return err
		}
		t := output.Table{{"ID", "NAME", "CREATED", "LAST USED", "EXPIRES"}}
		for _, r := range list.GetTokens() {
			t = append(t, []string{output.Tallied(r.GetId()), r.GetName(), output.Moment(r.GetDateCreated()), output.MomentOrNever(r.GetLastUsed()), output.MomentOrNever(r.GetExpires())})
		}
		for _, r := range list.GetSessions() {
			t = append(t, []string{output.Tallied(r.GetId()), "session of " + r.GetClientId(), output.Moment(r.GetDateCreated()), output.MomentOrNever(r.GetLastUsed()), output.MomentOrNever(r.GetExpires())})
		}
		return format.List(cmd, raw, t, "No tokens yet. `slipway tokens create NAME` makes one.")
	})
	return cmd
}

func tokensCreateCommand(s *session.Settings) *cobra.Command {
	var ttl lifetime.Value
	cmd := &cobra.Command{
		Use:   "create NAME",
		Short: "Make an access token and print it, this once",
		Long: `Make an access token and print it, this once.

The token alone is printed: whoever has it can do everything that you can.`,
		Example:           "  slipway tokens create laptop\n  slipway tokens create ci --expires-in 90d > token",
		Args:              usage.Exactly(1),
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	cmd.Flags().Var(&ttl, "expires-in", "How long it works, e.g. 90d or 12h; 0 is for ever.")
	usage.Offer(cmd, "expires-in", "1d", "30d", "90d")
	format := output.Flag(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		spec := &platformv1.TokenSpec{Name: args[0]}
		if end := ttl.From(time.Now()); !end.IsZero() {
			spec.Expires = end.UTC().Format(time.RFC3339)
		}
		var res platformv1.CreateTokenResponse
		raw, err := s.Do(cmd.Context(), session.Call{Method: http.MethodPost, Path: "/api/tokens", Signed: true, Body: spec}, &res)
		if err != nil {
			return fmt.Errorf("making the token %s: %w", args[0], err)
		}
		return format.Print(cmd.OutOrStdout(), raw, output.Table{{res.GetAccessKey()}})
	}
	return cmd
}

func tokensDeleteCommand(s *session.Settings) *cobra.Command {
	var all bool
	cmd := &cobra.Command{
		Use:   "delete ID|NAME...",
		Short: "End access tokens, at once",
		Long: `End access tokens, at once, by their ids or names.

With a token end the sessions of programs that signed in with it; one of them ends
alone by its id. With --all every token and session of yours ends, the one that this
command uses too.`,
		Example: "  slipway tokens delete laptop\n  slipway tokens delete --all",
		Args: func(cmd *cobra.Command, args []string) error {
			if all == (len(args) > 0) {
				return usage.Errorf("name the tokens to end, or give --all; write it as `%s`", cmd.UseLine())
			}
			return nil
		},
		ValidArgsFunction: s.Offers(offersTokens),
	}
	cmd.Flags().BoolVar(&all, "all", false, "End all of them.")
	cmd.RunE = s.WithClient(func(cmd *cobra.Command, c *session.Client, args []string) error {
		if all {
			return c.Remove(cmd, session.Call{Path: "/api/tokens/delete-all"}, "all tokens")
		}
		return deleteTokens(cmd, c, args)
	})
	return cmd
}

// offersTokens are the ids of tokens and sessions, for a shell to complete.
func offersTokens(ctx context.Context, c *session.Client) ([]cobra.Completion, error) {
	_, list, err := tokens(ctx, c)
	var out []cobra.Completion
	for _, r := range list.GetTokens() {
		out = append(out, session.Offer(output.Tallied(r.GetId()), r.GetName()))
	}
	for _, r := range list.GetSessions() {
		out = append(out, session.Offer(output.Tallied(r.GetId()), "session of "+r.GetClientId()))
	}
	return out, err
}

// deleteTokens ends tokens and sessions by their ids or names; a session has no name.
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

// idOf finds what has an id, or else a name.
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

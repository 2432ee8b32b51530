// Package account implements the commands for a user's data at the server: tokens, registry
// logins, organisations, workspaces and members.
package account

import (
	"context"
	"fmt"
	"net/http"
	"net/url"

	"github.com/spf13/cobra"

	platformv1 "slipway.dev/proto/gen/slipway/platform/v1"
	"slipway.dev/services/cmd/slipway/internal/output"
	"slipway.dev/services/cmd/slipway/internal/session"
	"slipway.dev/services/cmd/slipway/internal/usage"
)

// Credentials returns `slipway credentials`.
func Credentials(s *session.Settings) *cobra.Command {
	cmd := usage.Group("credentials", "Manage registry logins at the server")
	cmd.Long = `Manage registry logins at the server: your own, or those of a workspace.

The server uses them when it reads and pushes images for you. No command shows a
stored secret, and no flag takes one: you are prompted for it, or it is read from
standard input or a file.`
	cmd.AddCommand(credentialsListCommand(s), credentialsAddCommand(s), credentialsShowCommand(s), credentialsUpdateCommand(s), credentialsDeleteCommand(s))
	return cmd
}

func credentials(ctx context.Context, c *session.Client, query url.Values) ([]byte, []*platformv1.CredentialsRecord, error) {
	var res platformv1.ListCredentialsResponse
	raw, err := c.Do(ctx, session.Call{Method: http.MethodGet, Path: "/api/credentials", Query: query, Signed: true}, &res)
	if err != nil {
		return nil, nil, fmt.Errorf("listing the credentials: %w", err)
	}
	return raw, res.GetCredentials(), nil
}

// credentialsID returns the id of the credentials with an id or a name.
func credentialsID(ctx context.Context, c *session.Client, query url.Values, key string) (string, error) {
	kept, err := storedCredentials(ctx, c, query, key)
	return kept.GetId(), err
}

// storedCredentials returns the stored credentials with an id or a name.
func storedCredentials(ctx context.Context, c *session.Client, query url.Values, key string) (*platformv1.CredentialsRecord, error) {
	_, list, err := credentials(ctx, c, query)
	if err != nil {
		return nil, err
	}
	id, err := idOf(list, key, "record of credentials", func(r *platformv1.CredentialsRecord) (string, string) { return r.GetId(), r.GetName() })
	for _, r := range list {
		if r.GetId() == id {
			return r, err
		}
	}
	return nil, err
}

// completeCredentials completes the ids of credentials in the workspace that a flag names.
func completeCredentials(s *session.Settings, workspace *string) cobra.CompletionFunc {
	return s.Completions(func(ctx context.Context, c *session.Client) ([]cobra.Completion, error) {
		query, err := c.InWorkspace(ctx, *workspace)
		if err != nil {
			return nil, err
		}
		_, list, err := credentials(ctx, c, query)
		var out []cobra.Completion
		for _, r := range list {
			out = append(out, session.CompleteFlag(r.GetId(), r.GetName()))
		}
		return out, err
	})
}

func credentialsListCommand(s *session.Settings) *cobra.Command {
	cmd := &cobra.Command{
		Use:               "list",
		Short:             "List stored credentials, without their secrets",
		Example:           "  slipway credentials list\n  slipway credentials list --workspace lab/rnaseq -o json",
		Args:              usage.Exactly(0),
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	workspace := session.WorkspaceFlag(cmd, s, "to look in")
	format := output.Flag(cmd, &platformv1.ListCredentialsResponse{})
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		c, query, err := s.Within(cmd.Context(), *workspace)
		if err != nil {
			return err
		}
		raw, list, err := credentials(cmd.Context(), c, query)
		if err != nil {
			return err
		}
		t := output.Table{{"ID", "NAME", "PROVIDER", "REGISTRY", "USER", "LAST USED"}}
		for _, r := range list {
			t = append(t, []string{r.GetId(), r.GetName(), r.GetProvider(), keyField(r, "registry"), keyField(r, "userName"), output.MomentOrNever(r.GetLastUsed())})
		}
		return format.List(cmd, raw, t, "No credentials yet. `slipway credentials add NAME --registry HOST --username USER` stores a login.")
	}
	return cmd
}

func keyField(r *platformv1.CredentialsRecord, name string) string {
	return r.GetKeys().GetFields()[name].GetStringValue()
}

func credentialsShowCommand(s *session.Settings) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "show ID|NAME",
		Short:   "Show one record, without its secrets",
		Example: "  slipway credentials show quay",
		Args:    usage.Exactly(1),
	}
	workspace := session.WorkspaceFlag(cmd, s, "to look in")
	cmd.ValidArgsFunction = completeCredentials(s, workspace)
	format := output.Flag(cmd, &platformv1.DescribeCredentialsResponse{})
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		c, query, err := s.Within(cmd.Context(), *workspace)
		if err != nil {
			return err
		}
		id, err := credentialsID(cmd.Context(), c, query, args[0])
		if err != nil {
			return err
		}
		var res platformv1.DescribeCredentialsResponse
		raw, err := c.Do(cmd.Context(), session.Call{Method: http.MethodGet, Path: "/api/credentials/" + id, Query: query, Signed: true}, &res)
		if err != nil {
			return fmt.Errorf("reading the credentials %s: %w", args[0], err)
		}
		return format.Print(cmd.OutOrStdout(), raw, credentialsTable(res.GetCredentials()))
	}
	return cmd
}

func credentialsTable(r *platformv1.CredentialsRecord) output.Table {
	var t output.Table
	t.Fact("Id", r.GetId())
	t.Fact("Name", r.GetName())
	t.Fact("Description", r.GetDescription())
	t.Fact("Provider", r.GetProvider())
	t.Fact("Registry", keyField(r, "registry"))
	t.Fact("User", keyField(r, "userName"))
	t.Fact("Created", output.FormatTime(r.GetDateCreated()))
	t.Fact("Changed", output.FormatTime(r.GetLastUpdated()))
	t.Fact("Last used", output.MomentOrNever(r.GetLastUsed()))
	return t
}

func credentialsDeleteCommand(s *session.Settings) *cobra.Command {
	var checked bool
	cmd := &cobra.Command{
		Use:     "delete ID|NAME...",
		Short:   "Delete credentials",
		Example: "  slipway credentials delete quay --checked",
		Args:    usage.AtLeast(1),
	}
	workspace := session.WorkspaceFlag(cmd, s, "to delete them in")
	cmd.ValidArgsFunction = completeCredentials(s, workspace)
	cmd.Flags().BoolVar(&checked, "checked", false, "Do not delete credentials that were used in the last hour.")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		c, query, err := s.Within(cmd.Context(), *workspace)
		if err != nil {
			return err
		}
		for _, name := range args {
			id, err := credentialsID(cmd.Context(), c, query, name)
			if err != nil {
				return err
			}
			if checked {
				query.Set("checked", "true")
			}
			if err := c.Remove(cmd, session.Call{Path: "/api/credentials/" + id, Query: query}, "credentials "+name); err != nil {
				return err
			}
		}
		return nil
	}
	return cmd
}

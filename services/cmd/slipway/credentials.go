package main

import (
	"context"
	"fmt"
	"net/http"
	"net/url"

	"github.com/spf13/cobra"

	platformv1 "slipway.dev/proto/gen/slipway/platform/v1"
)

func credentialsCommand(s *settings) *cobra.Command {
	cmd := group("credentials", "Keep logins of registries at the server")
	cmd.Long = `Keep logins of registries at the server: yours, or those of a workspace.

The server uses them when it reads and pushes images for you. Secrets go in and
never come out: no command shows one. No flag takes a secret: it is asked for, or
read from standard input or a file.`
	cmd.AddCommand(credentialsListCommand(s), credentialsAddCommand(s), credentialsShowCommand(s), credentialsUpdateCommand(s), credentialsDeleteCommand(s))
	return cmd
}

func (c *client) credentials(ctx context.Context, query url.Values) ([]byte, []*platformv1.CredentialsRecord, error) {
	var res platformv1.ListCredentialsResponse
	raw, err := c.do(ctx, call{method: http.MethodGet, path: "/api/credentials", query: query, signed: true}, &res)
	if err != nil {
		return nil, nil, fmt.Errorf("listing the credentials: %w", err)
	}
	return raw, res.GetCredentials(), nil
}

// credentialsID finds credentials by id or name.
func (c *client) credentialsID(ctx context.Context, query url.Values, key string) (string, error) {
	kept, err := c.keptCredentials(ctx, query, key)
	return kept.GetId(), err
}

// keptCredentials finds a record by id or name.
func (c *client) keptCredentials(ctx context.Context, query url.Values, key string) (*platformv1.CredentialsRecord, error) {
	_, list, err := c.credentials(ctx, query)
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

// offersCredentials has a shell offer ids of the workspace that a flag names.
func (s *settings) offersCredentials(workspace *string) cobra.CompletionFunc {
	return s.offers(func(ctx context.Context, c *client) ([]cobra.Completion, error) {
		query, err := c.inWorkspace(ctx, *workspace)
		if err != nil {
			return nil, err
		}
		_, list, err := c.credentials(ctx, query)
		var out []cobra.Completion
		for _, r := range list {
			out = append(out, offer(r.GetId(), r.GetName()))
		}
		return out, err
	})
}

func credentialsListCommand(s *settings) *cobra.Command {
	cmd := &cobra.Command{
		Use:               "list",
		Short:             "Show what is kept, without what is secret",
		Example:           "  slipway credentials list\n  slipway credentials list --workspace lab/rnaseq -o json",
		Args:              exactly(0),
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	workspace := workspaceFlag(cmd, s, "to look in")
	output := outputFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		c, query, err := s.within(cmd.Context(), *workspace)
		if err != nil {
			return err
		}
		raw, list, err := c.credentials(cmd.Context(), query)
		if err != nil {
			return err
		}
		t := table{{"ID", "NAME", "PROVIDER", "REGISTRY", "USER", "LAST USED"}}
		for _, r := range list {
			t = append(t, []string{r.GetId(), r.GetName(), r.GetProvider(), shownKey(r, "registry"), shownKey(r, "userName"), momentOrNever(r.GetLastUsed())})
		}
		return output.list(cmd, raw, t, "No credentials yet. `slipway credentials add NAME --registry HOST --username USER` keeps a login.")
	}
	return cmd
}

func shownKey(r *platformv1.CredentialsRecord, name string) string {
	return r.GetKeys().GetFields()[name].GetStringValue()
}

func credentialsShowCommand(s *settings) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "show ID|NAME",
		Short:   "Show one record, without what is secret",
		Example: "  slipway credentials show quay",
		Args:    exactly(1),
	}
	workspace := workspaceFlag(cmd, s, "to look in")
	cmd.ValidArgsFunction = s.offersCredentials(workspace)
	output := outputFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		c, query, err := s.within(cmd.Context(), *workspace)
		if err != nil {
			return err
		}
		id, err := c.credentialsID(cmd.Context(), query, args[0])
		if err != nil {
			return err
		}
		var res platformv1.DescribeCredentialsResponse
		raw, err := c.do(cmd.Context(), call{method: http.MethodGet, path: "/api/credentials/" + id, query: query, signed: true}, &res)
		if err != nil {
			return fmt.Errorf("reading the credentials %s: %w", args[0], err)
		}
		return output.print(cmd.OutOrStdout(), raw, credentialsTable(res.GetCredentials()))
	}
	return cmd
}

func credentialsTable(r *platformv1.CredentialsRecord) table {
	var t table
	t.fact("Id", r.GetId())
	t.fact("Name", r.GetName())
	t.fact("Description", r.GetDescription())
	t.fact("Provider", r.GetProvider())
	t.fact("Registry", shownKey(r, "registry"))
	t.fact("User", shownKey(r, "userName"))
	t.fact("Created", moment(r.GetDateCreated()))
	t.fact("Changed", moment(r.GetLastUpdated()))
	t.fact("Last used", momentOrNever(r.GetLastUsed()))
	return t
}

func credentialsDeleteCommand(s *settings) *cobra.Command {
	var checked bool
	cmd := &cobra.Command{
		Use:     "delete ID|NAME...",
		Short:   "Delete credentials",
		Example: "  slipway credentials delete quay --checked",
		Args:    atLeastOne,
	}
	workspace := workspaceFlag(cmd, s, "to delete them in")
	cmd.ValidArgsFunction = s.offersCredentials(workspace)
	cmd.Flags().BoolVar(&checked, "checked", false, "Keep those that were used in the last hour.")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		c, query, err := s.within(cmd.Context(), *workspace)
		if err != nil {
			return err
		}
		for _, name := range args {
			id, err := c.credentialsID(cmd.Context(), query, name)
			if err != nil {
				return err
			}
			if checked {
				query.Set("checked", "true")
			}
			if err := c.remove(cmd, call{path: "/api/credentials/" + id, query: query}, "credentials "+name); err != nil {
				return err
			}
		}
		return nil
	}
	return cmd
}

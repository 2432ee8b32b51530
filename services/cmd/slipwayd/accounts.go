package main

import (
	"context"
	"errors"
	"fmt"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"slipway.dev/services/app"
	"slipway.dev/services/internal/lifetime"
)

// withAccounts opens the platform's tables for one command.
func withAccounts(keys bool, f func(*cobra.Command, *app.Accounts) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, _ []string) (err error) {
		cfg, err := load(cmd)
		if err != nil {
			return err
		}
		a, err := app.OpenAccounts(cmd.Context(), cfg, keys)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, a.Close()) }()
		cmd.SetContext(app.ByCommand(cmd.Context()))
		return f(cmd, a)
	}
}

func userCommand() *cobra.Command {
	group := &cobra.Command{Use: "user", Short: "Create, list, disable, unlink and delete the platform's users, and grant roles"}
	var u app.User
	create := &cobra.Command{
		Use:     "create --name NAME --email ADDRESS",
		Short:   "Create a user; `slipwayd token create` then creates a token",
		Example: "  slipwayd user create --name ada --email ada@example.org",
		Args:    cobra.NoArgs,
		RunE: withAccounts(false, func(cmd *cobra.Command, a *app.Accounts) error {
			made, err := a.CreateUser(cmd.Context(), u)
			if err != nil {
				return err
			}
			fmt.Fprintf(cmd.OutOrStdout(), "The user %s has the id %d.\n", made.Name, made.ID)
			return nil
		}),
	}
	create.Flags().StringVar(&u.Name, "name", "", "Short name, in lower case.")
	create.Flags().StringVar(&u.Email, "email", "", "E-mail address.")
	create.Flags().StringVar(&u.FirstName, "first-name", "", "First name.")
	create.Flags().StringVar(&u.LastName, "last-name", "", "Last name.")
	list := &cobra.Command{
		Use: "list", Short: "List the users", Args: cobra.NoArgs,
		RunE: withAccounts(false, func(cmd *cobra.Command, a *app.Accounts) error {
			users, err := a.Users(cmd.Context())
			if err != nil {
				return err
			}
			table := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 4, 2, ' ', 0)
			fmt.Fprintln(table, "NAME\tEMAIL\tID\tSTATE\tROLE")
			for _, u := range users {
				fmt.Fprintf(table, "%s\t%s\t%d\t%s\t%s\n", u.Name, u.Email, u.ID, stateOf(u), roleOf(u))
			}
			return table.Flush()
		}),
	}
	group.AddCommand(create, list,
		oneUser("disable", "disabled", "Disable a user: their tokens and sessions stop working immediately, their data stays", (*app.Accounts).DisableUser),
		oneUser("enable", "enabled", "Enable a disabled user, with their previous tokens", (*app.Accounts).EnableUser),
		oneUser("unlink", "unlinked", "Unlink a user from their account at the OpenID Connect provider, and end the sessions that began there", (*app.Accounts).UnlinkUser),
		oneUser("delete", "deleted", "Delete a user, with their tokens, and personal credentials, runs and webhooks", (*app.Accounts).DeleteUser),
		roleCommand("grant", "is an administrator", "Make a user an administrator", true),
		roleCommand("revoke", "is not an administrator", "Revoke the role of an administrator, except the last one's", false),
	)
	return group
}

// oneUser returns a command that calls do for the user that --name names.
func oneUser(verb, done, short string, do func(*app.Accounts, context.Context, string) error) *cobra.Command {
	var name string
	cmd := &cobra.Command{
		Use: verb + " --name NAME", Short: short, Args: cobra.NoArgs, Example: "  slipwayd user " + verb + " --name ada",
		RunE: withAccounts(false, func(cmd *cobra.Command, a *app.Accounts) error {
			if err := do(a, cmd.Context(), name); err != nil {
				return err
			}
			fmt.Fprintf(cmd.OutOrStdout(), "The user %s is %s.\n", name, done)
			return nil
		}),
	}
	cmd.Flags().StringVar(&name, "name", "", "User name or e-mail address. Required.")
	_ = cmd.MarkFlagRequired("name")
	return cmd
}

func stateOf(u app.User) string {
	if u.Disabled {
		return "disabled"
	}
	return "enabled"
}

func tokenCommand() *cobra.Command {
	group := &cobra.Command{Use: "token", Short: "Create and revoke users' access tokens"}
	var userName string
	var spec app.NewToken
	var ttl lifetime.Value
	create := &cobra.Command{
		Use:     "create --user NAME",
		Short:   "Create an access token and print it, this once",
		Example: "  slipwayd token create --user ada --name laptop --expires-in 90d\n  slipwayd token create --user ci --scope pull,request,build --repository 'ghcr.io/lab/*'",
		Args:    cobra.NoArgs,
		RunE: withAccounts(false, func(cmd *cobra.Command, a *app.Accounts) error {
			spec.Expires = ttl.From(time.Now())
			if !cmd.Flags().Changed("expires-in") {
				spec.Expires = a.DefaultExpiry()
			}
			token, err := a.CreateTokenFor(cmd.Context(), userName, spec)
			if err != nil {
				return err
			}
			fmt.Fprintln(cmd.OutOrStdout(), token)
			return nil
		}),
	}
	create.Flags().StringVar(&userName, "user", "", "User name or e-mail address.")
	create.Flags().StringVar(&spec.Name, "name", "cli", "The name of the token.")
	create.Flags().Var(&ttl, "expires-in", "Lifetime of the token, e.g. 30d or 12h; 0 means that it does not expire (default: 90d, or token_max_lifetime).")
	create.Flags().StringSliceVar(&spec.Scopes, "scope", nil, "What the token may be used for, e.g. pull; can be repeated (default: everything that the user can do).")
	create.Flags().StringSliceVar(&spec.Repositories, "repository", nil, "A `repository` that requests with the token may name, or all below a path, e.g. ghcr.io/lab/*; can be repeated (default: all).")
	revoke := &cobra.Command{
		Use: "revoke --user NAME", Short: "Revoke all tokens of a user immediately", Args: cobra.NoArgs,
		RunE: withAccounts(false, func(cmd *cobra.Command, a *app.Accounts) error {
			return a.RevokeTokens(cmd.Context(), userName)
		}),
	}
	revoke.Flags().StringVar(&userName, "user", "", "User name or e-mail address.")
	group.AddCommand(create, revoke)
	return group
}

func keysCommand() *cobra.Command {
	group := &cobra.Command{Use: "keys", Short: "Manage the master key of stored credentials"}
	var rewrap bool
	rotate := &cobra.Command{
		Use:   "rotate",
		Short: "Create a new master key and wrap every data key with it",
		Long: `Create a new master key and wrap every data key with it.

The new key becomes the first line of the file; the old ones stay after it, for
backups. Running servers reload the file. If the file comes from a secret store,
put the new key there as the first line and use --rewrap-only.`,
		Args: cobra.NoArgs,
		RunE: withAccounts(true, func(cmd *cobra.Command, a *app.Accounts) error {
			n, err := a.Rotate(cmd.Context(), rewrap)
			if err != nil {
				return err
			}
			fmt.Fprintf(cmd.OutOrStdout(), "%d data keys are wrapped with the new master key.\n", n)
			return nil
		}),
	}
	rotate.Flags().BoolVar(&rewrap, "rewrap-only", false, "Create no key; use the first of the file.")
	check := &cobra.Command{
		Use: "check", Short: "Check that every stored secret can be decrypted", Args: cobra.NoArgs,
		RunE: withAccounts(true, func(cmd *cobra.Command, a *app.Accounts) error {
			if err := a.CheckKeys(cmd.Context()); err != nil {
				return err
			}
			fmt.Fprintln(cmd.OutOrStdout(), "Every stored secret can be decrypted.")
			return nil
		}),
	}
	group.AddCommand(rotate, check)
	return group
}

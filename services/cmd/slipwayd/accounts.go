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
		return f(cmd, a)
	}
}

func userCommand() *cobra.Command {
	group := &cobra.Command{Use: "user", Short: "Make, list, disable and delete the platform's users"}
	var u app.User
	create := &cobra.Command{
		Use:     "create --name NAME --email ADDRESS",
		Short:   "Make a user; `slipwayd token create` then gives a token",
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
			fmt.Fprintln(table, "NAME\tEMAIL\tID\tSTATE")
			for _, u := range users {
				fmt.Fprintf(table, "%s\t%s\t%d\t%s\n", u.Name, u.Email, u.ID, stateOf(u))
			}
			return table.Flush()
		}),
	}
	group.AddCommand(create, list,
		oneUser("disable", "Let a user in no more: their tokens and sessions end at once, what is theirs stays", (*app.Accounts).DisableUser),
		oneUser("enable", "Let a disabled user in again, with the tokens they had", (*app.Accounts).EnableUser),
		oneUser("delete", "Delete a user, with their tokens and personal credentials", (*app.Accounts).DeleteUser),
	)
	return group
}

// oneUser does something with the user that --name names.
func oneUser(verb, short string, do func(*app.Accounts, context.Context, string) error) *cobra.Command {
	var name string
	cmd := &cobra.Command{
		Use: verb + " --name NAME", Short: short, Args: cobra.NoArgs, Example: "  slipwayd user " + verb + " --name ada",
		RunE: withAccounts(false, func(cmd *cobra.Command, a *app.Accounts) error {
			if err := do(a, cmd.Context(), name); err != nil {
				return err
			}
			fmt.Fprintf(cmd.OutOrStdout(), "The user %s is %sd.\n", name, verb)
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
	group := &cobra.Command{Use: "token", Short: "Make and revoke users' access tokens"}
	var userName, name string
	var ttl lifetime.Value
	create := &cobra.Command{
		Use:     "create --user NAME",
		Short:   "Make an access token and print it, this once",
		Example: "  slipwayd token create --user ada --name laptop --expires-in 90d",
		Args:    cobra.NoArgs,
		RunE: withAccounts(false, func(cmd *cobra.Command, a *app.Accounts) error {
			token, err := a.CreateTokenFor(cmd.Context(), userName, name, ttl.From(time.Now()))
			if err != nil {
				return err
			}
			fmt.Fprintln(cmd.OutOrStdout(), token)
			return nil
		}),
	}
	create.Flags().StringVar(&userName, "user", "", "User name or e-mail address.")
	create.Flags().StringVar(&name, "name", "cli", "What to call the token.")
	create.Flags().Var(&ttl, "expires-in", "How long it works, e.g. 90d or 12h; 0 is for ever.")
	revoke := &cobra.Command{
		Use: "revoke --user NAME", Short: "Revoke all tokens of a user, at once", Args: cobra.NoArgs,
		RunE: withAccounts(false, func(cmd *cobra.Command, a *app.Accounts) error {
			return a.RevokeTokens(cmd.Context(), userName)
		}),
	}
	revoke.Flags().StringVar(&userName, "user", "", "User name or e-mail address.")
	group.AddCommand(create, revoke)
	return group
}

func keysCommand() *cobra.Command {
	group := &cobra.Command{Use: "keys", Short: "Look after the master key of stored credentials"}
	var rewrap bool
	rotate := &cobra.Command{
		Use:   "rotate",
		Short: "Make a new master key and wrap every data key with it",
		Long: `Make a new master key and wrap every data key with it.

The new key becomes the first line of the file; the old ones stay behind it, for
backups. Servers that run take it over by themselves. Where the file comes from
a secret store, put the new key there as the first line and use --rewrap-only.`,
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
	rotate.Flags().BoolVar(&rewrap, "rewrap-only", false, "Make no key; take the first of the file.")
	check := &cobra.Command{
		Use: "check", Short: "Say whether every stored secret can be opened", Args: cobra.NoArgs,
		RunE: withAccounts(true, func(cmd *cobra.Command, a *app.Accounts) error {
			if err := a.CheckKeys(cmd.Context()); err != nil {
				return err
			}
			fmt.Fprintln(cmd.OutOrStdout(), "Every stored secret can be opened.")
			return nil
		}),
	}
	group.AddCommand(rotate, check)
	return group
}

package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"slipway.dev/services/app"
)

// administrator is the only role that applies to the whole platform.
const administrator = "admin"

// roleCommand returns the command that grants or revokes the role of an administrator.
func roleCommand(verb, done, short string, grant bool) *cobra.Command {
	return &cobra.Command{
		Use: verb + " NAME " + administrator, Short: short, Example: "  slipwayd user " + verb + " ada " + administrator,
		Args: cobra.ExactArgs(2), ValidArgsFunction: completeRole,
		RunE: func(cmd *cobra.Command, args []string) error {
			if args[1] != administrator {
				return fmt.Errorf("the only role is %s, not %q", administrator, args[1])
			}
			return withAccounts(false, func(cmd *cobra.Command, a *app.Accounts) error {
				if err := a.SetAdministrator(cmd.Context(), args[0], grant); err != nil {
					return err
				}
				fmt.Fprintf(cmd.OutOrStdout(), "The user %s %s.\n", args[0], done)
				return nil
			})(cmd, args)
		},
	}
}

func completeRole(_ *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	if len(args) == 1 {
		return []cobra.Completion{administrator}, cobra.ShellCompDirectiveNoFileComp
	}
	return nil, cobra.ShellCompDirectiveNoFileComp
}

func roleOf(u app.User) string {
	if u.Administrator {
		return administrator
	}
	return ""
}

func auditCommand() *cobra.Command {
	group := &cobra.Command{Use: "audit", Short: "Verify the audit trail"}
	var known []string
	verify := &cobra.Command{
		Use:   "verify",
		Short: "Check that no event of the audit trail was changed or deleted",
		Long: `Check that no event of the audit trail was changed or deleted.

Each event has a hash of its content and of the previous event's hash. The command
prints the number and the hash of the newest event. A user with write access to the
database can recompute all hashes: store the printed value elsewhere, and pass it to
later calls with --known.`,
		Example: "  slipwayd audit verify\n  slipwayd audit verify --known 1042:9f86d081884c7d65…",
		Args:    cobra.NoArgs,
		RunE: withAccounts(false, func(cmd *cobra.Command, a *app.Accounts) error {
			head, err := a.VerifyAudit(cmd.Context(), known)
			if err != nil {
				return err
			}
			fmt.Fprintf(cmd.OutOrStdout(), "The audit trail is intact up to the event %s\n", head)
			return nil
		}),
	}
	verify.Flags().StringSliceVar(&known, "known", nil, "The result of an earlier call, NUMBER:HASH; may be repeated.")
	group.AddCommand(verify)
	return group
}

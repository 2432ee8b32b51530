package account

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	platformv1 "slipway.dev/proto/gen/slipway/platform/v1"
	"slipway.dev/services/cmd/slipway/internal/output"
	"slipway.dev/services/cmd/slipway/internal/session"
	"slipway.dev/services/cmd/slipway/internal/usage"
)

// Limits returns `slipway limits`.
func Limits(s *session.Settings) *cobra.Command {
	cmd := usage.Group("limits", "Show the limits of an organisation, a workspace or a user; set them as an administrator")
	cmd.AddCommand(limitsShowCommand(s), limitsListCommand(s), limitsSetCommand(s), limitsDeleteCommand(s))
	return cmd
}

// Words of the arguments OF and KIND.
const (
	limitWorkspace = "workspace"
	limitUser      = "user"
)

func limitCategories() []string { return []string{"organization", limitWorkspace, limitUser} }

func limitKinds() []string {
	return []string{"builds", "runningBuilds", "buildMinutes", "pulls", "requests", "searches", "requestDays"}
}

func limitsShowCommand(s *session.Settings) *cobra.Command {
	cmd := &cobra.Command{
		Use: "show [ORGANISATION[/WORKSPACE]]", Short: "Show your own limits, or those of an organisation or a workspace, and how much is left",
		Long: `Show your own limits, or those of an organisation or a workspace, and how much is left.

Only limits that an administrator has set are shown; otherwise the limits of the
server apply. Owners see the limits of their organisation, and admins those of
their workspace.`,
		Args: usage.AtMostOne, ValidArgsFunction: completeRobots(s, 1),
		Example: "  slipway limits show\n  slipway limits show lab/rnaseq",
	}
	format := output.Flag(cmd, &platformv1.ListOrganizationLimitsResponse{})
	cmd.RunE = s.WithClient(func(cmd *cobra.Command, c *session.Client, args []string) error {
		call, whose := session.Call{Path: "/api/limits", Signed: true}, "you"
		if len(args) > 0 {
			org, workspace, err := ownerOf(cmd.Context(), c, args[0])
			if err != nil {
				return err
			}
			call, whose = ownedCall(org, workspace, "limits"), args[0]
		}
		call.Method = http.MethodGet
		var res platformv1.ListOrganizationLimitsResponse // of the same form as ListOwnLimitsResponse
		raw, err := c.Do(cmd.Context(), call, &res)
		if err != nil {
			return fmt.Errorf("reading the limits: %w", err)
		}
		t := output.Table{{"KIND", "LIMIT", "LEFT", "SET"}}
		for _, l := range res.GetLimits() {
			left := "-"
			if l.GetRemaining() != nil {
				left = output.Tallied(l.GetRemaining().GetValue())
			}
			t = append(t, []string{l.GetKind(), l.GetValue(), left, output.FormatTime(l.GetLastUpdated())})
		}
		return format.List(cmd, raw, t, "No limits are set for "+whose+"; those of the server apply.")
	})
	return cmd
}

func limitsListCommand(s *session.Settings) *cobra.Command {
	var of, search string
	cmd := &cobra.Command{
		Use: "list", Short: "List the limits of organisations, workspaces and users; for administrators", Args: usage.Exactly(0), ValidArgsFunction: cobra.NoFileCompletions,
		Example: "  slipway limits list\n  slipway limits list --of workspace --search lab/",
	}
	cmd.Flags().StringVar(&of, "of", "", "Only limits of: organization, workspace or user.")
	cmd.Flags().StringVar(&search, "search", "", "Only names that contain this text.")
	usage.CompleteFlag(cmd, "of", limitCategories()...)
	usage.CompleteFlag(cmd, "search")
	format := output.Flag(cmd, &platformv1.ListLimitsResponse{})
	cmd.RunE = s.WithClient(func(cmd *cobra.Command, c *session.Client, _ []string) error {
		query := url.Values{"max": {"1000"}}
		for name, v := range map[string]string{"of": of, "search": search} {
			if v != "" {
				query.Set(name, v)
			}
		}
		var res platformv1.ListLimitsResponse
		raw, err := c.Do(cmd.Context(), session.Call{Method: http.MethodGet, Path: "/api/admin/limits", Query: query, Signed: true}, &res)
		if err != nil {
			return fmt.Errorf("listing the limits: %w", err)
		}
		t := output.Table{{"ID", "OF", "NAME", "KIND", "LIMIT", "SET"}}
		for _, l := range res.GetLimits() {
			t = append(t, []string{output.Tallied(l.GetId()), l.GetOf(), l.GetName(), l.GetKind(), l.GetValue(), output.FormatTime(l.GetLastUpdated())})
		}
		if err := format.List(cmd, raw, t, "No limits are set; those of the server apply to everybody."); err != nil {
			return err
		}
		if n := int(res.GetTotalSize()) - len(res.GetLimits()); n > 0 {
			_, err = fmt.Fprintf(cmd.ErrOrStderr(), "%d more limits; choose some with --of and --search.\n", n)
		}
		return err
	})
	return cmd
}

func limitsSetCommand(s *session.Settings) *cobra.Command {
	cmd := &cobra.Command{
		Use: "set organization|workspace|user NAME|ID KIND LIMIT", Short: "Set a limit of an organisation, a workspace or a user; for administrators",
		Long: `Set a limit of an organisation, a workspace or a user; for administrators.

KIND is builds, buildMinutes, pulls, requests or searches with a LIMIT such as
250/1h or 20/1s,5000/1h, or runningBuilds or requestDays with a number. The limit 0
means no limit.

A user's limit replaces the one of the server. The limit of an organisation or a
workspace is shared by all who work in it, users and robots, and applies in addition
to their own. runningBuilds are the builds of all kinds at a time; others wait.
Limits apply within seconds.

requestDays, of organisations only, is for how many days container requests in
their workspaces can be described after their names expired. It can only shorten
the server's setting, and applies within minutes, also to earlier requests, which
are deleted.`,
		Args: usage.Exactly(4), ValidArgsFunction: completeLimits,
		Example: "  slipway limits set organization lab builds 250/1h\n  slipway limits set workspace lab/rnaseq runningBuilds 4\n  slipway limits set user ada pulls 5000/1m\n  slipway limits set organization lab requestDays 30",
	}
	format := output.Flag(cmd, &platformv1.SetLimitResponse{})
	cmd.RunE = s.WithClient(func(cmd *cobra.Command, c *session.Client, args []string) error {
		call, err := limitCall(cmd.Context(), c, args)
		if err != nil {
			return err
		}
		call.Method, call.Body = http.MethodPut, &platformv1.LimitSpec{Value: args[3]}
		var res platformv1.SetLimitResponse
		raw, err := c.Do(cmd.Context(), call, &res)
		if err != nil {
			return fmt.Errorf("setting the limit: %w", err)
		}
		l := res.GetLimit()
		return format.Print(cmd.OutOrStdout(), raw, output.Table{{"Set", l.GetOf() + " " + l.GetName(), l.GetKind(), l.GetValue()}})
	})
	return cmd
}

func limitsDeleteCommand(s *session.Settings) *cobra.Command {
	return &cobra.Command{
		Use: "delete organization|workspace|user NAME|ID KIND", Short: "Delete a limit, so that those of the server apply; for administrators",
		Args: usage.Exactly(3), ValidArgsFunction: completeLimits,
		Example: "  slipway limits delete user ada pulls",
		RunE: s.WithClient(func(cmd *cobra.Command, c *session.Client, args []string) error {
			call, err := limitCall(cmd.Context(), c, args)
			if err != nil {
				return err
			}
			return c.Remove(cmd, call, "limit "+args[2]+" of "+args[0]+" "+args[1])
		}),
	}
}

// limitCall returns the call for the limit that the arguments OF, NAME and KIND name.
func limitCall(ctx context.Context, c *session.Client, args []string) (session.Call, error) {
	of, name, kind := args[0], args[1], args[2]
	var id string
	var err error
	switch {
	case !slices.Contains(limitCategories(), of):
		return session.Call{}, usage.Errorf("The first argument is organization, workspace or user; got %s", of)
	case !slices.Contains(limitKinds(), kind):
		return session.Call{}, usage.Errorf("The third argument is one of %s; got %s", strings.Join(limitKinds(), ", "), kind)
	case isID(name):
		id = name
	case of == limitUser:
		id, err = userID(ctx, c, name)
	default:
		var org, workspace string
		org, workspace, err = ownerOf(ctx, c, name)
		if err == nil && (of == limitWorkspace) != (workspace != "") {
			err = usage.Errorf("%s is not the name of a %s; name a workspace as ORGANISATION/WORKSPACE", name, of)
		}
		id = cmp.Or(workspace, org)
	}
	return session.Call{Path: "/api/admin/limits/" + of + "/" + id + "/" + kind, Signed: true}, err
}

// userID returns the id of the user with a name, as administrators see all users.
func userID(ctx context.Context, c *session.Client, name string) (string, error) {
	query := url.Values{"search": {name}, "max": {"1000"}}
	var res platformv1.ListAccountsResponse
	if _, err := c.Do(ctx, session.Call{Method: http.MethodGet, Path: "/api/admin/users", Query: query, Signed: true}, &res); err != nil {
		return "", fmt.Errorf("looking for %s: %w", name, err)
	}
	for _, u := range res.GetUsers() {
		if strings.EqualFold(u.GetUserName(), name) {
			return output.Tallied(u.GetId()), nil
		}
	}
	return "", fmt.Errorf("there is no user %s", name)
}

// completeLimits completes OF and KIND.
func completeLimits(_ *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	switch len(args) {
	case 0:
		return limitCategories(), cobra.ShellCompDirectiveNoFileComp
	case 2:
		return limitKinds(), cobra.ShellCompDirectiveNoFileComp
	}
	return nil, cobra.ShellCompDirectiveNoFileComp
}

package account

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	usagev1 "slipway.dev/proto/gen/slipway/usage/v1"
	"slipway.dev/services/cmd/slipway/internal/output"
	"slipway.dev/services/cmd/slipway/internal/session"
	"slipway.dev/services/cmd/slipway/internal/usage"
)

// A usageQuery holds the flags of `slipway usage`.
type usageQuery struct {
	from, to, by   string
	org, workspace string
	all            bool
}

// Usage returns `slipway usage`.
func Usage(s *session.Settings) *cobra.Command {
	var q usageQuery
	var asCSV bool
	cmd := &cobra.Command{
		Use:   "usage",
		Short: "Show builds, their time, and pulls: yours, or those of an organisation, a workspace or all users",
		Long: `Show builds, their time, and pulls: yours, or those of an organisation, a
workspace or all users.

--org is for owners of the organisation, --workspace for users with the role admin
in the workspace, --all for administrators, who can also use --org and --workspace
with ids. Days are UTC.`,
		Example: "  slipway usage --by day --from 2026-02-01\n  slipway usage --org lab --by user,workspace\n" +
			"  slipway usage --all --by organization --from 2026-01-01 --to 2026-03-31 --csv > usage.csv",
		Args: usage.Exactly(0), ValidArgsFunction: cobra.NoFileCompletions,
	}
	flags := cmd.Flags()
	flags.StringVar(&q.from, "from", "", "The first `day`, e.g. 2026-02-01 (default: 30 days up to --to).")
	flags.StringVar(&q.to, "to", "", "The last `day` (default: today).")
	flags.StringVar(&q.by, "by", "", "The `columns` that rows are about: day, user, workspace, organization, or several of them separated by commas (default: user).")
	flags.StringVar(&q.org, "org", "", "The usage of an `organisation`: its name or id.")
	flags.StringVar(&q.workspace, "workspace", "", "The usage of a `workspace`: its id, or ORGANISATION/NAME.")
	flags.BoolVar(&q.all, "all", false, "The usage of all users.")
	flags.BoolVar(&asCSV, "csv", false, "Print comma-separated values, for spreadsheets.")
	cmd.MarkFlagsMutuallyExclusive("org", "workspace", "all")
	for _, name := range []string{"from", "to"} {
		usage.CompleteFlag(cmd, name)
	}
	usage.CompleteFlag(cmd, "by", "day", "user", "workspace", "organization", "day,user", "user,workspace")
	session.CompleteWorkspaces(cmd, s)
	usage.CompleteFlagFrom(cmd, "org", s.Completions(func(ctx context.Context, c *session.Client) (out []cobra.Completion, err error) {
		_, list, err := orgs(ctx, c)
		for _, o := range list {
			out = append(out, session.CompleteFlag(o.GetName(), output.Tallied(o.GetOrgId())))
		}
		return out, err
	}))
	format := output.Flag(cmd, &usagev1.GetUsageResponse{})
	cmd.MarkFlagsMutuallyExclusive("csv", "output")
	cmd.MarkFlagsMutuallyExclusive("csv", "json")
	cmd.MarkFlagsMutuallyExclusive("csv", "jq")
	cmd.RunE = s.WithClient(func(cmd *cobra.Command, c *session.Client, _ []string) error {
		call, err := q.call(cmd.Context(), c)
		if err != nil {
			return err
		}
		if asCSV {
			call.Query.Set("format", "csv")
			raw, err := c.Do(cmd.Context(), call, nil)
			if err != nil {
				return fmt.Errorf("reading the usage: %w", err)
			}
			_, err = cmd.OutOrStdout().Write(raw)
			return err
		}
		var res usagev1.GetUsageResponse // has the same members as GetUserUsageResponse
		raw, err := c.Do(cmd.Context(), call, &res)
		if err != nil {
			return fmt.Errorf("reading the usage: %w", err)
		}
		return format.List(cmd, raw, q.table(res.GetRows()), "Nothing was built or pulled from "+res.GetFrom()+" to "+res.GetTo()+".")
	})
	return cmd
}

// call returns the call of a query.
func (q usageQuery) call(ctx context.Context, c *session.Client) (session.Call, error) {
	query := url.Values{}
	for name, v := range map[string]string{"from": q.from, "to": q.to} {
		if v == "" {
			continue
		}
		if _, err := time.Parse(time.DateOnly, v); err != nil {
			return session.Call{}, usage.Errorf("--%s must be a day such as 2026-02-28, not %q", name, v)
		}
		query.Set(name, v)
	}
	if q.by != "" {
		query.Set("by", q.by)
	}
	call := session.Call{Method: http.MethodGet, Path: "/api/admin/usage", Query: query, Signed: true}
	switch {
	case q.org != "" && isID(q.org): // an administrator may not belong to it
		query.Set("orgId", q.org)
	case q.org != "":
		id, err := orgID(ctx, c, q.org)
		if err != nil {
			return call, err
		}
		query.Set("orgId", id)
	case q.workspace != "":
		id, err := c.Workspace(ctx, q.workspace)
		if err != nil {
			return call, err
		}
		query.Set("workspaceId", strconv.FormatInt(id, 10))
	case !q.all:
		call.Path = "/api/user/usage"
	}
	return call, nil
}

// table returns the columns that the rows are about, and the amounts.
func (q usageQuery) table(rows []*usagev1.Usage) output.Table {
	by := strings.Split(q.by, ",")
	if q.by == "" {
		by = []string{"user"}
	}
	var head []string
	var columns []func(*usagev1.Usage) string
	for _, c := range []struct {
		name, title string
		cell        func(*usagev1.Usage) string
	}{
		{"day", "DAY", func(u *usagev1.Usage) string { return u.GetDay().GetValue() }},
		{"organization", "ORGANISATION", func(u *usagev1.Usage) string {
			return named(u.GetOrgName().GetValue(), u.GetOrgId().GetValue(), "(none)")
		}},
		{"workspace", "WORKSPACE", func(u *usagev1.Usage) string {
			name := u.GetWorkspaceName().GetValue()
			if org := u.GetOrgName().GetValue(); name != "" && org != "" {
				name = org + "/" + name
			}
			return named(name, u.GetWorkspaceId().GetValue(), "(personal)")
		}},
		{"user", "USER", func(u *usagev1.Usage) string {
			return named(u.GetUserName().GetValue(), u.GetUserId().GetValue(), "(no user)")
		}},
	} {
		if slices.Contains(by, c.name) {
			head, columns = append(head, c.title), append(columns, c.cell)
		}
	}
	t := output.Table{append(head, "BUILDS", "BUILD TIME", "PULLS")}
	for _, u := range rows {
		var row []string
		for _, cell := range columns {
			row = append(row, cell(u))
		}
		seconds := u.GetBuildSeconds()
		t = append(t, append(row, output.Tallied(u.GetBuilds()), output.Seconds(&seconds), output.Tallied(u.GetPulls())))
	}
	return t
}

// named returns a name, the id of something deleted, or none if there is no id.
func named(name string, id float64, none string) string {
	switch {
	case name != "":
		return name
	case id != 0:
		return output.Tallied(id)
	}
	return none
}

package server

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/proto"

	metricsv1 "slipway.dev/proto/gen/slipway/metrics/v1"
	"slipway.dev/services/cmd/slipway/internal/output"
	"slipway.dev/services/cmd/slipway/internal/session"
	"slipway.dev/services/cmd/slipway/internal/usage"
)

// mostDays is the maximum number of days in a chart, since each day is a call.
const mostDays = 366

// counts is the response of each path in countables.
type counts interface {
	proto.Message
	GetCount() float64
	GetOrgs() map[string]float64
}

// countable is something that a server counts.
type countable struct {
	name, path, short string
	answer            func() counts
}

func countables() []countable {
	return []countable{
		{"builds", "/v1alpha2/metrics/builds", "Show how many builds were started", func() counts { return &metricsv1.CountBuildsResponse{} }},
		{"mirrors", "/v1alpha2/metrics/mirrors", "Show how many images were copied to other registries", func() counts { return &metricsv1.CountMirrorsResponse{} }},
		{"pulls", "/v1alpha2/metrics/pulls", "Show how many images were pulled", func() counts { return &metricsv1.CountPullsResponse{} }},
		{
			"filesystem", "/v1alpha2/metrics/filesystem/pulls", "Show how many images with a file system client's layer were pulled",
			func() counts { return &metricsv1.CountFilesystemPullsResponse{} },
		},
	}
}

// Metrics returns `slipway metrics`.
func Metrics(s *session.Settings, env func(string) string) *cobra.Command {
	var login string
	cmd := &cobra.Command{
		Use:   "metrics",
		Short: "Show how much the server is used, by organisation and day",
		Long: `Show how much the server is used, by organisation and day.

This requires an administrator's access token or a metrics account of the server,
which takes precedence. The account is NAME:PASSWORD, read from SLIPWAY_METRICS_USER
or given with --user. Prefer the variable: other users of the machine can read the
arguments of a process.`,
		Args: usage.KnownCommand,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.PersistentFlags().StringVar(&login, "user", "", "The metrics account, `NAME:PASSWORD` (environment: SLIPWAY_METRICS_USER).")
	usage.CompleteFlag(cmd, "user")
	for _, c := range countables() {
		cmd.AddCommand(countCommand(s, c, func() string { return cmp.Or(login, strings.TrimSpace(env("SLIPWAY_METRICS_USER"))) }))
	}
	return cmd
}

// countQuery is the query of a metrics command.
type countQuery struct {
	what  countable
	login string
	date  string
	org   string
	days  int
}

func countCommand(s *session.Settings, c countable, login func() string) *cobra.Command {
	q := countQuery{what: c}
	cmd := &cobra.Command{
		Use:               c.name,
		Short:             c.short,
		Long:              c.short + ".\n\n--days shows a bar for each of the last days, up to --date or today (UTC).",
		Example:           fmt.Sprintf("  slipway metrics %s --date 2026-02-28\n  slipway metrics %s --org example.org --days 30", c.name, c.name),
		Args:              usage.Exactly(0),
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	cmd.Flags().StringVar(&q.date, "date", "", "The `day`, UTC, e.g. 2026-02-28 (default: all days since counting began).")
	cmd.Flags().StringVar(&q.org, "org", "", "The `organisation`, e.g. example.org (default: all).")
	cmd.Flags().IntVar(&q.days, "days", 0, "Show this many days, one by one.")
	for _, flag := range []string{"date", "org", "days"} {
		usage.CompleteFlag(cmd, flag)
	}
	format := output.Flag(cmd, c.answer(), dayCounts{})
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		q.login = login()
		raw, t, err := count(cmd.Context(), s, q)
		if err != nil {
			return fmt.Errorf("counting %s: %w", c.name, err)
		}
		return format.Print(cmd.OutOrStdout(), raw, t)
	}
	return cmd
}

// count runs the query and returns the result as JSON and as a table.
func count(ctx context.Context, s *session.Settings, q countQuery) ([]byte, output.Table, error) {
	c, err := s.Client()
	if err != nil {
		return nil, nil, err
	}
	name, password, ok := strings.Cut(q.login, ":")
	switch {
	case ok && name != "":
		c.Login = url.UserPassword(name, password)
	case q.login != "" || c.Token == "":
		return nil, nil, usage.Errorf("sign in as the administrator (slipway login), or set SLIPWAY_METRICS_USER, or --user, to the NAME:PASSWORD of a metrics account")
	}
	if q.days != 0 {
		return chart(ctx, c, q)
	}
	res := q.what.answer()
	raw, err := c.Do(ctx, q.call(q.date), res)
	return raw, countTable(res), err
}

func (q countQuery) call(date string) session.Call {
	query := url.Values{}
	for key, value := range map[string]string{"date": date, "org": q.org} {
		if value != "" {
			query.Set(key, value)
		}
	}
	return session.Call{Method: http.MethodGet, Path: q.what.path, Query: query, Signed: q.login == ""}
}

// countTable returns the organisations, the busiest first, and the total.
func countTable(r counts) output.Table {
	names := make([]string, 0, len(r.GetOrgs()))
	for name := range r.GetOrgs() {
		names = append(names, name)
	}
	slices.SortFunc(names, func(a, b string) int {
		return cmp.Or(cmp.Compare(r.GetOrgs()[b], r.GetOrgs()[a]), cmp.Compare(a, b))
	})
	t := output.Table{{"ORGANISATION", "COUNT"}}
	rest := r.GetCount()
	for _, name := range names {
		t = append(t, []string{name, output.Tallied(r.GetOrgs()[name])})
		rest -= r.GetOrgs()[name]
	}
	if len(names) > 0 && rest > 0 {
		t = append(t, []string{"(none)", output.Tallied(rest)})
	}
	return append(t, []string{"total", output.Tallied(r.GetCount())})
}

// day is one bar of a chart.
type day struct {
	Date  string  `json:"date"`
	Count float64 `json:"count"`
}

// dayCounts is a chart in JSON.
type dayCounts struct {
	Metric string `json:"metric"`
	Org    string `json:"org,omitempty"`
	Days   []day  `json:"days"`
}

// chart requests the count of each day.
func chart(ctx context.Context, c *session.Client, q countQuery) ([]byte, output.Table, error) {
	if q.days < 1 || q.days > mostDays {
		return nil, nil, usage.Errorf("--days must be between 1 and %d", mostDays)
	}
	last := time.Now().UTC()
	if q.date != "" {
		var err error
		if last, err = time.Parse(time.DateOnly, q.date); err != nil {
			return nil, nil, usage.Errorf("--date must be a day such as 2026-02-28, not %q", q.date)
		}
	}
	list := dayCounts{Metric: q.what.name, Org: q.org}
	for n := q.days - 1; n >= 0; n-- {
		date := last.AddDate(0, 0, -n).Format(time.DateOnly)
		res := q.what.answer()
		if _, err := c.Do(ctx, q.call(date), res); err != nil {
			return nil, nil, err
		}
		list.Days = append(list.Days, day{date, res.GetCount()})
	}
	raw, err := json.Marshal(list)
	return raw, bars(list.Days), err
}

// width is the length of the longest bar in characters.
const width = 50

// bars draws the days.
func bars(days []day) output.Table {
	most, longest := 0.0, 0
	for _, d := range days {
		most = max(most, d.Count)
		longest = max(longest, len(output.Tallied(d.Count)))
	}
	t := output.Table{{"DAY", fmt.Sprintf("%*s", longest, "COUNT")}}
	for _, d := range days {
		t = append(t, []string{d.Date, fmt.Sprintf("%*s", max(longest, len("COUNT")), output.Tallied(d.Count)), bar(d.Count, most)})
	}
	return t
}

// bar returns a bar in proportion to n of most. A positive count is always visible.
func bar(n, most float64) string {
	if n <= 0 || most <= 0 {
		return ""
	}
	eighths := max(1, int(n/most*width*8))
	b := strings.Repeat("█", eighths/8)
	if part := eighths % 8; part > 0 {
		r, _ := utf8.DecodeRuneInString("▏▎▍▌▋▊▉"[3*(part-1):])
		b += string(r)
	}
	return b
}

package metrics

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	platformv1 "slipway.dev/proto/gen/slipway/platform/v1"
	usagev1 "slipway.dev/proto/gen/slipway/usage/v1"

	"slipway.dev/services/internal/caller"
	"slipway.dev/services/internal/fairshare"
	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/limits"
	"slipway.dev/services/internal/rpc"
)

// usageDefault is the number of days of a report without a first day.
const usageDefault = 30

// A usageRequest is a request for a report.
type usageRequest interface {
	GetFrom() string
	GetTo() string
	GetBy() string
	GetFormat() string
}

// A usageReport holds the fields of a response.
type usageReport struct {
	from, to string
	rows     []*usagev1.Usage
	csv      *string
}

// GetUsage returns the usage of all users, of an organisation or of a workspace.
func (s *Service) GetUsage(ctx context.Context, req *usagev1.GetUsageRequest) (*usagev1.GetUsageResponse, error) {
	r, err := s.report(ctx, req, &platformv1.AuthorizeUsageRequest{OrgId: req.GetOrgId(), WorkspaceId: req.GetWorkspaceId()})
	if err != nil {
		return nil, err
	}
	return &usagev1.GetUsageResponse{From: r.from, To: r.to, Rows: r.rows, Csv: r.csv}, nil
}

// GetUserUsage returns the caller's usage.
func (s *Service) GetUserUsage(ctx context.Context, req *usagev1.GetUserUsageRequest) (*usagev1.GetUserUsageResponse, error) {
	r, err := s.report(ctx, req, &platformv1.AuthorizeUsageRequest{Own: true})
	if err != nil {
		return nil, err
	}
	return &usagev1.GetUserUsageResponse{From: r.from, To: r.to, Rows: r.rows, Csv: r.csv}, nil
}

// report authorizes and validates a request, and returns its result.
func (s *Service) report(ctx context.Context, req usageRequest, claim *platformv1.AuthorizeUsageRequest) (usageReport, error) {
	scope, err := s.authorizeUsage(ctx, claim)
	if err != nil {
		return usageReport{}, err
	}
	q, err := newUsageQuery(req, s.deps.Now())
	if err != nil {
		return usageReport{}, err
	}
	q.scope = scope
	lease, err := s.reports.Acquire(ctx, fairshare.Request{Client: caller.Of(scope.GetIdentity()).Client(ctx)})
	if err != nil {
		return usageReport{}, err
	}
	defer lease.Release()
	groups, err := s.store.usage(ctx, q)
	if err != nil {
		return usageReport{}, s.deps.DB.Fault("reading the usage", err)
	}
	if len(groups) > limits.UsageGroups {
		return usageReport{}, errLargeReport()
	}
	rows, err := s.describeUsage(ctx, q.by, groups)
	if err != nil {
		return usageReport{}, err
	}
	out := usageReport{from: q.from, to: q.to, rows: rows}
	if req.GetFormat() == formatCSV {
		text, err := usageCSV(rows)
		return usageReport{csv: &text}, err
	}
	return out, nil
}

func errLargeReport() error {
	return fault.Invalid.Newf("The report would have too many rows: the limit is %d; choose fewer days, fewer columns in by, an organisation (orgId) or a workspace (workspaceId)", limits.UsageRows)
}

// authorizeUsage returns the usage that the caller may read of what it asks for. The access rules
// are those of the platform.
func (s *Service) authorizeUsage(ctx context.Context, claim *platformv1.AuthorizeUsageRequest) (*platformv1.AuthorizeUsageResponse, error) {
	if claim.AccessToken = accessToken(rpc.CallFrom(ctx).Authorization); claim.GetAccessToken() == "" {
		return nil, fault.Unauthenticated.Newf("This call needs an access token: Authorization: Bearer <token>")
	}
	if s.deps.Platform == nil {
		return nil, fault.Unsupported.Newf("This server has no platform, so that it knows no users")
	}
	claim.Scopes = []string{string(rpc.ScopeFrom(ctx))}
	scope, err := s.deps.Platform.AuthorizeUsage(ctx, claim)
	if err == nil && !scope.GetEverything() && scope.GetUserId() == 0 && scope.GetWorkspaceId() == 0 && scope.GetOrgId() == 0 {
		err = fault.Denied.Newf("You may not read this usage")
	}
	return scope, err
}

// Columns that the rows of a report can be about.
const (
	byDay          = "day"
	byUser         = "user"
	byWorkspace    = "workspace"
	byOrganization = "organization"
)

// Formats of a report.
const (
	formatJSON = "json"
	formatCSV  = "csv"
)

// A usageQuery selects usage.
type usageQuery struct {
	from, to string // days, inclusive
	by       []string
	scope    *platformv1.AuthorizeUsageResponse
}

// isBy reports whether rows are about one of the columns.
func (q usageQuery) isBy(columns ...string) bool {
	return slices.ContainsFunc(columns, func(c string) bool { return slices.Contains(q.by, c) })
}

// newUsageQuery validates a request.
func newUsageQuery(req usageRequest, now time.Time) (q usageQuery, err error) {
	to := now.UTC().Truncate(24 * time.Hour)
	if req.GetTo() != "" {
		if to, err = time.Parse(time.DateOnly, req.GetTo()); err != nil {
			return q, fault.Invalid.New("to must be a day of the calendar such as 2026-02-28", err)
		}
	}
	from := to.AddDate(0, 0, 1-usageDefault)
	if req.GetFrom() != "" {
		if from, err = time.Parse(time.DateOnly, req.GetFrom()); err != nil {
			return q, fault.Invalid.New("from must be a day of the calendar such as 2026-02-28", err)
		}
	}
	switch days := int(to.Sub(from).Hours()/24) + 1; {
	case days < 1:
		return q, fault.Invalid.Newf("from must not be after to")
	case days > limits.UsageDays:
		return q, fault.Invalid.Newf("A report has at most %d days, and these are %d", limits.UsageDays, days)
	}
	q.from, q.to = from.Format(time.DateOnly), to.Format(time.DateOnly)
	if f := req.GetFormat(); f != "" && f != formatJSON && f != formatCSV {
		return q, fault.Invalid.Newf("format must be json or csv")
	}
	q.by, err = readColumns(req.GetBy())
	return q, err
}

// readColumns reads the columns that rows are about, each once.
func readColumns(text string) (columns []string, err error) {
	if text == "" {
		return []string{byUser}, nil
	}
	if len(text) > limits.UsageColumns {
		return nil, fault.Invalid.Newf("by is at most %d characters long", limits.UsageColumns)
	}
	for c := range strings.SplitSeq(text, ",") {
		if !slices.Contains([]string{byDay, byUser, byWorkspace, byOrganization}, c) {
			return nil, fault.Invalid.Newf("by must be one or more of day, user, workspace and organization, separated by commas")
		}
		if !slices.Contains(columns, c) {
			columns = append(columns, c)
		}
	}
	return columns, nil
}

// A usageGroup is usage that was summed up in SQL. Columns that rows are not about are zero.
type usageGroup struct {
	day                    string
	user, workspace, org   int64
	builds, seconds        int64
	pulls, filesystemPulls int64
}

// describeUsage sums groups up to rows and adds the names of what rows are about.
func (s *Service) describeUsage(ctx context.Context, by []string, groups []usageGroup) ([]*usagev1.Usage, error) {
	q := usageQuery{by: by}
	n := names{platform: s.deps.Platform}
	if q.isBy(byWorkspace, byOrganization) {
		if err := n.addWorkspaces(ctx, groups); err != nil {
			return nil, err
		}
		for i, g := range groups {
			groups[i].org = cmp.Or(g.org, n.workspaces[g.workspace].GetOrgId()) // a robot's own organisation comes first
		}
	}
	if groups = mergeUsage(q, groups); len(groups) > limits.UsageRows {
		return nil, errLargeReport()
	}
	if err := n.add(ctx, groups); err != nil {
		return nil, err
	}
	rows := make([]*usagev1.Usage, len(groups))
	for i, g := range groups {
		rows[i] = n.row(g)
	}
	return rows, nil
}

// mergeUsage sums up groups that are about the same, and sorts them.
func mergeUsage(q usageQuery, groups []usageGroup) []usageGroup {
	for i := range groups {
		if !q.isBy(byWorkspace) {
			groups[i].workspace = 0
		}
	}
	slices.SortFunc(groups, usageGroup.compare)
	out := groups[:0]
	for _, g := range groups {
		if last := len(out) - 1; last >= 0 && out[last].compare(g) == 0 {
			out[last].builds += g.builds
			out[last].seconds += g.seconds
			out[last].pulls += g.pulls
			out[last].filesystemPulls += g.filesystemPulls
			continue
		}
		out = append(out, g)
	}
	return out
}

// compare compares what two groups are about.
func (g usageGroup) compare(o usageGroup) int {
	return cmp.Or(cmp.Compare(g.day, o.day), cmp.Compare(g.org, o.org), cmp.Compare(g.workspace, o.workspace), cmp.Compare(g.user, o.user))
}

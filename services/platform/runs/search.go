package runs

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/limits"
	"slipway.dev/services/internal/sqldb"
	"slipway.dev/services/platform/api"
	"slipway.dev/services/platform/orgs"
)

// A filter is the WHERE clause of a query. User input is passed in parameters, never in the
// query itself.
type filter struct {
	conditions []string
	args       []any
}

// and adds a condition, in which each ? represents the value.
func (f *filter) and(condition string, value any) {
	f.args = append(f.args, value)
	f.conditions = append(f.conditions, strings.ReplaceAll(condition, "?", "$"+strconv.Itoa(len(f.args))))
}

// in adds a condition that a column has one of the values, of which there must be at least one.
func (f *filter) in(column string, values []string) {
	f.conditions = append(f.conditions, column+" IN "+sqldb.Placeholders(len(f.args)+1, 1, len(values)))
	for _, v := range values {
		f.args = append(f.args, v)
	}
}

// query returns a query with the conditions. paged adds parameters for limit and offset.
func (f *filter) query(head, order string, paged bool) string {
	q := head + " WHERE " + strings.Join(f.conditions, " AND ") + order
	if paged {
		q += " LIMIT $" + strconv.Itoa(len(f.args)+1) + " OFFSET $" + strconv.Itoa(len(f.args)+2)
	}
	return q
}

// searchWorkflows parses a search (gateway/contract/platform.md#workflow-search): words that
// must occur in the project, run name or session, and keywords. A run must match all of them.
func searchWorkflows(in orgs.Space, search string, now time.Time) (filter, error) {
	var f filter
	f.and("workspace_id = ?", in.ID())
	f.and("space_user = ?", in.Personal)
	if err := api.CheckLength("search", search, 500); err != nil {
		return f, err
	}
	words := strings.Fields(strings.ToLower(strings.ReplaceAll(search, "\x00", "")))
	if len(words) > limits.SearchWords {
		return f, fault.Invalid.Newf("search must have at most %d words", limits.SearchWords)
	}
	for _, word := range words {
		key, value, ok := strings.Cut(word, ":")
		if !ok {
			key, value = "", word
		}
		if err := f.keyword(key, value, word, now); err != nil {
			return f, err
		}
	}
	return f, nil
}

func (f *filter) keyword(key, value, word string, now time.Time) error {
	columns := map[string]string{
		"runname": "lower(run_name)", "sessionid": "lower(session_id)", "workflowid": "lower(id)",
		"projectname": "lower(project_name)", "username": "lower(user_name)",
	}
	switch key {
	case "status":
		return f.status(strings.ToUpper(value), now)
	case "after", "before":
		return f.date(key, value)
	default:
		column, known := columns[key]
		if !known {
			column, value = "search", word
		}
		f.and(column+` LIKE ? ESCAPE '\'`, sqldb.Like(value))
	}
	return nil
}

func (f *filter) status(value string, now time.Time) error {
	all := []string{statusSubmitted, statusRunning, statusSucceeded, statusFailed, statusCancelled, statusUnknown}
	if !slices.Contains(all, value) {
		return fault.Invalid.Newf("search: status must be one of %s", strings.Join(all, ", "))
	}
	silent := sqldb.Micros(now.Add(-heartbeatTimeout))
	switch value {
	case statusUnknown:
		f.and("status = ?", statusRunning)
		f.and("heartbeat_at < ?", silent)
	case statusRunning:
		f.and("status = ?", statusRunning)
		f.and("heartbeat_at >= ?", silent)
	default:
		f.and("status = ?", value)
	}
	return nil
}

func (f *filter) date(key, value string) error {
	t, err := time.Parse(time.DateOnly, value)
	if err != nil {
		t, err = time.Parse(time.RFC3339, strings.ToUpper(value))
	}
	if err != nil {
		return fault.Invalid.New("search: "+key+" must be a date such as 2026-01-31 or 2026-01-31T12:00:00Z", err)
	}
	if key == "after" {
		f.and("submitted_at >= ?", sqldb.Micros(t))
		return nil
	}
	f.and("submitted_at < ?", sqldb.Micros(t))
	return nil
}

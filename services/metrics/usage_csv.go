package metrics

import (
	"encoding/csv"
	"strconv"
	"strings"

	"google.golang.org/protobuf/types/known/wrapperspb"

	usagev1 "slipway.dev/proto/gen/slipway/usage/v1"
)

// usageCSV returns a report as CSV (RFC 4180). All reports have the same columns.
func usageCSV(rows []*usagev1.Usage) (string, error) {
	var b strings.Builder
	w := csv.NewWriter(&b)
	w.UseCRLF = true
	table := [][]string{{
		"day", "user_id", "user_name", "workspace_id", "workspace_name", "org_id", "org_name", "builds", "build_seconds", "pulls", "filesystem_pulls",
	}}
	for _, u := range rows {
		table = append(table, []string{
			u.GetDay().GetValue(), idCell(u.GetUserId()), cell(u.GetUserName().GetValue()), idCell(u.GetWorkspaceId()), cell(u.GetWorkspaceName().GetValue()),
			idCell(u.GetOrgId()), cell(u.GetOrgName().GetValue()), number(u.GetBuilds()), number(u.GetBuildSeconds()), number(u.GetPulls()), number(u.GetFilesystemPulls()),
		})
	}
	err := w.WriteAll(table)
	return b.String(), err
}

// cell returns a name as the text of a cell. Spreadsheets evaluate cells that begin with certain
// characters as formulas, which could send the table to another server. Such a name gets a leading
// apostrophe, which makes it a string.
func cell(name string) string {
	if strings.TrimLeft(name, "=+-@\t\r\n") != name {
		return "'" + name
	}
	return name
}

// idCell returns an id; "" for none.
func idCell(id *wrapperspb.DoubleValue) string {
	if id == nil {
		return ""
	}
	return number(id.GetValue())
}

func number(n float64) string { return strconv.FormatFloat(n, 'f', -1, 64) }

package limits

import "strconv"

// Limits of reports of usage.
const (
	// UsageDays is how many days usage is stored, and the maximum number of days of a report.
	UsageDays = 400
	// UsageRows is the maximum number of rows of a report, and UsageGroups the maximum number of
	// rows that are read for it: rows about organisations are sums over workspaces.
	UsageRows, UsageGroups = 10_000, 100_000
	// UsageColumns is the maximum length of the list of what rows are about, in bytes.
	UsageColumns = 100
	// UsageReports is the maximum number of reports that a process reads concurrently,
	// UsageReportsClient that of one user, and UsageReportsWaiting that of waiting ones.
	UsageReports, UsageReportsClient, UsageReportsWaiting = 4, 1, 100
	// DescribedNames is the maximum number of users, and of workspaces and organisations, whose
	// names are read with one call.
	DescribedNames = 1000
)

// usageRows lists the limits of reports of usage.
func usageRows() []Row {
	n := strconv.Itoa
	return []Row{
		{What: "days that usage is stored, and days of a report", Bound: n(UsageDays), Why: "there is a row for each day, user and workspace with usage"},
		{What: "rows of a report of usage", Bound: n(UsageRows) + ", made from " + n(UsageGroups), Why: "they are in memory, several times while the response is written; a larger report is rejected"},
		{What: "columns that rows of a report are about (by)", Bound: n(UsageColumns) + " characters", Why: "all columns have 31"},
		{What: "reports of usage that one process reads concurrently", Bound: n(UsageReports) + ", " + n(UsageReportsClient) + " of one user; " + n(UsageReportsWaiting) + " wait", Why: "each reads up to all stored days"},
		{What: "names in one lookup of users, workspaces and organisations", Bound: n(DescribedNames) + " of each", Why: "they are read with one query"},
	}
}

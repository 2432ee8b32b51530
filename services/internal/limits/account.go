package limits

import (
	"fmt"
	"time"
)

// What one person, organisation or workspace may keep at the platform. A list of
// what has no pages of its own shows all that there may be.
const (
	// TokensPerUser is how many access tokens a user may have.
	TokensPerUser = 500
	// SessionsPerUser is how many programs may be signed in as a user; with one more,
	// the one that was silent longest ends.
	SessionsPerUser = 100
	// SessionLife is how long a program stays signed in at most, however often it
	// refreshes its tokens.
	SessionLife = 90 * 24 * time.Hour
	// OrganizationsPerUser is how many a user may own, WorkspacesPerOrganization and
	// MembersPerOrganization how many one may have.
	OrganizationsPerUser      = 100
	WorkspacesPerOrganization = 500
	MembersPerOrganization    = 5000
	// ParticipantsPerWorkspace is how many people may be let into a workspace.
	ParticipantsPerWorkspace = 5000
	// CredentialsPerWorkspace is how many records a workspace may keep.
	CredentialsPerWorkspace = 500
	// RunsPerWorkspace is how many runs are kept of a workspace until some are deleted.
	RunsPerWorkspace = 100_000
	// TasksPerRun is how many tasks of a run are kept; it goes on when there are more.
	TasksPerRun = 500_000
	// RunDocument and TaskDocument are how many bytes are kept of what a run, or a
	// task, says of itself: its largest members are left out until it fits.
	RunDocument  = 2 << 20
	TaskDocument = 128 << 10
	// ListedRun and ListedTask are how many of them a list shows: a run that said more
	// is shown by its columns, a task without its largest members.
	ListedRun  = 256 << 10
	ListedTask = 32 << 10
	// SearchWords is how many words a search for runs may have.
	SearchWords = 20
)

// accountRows bound what is kept at the platform.
func accountRows() []Row {
	const fills = "a stolen token, or a script that went wrong, would fill the database"
	return []Row{
		{What: "Organisations that a user owns", Bound: fmt.Sprint(OrganizationsPerUser), Why: fills},
		{What: "Workspaces of an organisation", Bound: fmt.Sprint(WorkspacesPerOrganization), Why: fills},
		{What: "Members of an organisation; participants of a workspace", Bound: fmt.Sprintf("%d; %d", MembersPerOrganization, ParticipantsPerWorkspace), Why: fills},
		{What: "Credentials of a workspace", Bound: fmt.Sprint(CredentialsPerWorkspace), Why: "their list has no pages, and each pull looks through them"},
		{What: "Runs of a workspace", Bound: fmt.Sprint(RunsPerWorkspace), Why: fills},
		{What: "Tasks of a run", Bound: fmt.Sprintf("%d; more are not kept", TasksPerRun), Why: "anything may report as a run; one that is refused would be aborted"},
		{
			What: "What is kept of what a run, or a task, says of itself", Bound: fmt.Sprintf("%s; %s", size(RunDocument), size(TaskDocument)),
			Why: "each report may add to it; its largest members are left out until it fits",
		},
		{
			What: "What a list shows of a run, or a task", Bound: fmt.Sprintf("%s; %s", size(ListedRun), size(ListedTask)),
			Why: "a list of the largest would take hundreds of megabytes; more is shown of one that is asked for by itself",
		},
		{What: "Words of a search for runs", Bound: fmt.Sprint(SearchWords), Why: "each is looked for in every run of the workspace"},
		{
			What: "Access tokens of a user", Bound: fmt.Sprint(TokensPerUser),
			Why: "their list has no pages; a stolen token would fill the database",
		},
		{
			What: "Sessions of a user", Bound: fmt.Sprintf("%d; then the one that was silent longest ends", SessionsPerUser),
			Why: "every sign-in makes one; a stolen token would fill the database",
		},
		{
			What: "Life of a session", Bound: fmt.Sprintf("%d days, and 30 days after its last refresh", SessionLife/(24*time.Hour)),
			Why: "who left an organisation whose provider signed them in does not stay signed in for ever",
		},
	}
}

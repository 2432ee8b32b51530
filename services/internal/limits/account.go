package limits

import (
	"fmt"
	"strconv"
	"time"
)

// Limits of what one user, organisation or workspace may store at the platform. Lists
// without pages return everything that these limits allow.
const (
	// TokensPerUser is the maximum number of access tokens of a user.
	TokensPerUser = 500
	// RobotsPerOwner is the maximum number of robots of a workspace, and of an organisation in
	// addition to those of its workspaces. TokensPerRobot is the maximum number of access tokens
	// of a robot.
	RobotsPerOwner, TokensPerRobot = 100, 100
	// TokenScopes is the maximum number of scopes of an access token, which is the number of all
	// scopes.
	TokenScopes = 7
	// TokenRepositories is the maximum number of repositories that an access token is restricted
	// to, and TokenRepository the maximum length of each in bytes.
	TokenRepositories, TokenRepository = 50, 255
	// SessionsPerUser is the maximum number of sessions of a user. A further sign-in ends
	// the least recently used session.
	SessionsPerUser = 100
	// SessionLife is the maximum lifetime of a session, however often it refreshes its
	// tokens.
	SessionLife = 90 * 24 * time.Hour
	// SignInGroups is the maximum number of groups that a sign-in provider may send for a
	// user.
	SignInGroups = 1000
	// OrganizationsPerUser is the maximum number of organisations that a user owns.
	// WorkspacesPerOrganization and MembersPerOrganization apply to each organisation.
	OrganizationsPerUser      = 100
	WorkspacesPerOrganization = 500
	MembersPerOrganization    = 5000
	// InvitationsPerOrganization is the maximum number of invitations to an organisation and its
	// workspaces, and InvitationLife how long an invitation waits.
	InvitationsPerOrganization = 1000
	InvitationLife             = 30 * 24 * time.Hour
	// InvitationsPerWorkspace is the maximum number of invitations to a workspace, so that its admins
	// cannot use up those of the organisation. InvitationsPerAddress is the maximum number of an
	// address in all organisations: one sign-in accepts them.
	InvitationsPerWorkspace = 250
	InvitationsPerAddress   = 50
	// ParticipantsPerWorkspace is the maximum number of participants of a workspace.
	ParticipantsPerWorkspace = 5000
	// CredentialsPerWorkspace is the maximum number of credentials of a workspace.
	CredentialsPerWorkspace = 500
	// CredentialKeys limits the keys of credentials as JSON, in bytes.
	CredentialKeys = 100_000
	// RunsPerWorkspace is the maximum number of runs of a workspace. No run is stored
	// beyond it until others are deleted.
	RunsPerWorkspace = 100_000
	// TasksPerRun is the maximum number of stored tasks of a run. Further tasks are
	// accepted but not stored.
	TasksPerRun = 500_000
	// ProcessesPerRun is the maximum number of processes of a run that are counted separately, and
	// ExecutorsPerProcess that of the executors that are listed of each.
	ProcessesPerRun, ExecutorsPerProcess = 5000, 100
	// RunDocument and TaskDocument limit the stored document of a run or task in bytes. The
	// largest members are removed until it fits.
	RunDocument  = 2 << 20
	TaskDocument = 128 << 10
	// ListedRun and ListedTask limit the document of a run or task within a list, in bytes.
	// For a larger run only the columns are listed; a larger task is listed without its
	// largest members.
	ListedRun  = 256 << 10
	ListedTask = 32 << 10
	// SearchWords is the maximum number of words in a search for runs.
	SearchWords = 20
	// AuditText and AuditValues limit a string and the JSON values of an audit event, in bytes.
	AuditText, AuditValues = 1000, 16 << 10
	// AuditRefusals is the maximum number of audit events of rejected attempts of one client
	// address within AuditWindow. The maximum for all addresses is ten times that number.
	AuditRefusals = 100
	AuditWindow   = time.Hour
	// AuditChanges is the maximum number of changes of one user within AuditWindow.
	AuditChanges = 1000
	// AuditSinkBatch is the maximum number of audit events that are written to audit_sink at a
	// time. AuditSinkConnect and AuditSinkTime are the timeouts of a connection and of such a
	// write.
	AuditSinkBatch   = 200
	AuditSinkConnect = 10 * time.Second
	AuditSinkTime    = 30 * time.Second
	// AuditSinkHold is how long after their retention audit events are stored that audit_sink has
	// not accepted.
	AuditSinkHold = 30 * 24 * time.Hour
	// OwnLimits is the maximum number of limits of single organisations, workspaces and users.
	OwnLimits = 5000
	// OwnLimitText is the maximum length of such a limit in bytes, and OwnLimitRules that of its
	// rules. OwnLimitCount and OwnLimitWindow are the largest count and the longest window.
	OwnLimitText, OwnLimitRules = 100, 3
	OwnLimitCount               = 1_000_000_000
	OwnLimitWindow              = 31 * 24 * time.Hour
	// OwnLimitDays is the largest number of days of such a limit.
	OwnLimitDays = 3650
)

// accountRows lists the limits of what is stored at the platform.
func accountRows() []Row {
	const fills = "a stolen token or a faulty script would fill the database"
	return []Row{
		{What: "Strings; values of an audit event", Bound: fmt.Sprintf("%d bytes; %s", AuditText, size(AuditValues)), Why: "each is stored until its retention ends"},
		{
			What: "Audit events of rejected attempts", Bound: fmt.Sprintf("%d of a client address, %d of all, in %s", AuditRefusals, 10*AuditRefusals, AuditWindow),
			Why: "any client can cause them, without a token",
		},
		{What: "Groups of a user at the sign-in provider", Bound: strconv.Itoa(SignInGroups), Why: "each is compared with those that have roles; a provider can send only those of this application"},
		{What: "Changes of a user that are recorded", Bound: fmt.Sprintf("%d in %s", AuditChanges, AuditWindow), Why: "each is stored with its values until its retention ends"},
		{
			What: "Audit events that are written to `audit_sink` at a time; timeouts of the connection and of the write", Bound: fmt.Sprintf("%d; %s; %s", AuditSinkBatch, AuditSinkConnect, AuditSinkTime),
			Why: "each may have tens of KiB; a failed write repeats all of them",
		},
		{
			What: "Audit events that `audit_sink` has not accepted", Bound: fmt.Sprintf("stored for %d days after audit_retention", AuditSinkHold/(24*time.Hour)),
			Why: "a sink that fails forever would fill the database",
		},
		{What: "Organisations that a user owns", Bound: fmt.Sprint(OrganizationsPerUser), Why: fills},
		{What: "Workspaces of an organisation", Bound: fmt.Sprint(WorkspacesPerOrganization), Why: fills},
		{What: "Members of an organisation; participants of a workspace", Bound: fmt.Sprintf("%d; %d", MembersPerOrganization, ParticipantsPerWorkspace), Why: fills},
		{
			What:  "Invitations to an organisation and its workspaces; to one workspace; of an address; each expires after",
			Bound: fmt.Sprintf("%d; %d; %d; %d days", InvitationsPerOrganization, InvitationsPerWorkspace, InvitationsPerAddress, InvitationLife/(24*time.Hour)),
			Why:   fills + "; one sign-in accepts those of its address; an address may get another owner",
		},
		{What: "Credentials of a workspace", Bound: fmt.Sprint(CredentialsPerWorkspace), Why: "their list has no pages, and each pull searches them"},
		{What: "Keys of credentials", Bound: size(CredentialKeys), Why: "they are encrypted and decrypted as a whole; the longest in use are service accounts of some KiB"},
		{What: "Runs of a workspace", Bound: fmt.Sprint(RunsPerWorkspace), Why: fills},
		{What: "Tasks of a run", Bound: fmt.Sprintf("%d; more are not stored", TasksPerRun), Why: "any client may report a run; a rejected report would abort the run"},
		{What: "Processes of a run that are counted; executors of each", Bound: fmt.Sprintf("%d; %d", ProcessesPerRun, ExecutorsPerProcess), Why: "all are read and written with each report; the tasks of others count only for the run"},
		{
			What: "Stored document of a run; of a task", Bound: fmt.Sprintf("%s; %s", size(RunDocument), size(TaskDocument)),
			Why: "each report may add to it; its largest members are removed until it fits",
		},
		{
			What: "Document of a run in a list; of a task", Bound: fmt.Sprintf("%s; %s", size(ListedRun), size(ListedTask)),
			Why: "a list of the largest would take hundreds of megabytes; requests for a single run or task return more",
		},
		{What: "Words of a search for runs", Bound: fmt.Sprint(SearchWords), Why: "each is searched in every run of the workspace"},
		{What: "Limits of single organisations, workspaces and users", Bound: strconv.Itoa(OwnLimits), Why: "every process that applies limits keeps all of them in memory"},
		{
			What: "Such a limit", Bound: fmt.Sprintf("%d bytes, %d rules, %d in %dh", OwnLimitText, OwnLimitRules, OwnLimitCount, int(OwnLimitWindow.Hours())),
			Why: "each rule is a counter in Redis, which lives as long as its window",
		},
		{What: "Days of such a limit (`requestDays`)", Bound: fmt.Sprintf("1 to %d, and at most `request_retention`", OwnLimitDays), Why: "it only shortens the setting; requests cannot be restored"},
		{
			What: "Scopes of an access token", Bound: fmt.Sprint(TokenScopes), Why: "there are no more",
		},
		{
			What: "Repositories of an access token", Bound: fmt.Sprintf("%d of %d bytes", TokenRepositories, TokenRepository),
			Why: "they are stored with each request and build of the token",
		},
		{
			What: "Access tokens of a user", Bound: fmt.Sprint(TokensPerUser),
			Why: "their list has no pages; a stolen token would fill the database",
		},
		{
			What: "Robots of a workspace, and of an organisation itself; access tokens of a robot", Bound: fmt.Sprintf("%d; %d", RobotsPerOwner, TokensPerRobot),
			Why: "their lists have no pages; a stolen token would fill the database",
		},
		{
			What: "Sessions of a user", Bound: fmt.Sprintf("%d; then the least recently used one ends", SessionsPerUser),
			Why: "every sign-in creates one; a stolen token would fill the database",
		},
		{
			What: "Life of a session", Bound: fmt.Sprintf("%d days, and 30 days after its last refresh", SessionLife/(24*time.Hour)),
			Why: "users who left the organisation whose provider signed them in must not stay signed in",
		},
	}
}

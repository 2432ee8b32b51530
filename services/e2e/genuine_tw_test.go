package e2e

import (
	"testing"

	"slipway.dev/services/internal/testkit"
)

// TestGenuineTw runs tower-cli, which fails if the type of a response differs from the
// published API.
func TestGenuineTw(t *testing.T) {
	genuine(t)
	up := testkit.NewRegistry(t, testkit.Open)
	p := oneProcess(t, common(t, []string{up.Host}, atHome(t, withProvider(t, settings{"runc_path": "/nowhere/runc"}))))
	w := newDesk(t, "TOWER_ACCESS_TOKEN="+adminToken, "TOWER_API_ENDPOINT="+p.platform)
	tw := func(wants []string, args ...string) {
		t.Helper()
		w.must(t, wants, "tw", append([]string{"--insecure"}, args...)...)
	}
	refused := func(wants []string, args ...string) {
		t.Helper()
		w.fails(t, wants, "tw", append([]string{"--insecure"}, args...)...)
	}
	tw([]string{"Authenticated user", "admin", "Tower API version check               | OK", "Authentication API credential's token | OK"}, "info")
	tw([]string{"No organizations found"}, "organizations", "list")
	tw([]string{"Organization 'acme'", "was added"}, "organizations", "add", "-n", "acme", "-f", "Acme")
	tw([]string{"Details for organization 'Acme'"}, "organizations", "view", "-n", "acme")
	tw([]string{"Organization 'acme' was updated"}, "organizations", "update", "-n", "acme", "-f", "Acme Works")
	tw([]string{`"orgName" : "acme"`}, "-o", "json", "organizations", "list")
	tw([]string{"'PRIVATE' workspace 'lab' added"}, "workspaces", "add", "-o", "acme", "-n", "lab", "-f", "Lab", "--visibility", "PRIVATE")
	tw([]string{"lab", "acme"}, "workspaces", "list")
	tw([]string{"PRIVATE"}, "workspaces", "view", "-n", "acme/lab")
	tw([]string{"No participants found"}, "participants", "list", "-w", "acme/lab")
	tw([]string{"admin@localhost", "OWNER"}, "members", "list", "-o", "acme")

	theirs := newDesk(t, "TOWER_ACCESS_TOKEN="+p.newUser("bob"), "TOWER_API_ENDPOINT="+p.platform)
	tw([]string{"Member 'bob'"}, "members", "add", "-o", "acme", "-u", "bob@example.org")
	tw([]string{"role 'launch'"}, "participants", "add", "-w", "acme/lab", "-n", "bob@example.org", "-t", "MEMBER")
	tw(nil, "participants", "update", "-w", "acme/lab", "-n", "bob@example.org", "-t", "MEMBER", "-r", "MAINTAIN")
	tw([]string{"bob (bob@example.org) | maintain"}, "participants", "list", "-w", "acme/lab")
	theirs.must(t, nil, "tw", "--insecure", "participants", "leave", "-w", "acme/lab")
	tw([]string{"No participants found"}, "participants", "list", "-w", "acme/lab")
	tw([]string{"role 'launch'"}, "participants", "add", "-w", "acme/lab", "-n", "bob@example.org", "-t", "MEMBER")
	tw([]string{"removed from 'lab'"}, "participants", "delete", "-w", "acme/lab", "-n", "bob@example.org", "-t", "MEMBER")
	tw([]string{"deleted from organization 'acme'"}, "members", "delete", "-o", "acme", "-u", "bob@example.org")

	// An address that no user has is invited. tower-cli shows it as a member or participant.
	tw([]string{"Member 'new@example.org'", "was added in organization 'acme'"}, "members", "add", "-o", "acme", "-u", "New@example.org")
	refused([]string{"new@example.org is invited already"}, "members", "add", "-o", "acme", "-u", "new@EXAMPLE.org")
	tw([]string{"new@example.org", "MEMBER"}, "members", "list", "-o", "acme")
	tw([]string{`"userId" : 0`, `"email" : "new@example.org"`}, "-o", "json", "members", "list", "-o", "acme", "-f", "NEW@example.org")
	tw([]string{"updated to role 'owner'"}, "members", "update", "-o", "acme", "-u", "New@example.org", "-r", "OWNER")
	tw([]string{"role 'launch'"}, "participants", "add", "-w", "acme/lab", "-n", "new@example.org", "-t", "MEMBER")
	tw(nil, "participants", "update", "-w", "acme/lab", "-n", "new@example.org", "-t", "MEMBER", "-r", "MAINTAIN")
	tw([]string{"new@example.org (new@example.org) | maintain"}, "participants", "list", "-w", "acme/lab")
	tw([]string{"role 'launch'"}, "participants", "add", "-w", "acme/lab", "-n", "guest@example.org", "-t", "MEMBER")
	// tower-cli takes the first result of a search, which must not be the invitation of another address.
	tw([]string{"Member 'a-bob@example.org'"}, "members", "add", "-o", "acme", "-u", "a-bob@example.org")
	tw([]string{"User 'bob'", "role 'launch'"}, "participants", "add", "-w", "acme/lab", "-n", "bob", "-t", "MEMBER")
	refused([]string{"not found"}, "members", "delete", "-o", "acme", "-u", "bob")
	tw([]string{"removed from 'lab'"}, "participants", "delete", "-w", "acme/lab", "-n", "bob", "-t", "COLLABORATOR")
	tw([]string{"deleted from organization 'acme'"}, "members", "delete", "-o", "acme", "-u", "a-bob@example.org")
	tw([]string{"removed from 'lab'"}, "participants", "delete", "-w", "acme/lab", "-n", "guest@example.org", "-t", "COLLABORATOR")
	tw([]string{"deleted from organization 'acme'"}, "members", "delete", "-o", "acme", "-u", "new@example.org")
	tw([]string{"No participants found"}, "participants", "list", "-w", "acme/lab")

	add := []string{"credentials", "add", "container-reg", "-n", "quay", "-u", "ada", "-p", "secret", "-r", "quay.io"}
	tw([]string{"No credentials found"}, "credentials", "list")
	tw([]string{"New CONTAINER_REG credentials 'quay"}, add...)
	refused([]string{`There is a record named "quay" already`}, add...)
	tw([]string{"container-reg", "quay", "never"}, "credentials", "list")
	tw([]string{"credentials 'quay' updated"}, "credentials", "update", "container-reg", "-n", "quay", "-u", "ada", "-p", "other", "-r", "quay.io")
	tw([]string{"New CONTAINER_REG credentials"}, append(add, "-w", "acme/lab")...)
	tw([]string{"quay"}, "credentials", "list", "-w", "acme/lab")
	tw([]string{"deleted at user workspace"}, "credentials", "delete", "-n", "quay")
	tw([]string{"No credentials found"}, "credentials", "list")
	refused([]string{"not found"}, "credentials", "delete", "-n", "quay")

	tw([]string{"No pipeline runs found"}, "runs", "list")
	tw([]string{"No pipeline runs found"}, "runs", "list", "-w", "acme/lab")
	refused([]string{"No such run"}, "runs", "view", "-i", "4kZ1")
	tw([]string{"No compute environment found"}, "compute-envs", "list")
	tw([]string{"No pipelines found"}, "pipelines", "list")
	tw([]string{"No secrets found"}, "secrets", "list")
	for _, absent := range [][]string{{"teams", "list", "-o", "acme"}, {"labels", "list", "-w", "acme/lab"}, {"datasets", "list", "-w", "acme/lab"}, {"actions", "list"}} {
		refused([]string{"There is no such endpoint"}, absent...)
	}
	w.env = append(w.env, "TOWER_ACCESS_TOKEN=bad")
	refused([]string{"The access token is not valid"}, "organizations", "list")
}

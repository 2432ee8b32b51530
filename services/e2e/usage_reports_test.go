package e2e

import (
	"encoding/csv"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"slipway.dev/services/internal/testkit"
)

// usageRows requests a report of usage as CSV. It returns the rows of the columns user_name,
// workspace_name, org_name, builds, whether there are build_seconds, and pulls.
func (p *program) usageRows(token, path string) (rows []string, err error) {
	p.t.Helper()
	r := p.call(http.MethodGet, path, nil, "Authorization", "Bearer "+token)
	if r.status != http.StatusOK {
		return nil, fmt.Errorf("%s: %d %s", path, r.status, r.body)
	}
	table, err := csv.NewReader(strings.NewReader(string(r.body))).ReadAll()
	if err != nil || len(table) == 0 {
		return nil, fmt.Errorf("%s: %s: %w", path, r.body, err)
	}
	for _, row := range table[1:] {
		rows = append(rows, fmt.Sprint(row[2], "|", row[4], "|", row[6], "|", row[7], "|", row[8] != "0", "|", row[9]))
	}
	return rows, nil
}

// usageIs waits until a report has these rows, in any order of users.
func (p *program) usageIs(t *testing.T, token, path string, want ...string) {
	t.Helper()
	err := within(2*time.Minute, func() error {
		got, err := p.usageRows(token, path)
		if err != nil {
			return err
		}
		if d := cmp.Diff(slices.Sorted(slices.Values(want)), slices.Sorted(slices.Values(got))); d != "" {
			return fmt.Errorf("%s", d)
		}
		return nil
	})
	if err != nil {
		t.Errorf("%s: %v", path, err)
	}
}

// TestUsageReports builds and pulls as two users in two workspaces, kills the registry and the
// metrics role in between, and reads the reports.
func TestUsageReports(t *testing.T) {
	t.Parallel()
	up := testkit.NewRegistry(t, testkit.Open)
	image := up.Push(t, "lib/tool:v1", testkit.Image(t, "amd64", true))
	eachBuildShape(t, []string{up.Host}, settings{"master_key_file": newMasterKey(t), "limit_platform": "0"}, func(t *testing.T, p *program) {
		w := newUsageTeam(p)
		w.build("ada", w.bench, "one")
		w.build("ada", w.bench, "two")
		w.build("bob", w.desk, "three")
		ada, own, bob := w.name("ada", w.bench, image), w.name("ada", 0, image), w.name("bob", w.desk, image)
		stranger := p.submit(map[string]any{"containerImage": image})
		get := func(target string, times int) {
			for range times {
				if r := request(t, http.MethodGet, v2(target)+"/manifests/v1", nil); r.status != http.StatusOK {
					t.Fatalf("a pull returned %d %s", r.status, r.body)
				}
			}
		}
		get(ada, 3)
		get(own, 1)
		get(stranger, 2)
		if len(p.procs) > 1 {
			metrics := p.process("metrics")
			metrics.kill()
			get(bob, 2)
			metrics.start()
		}
		for _, proc := range p.procs {
			if proc == p.registry() || proc.name == "registry-2" {
				get(bob, 2)
				proc.kill()
				proc.start()
			}
		}
		get(bob, 1)
		bobs := 3
		if len(p.procs) > 1 { // there are two registries, and two pulls without the metrics role
			bobs = 7
		}
		w.check(t, fmt.Sprint(bobs))
	})
}

// A usageTeam is an organisation with the workspaces bench and desk, and the users ada and bob.
type usageTeam struct {
	*program
	org         string
	bench, desk int64
	tokens      map[string]string
}

func newUsageTeam(p *program) *usageTeam {
	p.t.Helper()
	w := &usageTeam{program: p, tokens: map[string]string{}}
	org := p.platformCall(http.MethodPost, "/orgs", p.token, map[string]any{"organization": map[string]any{"name": "lab"}})["organization"].(map[string]any)
	w.org = fmt.Sprintf("%.0f", org["orgId"])
	add := func(name, user string) int64 {
		at := "/orgs/" + w.org + "/workspaces"
		made := p.platformCall(http.MethodPost, at, p.token, map[string]any{"workspace": map[string]any{"name": name}})["workspace"].(map[string]any)
		w.tokens[user] = p.newUser(user)
		at = fmt.Sprintf("%s/%.0f/participants", at, made["id"])
		joined := p.platformCall(http.MethodPut, at+"/add", p.token, map[string]any{"userNameOrEmail": user})["participant"].(map[string]any)
		p.platformCall(http.MethodPut, fmt.Sprintf("%s/%.0f/role", at, joined["participantId"]), p.token, map[string]any{"role": "launch"})
		return int64(made["id"].(float64))
	}
	w.bench, w.desk = add("bench", "ada"), add("desk", "bob")
	return w
}

func (w *usageTeam) in(user string, workspace int64, body map[string]any) map[string]any {
	body["towerAccessToken"] = w.tokens[user]
	if workspace != 0 {
		body["towerWorkspaceId"] = workspace
	}
	return body
}

func (w *usageTeam) build(user string, workspace int64, label string) {
	w.t.Helper()
	w.finished(w.t, w.order(w.in(user, workspace, recipe("FROM scratch", "LABEL of="+label))))
}

func (w *usageTeam) name(user string, workspace int64, image string) string {
	w.t.Helper()
	return w.submit(w.in(user, workspace, map[string]any{"containerImage": image}))
}

// check reads all kinds of reports.
func (w *usageTeam) check(t *testing.T, bobs string) {
	t.Helper()
	all := func(by string) string { return "/api/admin/usage?format=csv&by=" + by }
	w.usageIs(t, w.token, all("user"), "|||0|false|2", "ada|||2|true|4", "bob|||1|true|"+bobs)
	w.usageIs(t, w.token, all("user,workspace"), "|||0|false|2", "ada|||0|false|1", "ada|bench|lab|2|true|3", "bob|desk|lab|1|true|"+bobs)
	w.usageIs(t, w.token, all("workspace")+fmt.Sprintf("&workspaceId=%d", w.desk), "|desk|lab|1|true|"+bobs)
	w.usageIs(t, w.token, all("user")+"&orgId="+w.org, "ada|||2|true|3", "bob|||1|true|"+bobs)
	w.usageIs(t, w.tokens["ada"], "/api/user/usage?format=csv", "ada|||2|true|4")
	w.usageIs(t, w.tokens["bob"], "/api/user/usage?format=csv&by=organization", "||lab|1|true|"+bobs)
	for _, path := range []string{"/api/admin/usage", "/api/admin/usage?orgId=" + w.org, fmt.Sprintf("/api/admin/usage?workspaceId=%d", w.bench)} {
		if r := w.call(http.MethodGet, path, nil, "Authorization", "Bearer "+w.tokens["ada"]); r.status != http.StatusForbidden {
			t.Errorf("ada reads %s: %d %s", path, r.status, r.body)
		}
	}
	if r := w.call(http.MethodGet, "/api/user/usage", nil); r.status != http.StatusForbidden {
		t.Errorf("without a token: %d %s", r.status, r.body)
	}
	cmd := exec.Command(filepath.Join(binaries, "slipway"), "usage", "--all", "--by", "organization", "--server", w.url)
	cmd.Env = append(os.Environ(), "SLIPWAY_TOKEN="+w.token)
	if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "lab           3       ") {
		t.Errorf("the command line printed %s, %v", out, err)
	}
	w.daemon("user", "delete", "--name", "bob")
	w.usageIs(t, w.token, all("user"), "|||0|false|2", "ada|||2|true|4", "|||1|true|"+bobs)
}

package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/crypto/bcrypt"

	"slipway.dev/services/internal/testkit"
)

// reader is the metrics account of every program with usageAccounts.
const reader = "reader:pass word"

// usageAccounts returns settings with the reader's account.
func usageAccounts(t testing.TB) settings {
	t.Helper()
	name, password, _ := strings.Cut(reader, ":")
	hash, err := bcrypt.GenerateFromPassword([]byte(password), bcrypt.MinCost)
	if err != nil {
		t.Fatal(err)
	}
	return settings{"metrics_accounts_file": writeFile(t, "metrics-accounts", name+":"+string(hash)+"\n")}
}

func (p *program) usage(what, login string) reply {
	p.t.Helper()
	var header []string
	if login != "" {
		header = []string{"Authorization", "Basic " + b64(login)}
	}
	return p.call(http.MethodGet, "/v1alpha2/metrics/"+what, nil, header...)
}

// counts waits until a metrics call returns want.
func (p *program) counts(t *testing.T, what, want string) {
	t.Helper()
	var wanted any
	mustJSON(t, []byte(want), &wanted)
	err := within(time.Minute, func() error {
		r := p.usage(what, reader)
		var got any
		if err := json.Unmarshal(r.body, &got); err != nil || r.status != http.StatusOK {
			return fmt.Errorf("%d %s", r.status, r.body)
		}
		if d := cmp.Diff(wanted, got); d != "" {
			return fmt.Errorf("%s", d)
		}
		return nil
	})
	if err != nil {
		t.Errorf("%s: %v", what, err)
	}
}

// asUser creates a user and returns an access token.
func (p *program) asUser(name, email string) string {
	p.t.Helper()
	p.daemon("user", "create", "--name", name, "--email", email)
	return strings.TrimSpace(p.daemon("token", "create", "--user", name))
}

// daemon runs a slipwayd command with the settings of the process that runs the platform.
func (p *program) daemon(args ...string) string {
	p.t.Helper()
	proc := p.procs[0]
	if len(p.procs) > 1 {
		proc = p.process("platform")
	}
	cmd := exec.Command(filepath.Join(binaries, "slipwayd"), args...)
	cmd.Env = os.Environ()
	for k, v := range proc.env {
		cmd.Env = append(cmd.Env, "SLIPWAY_"+strings.ToUpper(k)+"="+v)
	}
	out, err := cmd.Output()
	if err != nil {
		p.t.Fatalf("slipwayd %v: %v", args, err)
	}
	return string(out)
}

// TestUsage tests gateway/contract/container-service.md#counts for pulls.
func TestUsage(t *testing.T) {
	t.Parallel()
	up := testkit.NewRegistry(t, testkit.Open)
	image := up.Push(t, "lib/tool:v1", testkit.Image(t, "amd64", true))
	gz, tar := testkit.Tar(t, "client", "of a file system")
	files := fileServer(t, "/client/v2.tar.gz", gz)
	more := usageAccounts(t)
	more["filesystem_layer_prefix"] = strings.TrimSuffix(files, "v2.tar.gz")
	eachShape(t, []string{up.Host}, more, func(t *testing.T, p *program) {
		if left := time.Until(time.Now().UTC().Truncate(24 * time.Hour).Add(24 * time.Hour)); left < 2*time.Minute {
			time.Sleep(left) // all pulls must be counted on the same day
		}
		today := time.Now().UTC().Format(time.DateOnly)
		p.counts(t, "pulls", `{"metric":"pulls","count":0,"orgs":{}}`)
		ada, bob := p.asUser("ada", "ada@Example.org"), p.asUser("bob", "bob@other.org")
		get := func(target, method string, times int) {
			for range times {
				if r := request(t, method, v2(target)+"/manifests/v1", nil); r.status != http.StatusOK {
					t.Fatalf("a pull returned %d %s", r.status, r.body)
				}
			}
		}
		get(p.submit(map[string]any{"containerImage": image, "towerAccessToken": ada}), http.MethodGet, 3)
		get(p.submit(map[string]any{"containerImage": image, "towerAccessToken": ada}), http.MethodHead, 5) // not pulls
		get(p.submit(map[string]any{"containerImage": image, "towerAccessToken": bob, "containerConfig": map[string]any{"layers": []any{
			layer(files, gz, tar),
		}}}), http.MethodGet, 2)
		get(p.submit(map[string]any{"containerImage": image}), http.MethodGet, 4) // anonymous

		p.counts(t, "pulls", `{"metric":"pulls","count":9,"orgs":{"example.org":3,"other.org":2}}`)
		p.counts(t, "pulls?date="+today, `{"metric":"pulls","count":9,"orgs":{"example.org":3,"other.org":2}}`)
		p.counts(t, "pulls?org=example.org", `{"metric":"pulls","count":3,"orgs":{"example.org":3}}`)
		p.counts(t, "pulls?org=none.org", `{"metric":"pulls","count":0,"orgs":{"none.org":0}}`)
		p.counts(t, "pulls?org=other.org&date="+today, `{"count":2}`)
		p.counts(t, "pulls?date=2020-02-29", `{"metric":"pulls","count":0,"orgs":{}}`)
		p.counts(t, "filesystem/pulls", `{"metric":"filesystem","count":2,"orgs":{"other.org":2}}`)
		p.counts(t, "builds", `{"metric":"builds","count":0,"orgs":{}}`)
		p.usageRefusals(t)

		cmd := exec.Command(filepath.Join(binaries, "slipway"), "metrics", "pulls", "--days", "2", "--server", p.url)
		cmd.Env = append(os.Environ(), "SLIPWAY_METRICS_USER="+reader)
		if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), today+"      9  "+strings.Repeat("█", 50)) {
			t.Errorf("the command line printed %s, %v", out, err)
		}
	})
}

func (p *program) usageRefusals(t *testing.T) {
	t.Helper()
	for _, c := range []struct {
		what, login string
		status      int
	}{
		{"pulls", "", http.StatusUnauthorized},
		{"builds", "reader:wrong", http.StatusUnauthorized},
		{"filesystem/pulls", "nobody:pass word", http.StatusUnauthorized},
		{"pulls?date=2026-02-29", reader, http.StatusBadRequest},
		{"pulls?date=yesterday", reader, http.StatusBadRequest},
		{"layers", reader, http.StatusNotFound},
	} {
		r := p.usage(c.what, c.login)
		if r.status != c.status {
			t.Errorf("%s as %q returned %d %s, want %d", c.what, c.login, r.status, r.body, c.status)
		}
		if basic := strings.HasPrefix(r.header.Get("WWW-Authenticate"), "Basic realm="); basic != (c.status == http.StatusUnauthorized) {
			t.Errorf("%s as %q: WWW-Authenticate is %q", c.what, c.login, r.header.Get("WWW-Authenticate"))
		}
	}
}

// TestUsageWithoutAccounts checks that only the administrator's token gives access to the
// counts.
func TestUsageWithoutAccounts(t *testing.T) {
	t.Parallel()
	eachShape(t, nil, settings{"master_key_file": newMasterKey(t)}, func(t *testing.T, p *program) {
		other := p.newUser("ada")
		for name, c := range map[string]struct {
			authorization string
			status        int
		}{
			"the administrator":             {"Bearer " + p.token, http.StatusOK},
			"the administrator, with basic": {"Basic " + b64("@token:"+p.token), http.StatusOK},
			"another user":                  {"Bearer " + other, http.StatusForbidden},
			"another user, with basic":      {"Basic " + b64("admin:"+other), http.StatusForbidden},
			"an invalid token":              {"Bearer " + p.token[:len(p.token)-8] + "MDAwMDA=", http.StatusUnauthorized},
		} {
			if r := p.call(http.MethodGet, "/v1alpha2/metrics/pulls", nil, "Authorization", c.authorization); r.status != c.status {
				t.Errorf("%s: %d %s, want %d", name, r.status, r.body, c.status)
			}
		}
		cmd := exec.Command(filepath.Join(binaries, "slipway"), "metrics", "pulls", "--server", p.url)
		cmd.Env = append(os.Environ(), "SLIPWAY_TOKEN="+p.token)
		if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "total") {
			t.Errorf("the command line printed %s, %v", out, err)
		}
		for _, what := range []string{"pulls", "builds", "filesystem/pulls"} {
			for _, login := range []string{"", reader} {
				if r := p.usage(what, login); r.status != http.StatusUnauthorized || r.header.Get("WWW-Authenticate") == "" {
					t.Errorf("%s as %q returned %d %s", what, login, r.status, r.body)
				}
			}
		}
	})
}

// TestUsageOfBuilds counts admitted builds, but not requests for existing images or running
// builds.
func TestUsageOfBuilds(t *testing.T) {
	t.Parallel()
	eachBuildShape(t, nil, usageAccounts(t), func(t *testing.T, p *program) {
		ada := p.asUser("ada", "ada@example.org")
		for _, lines := range []string{"RUN_1", "RUN_2", "RUN_2"} {
			body := recipe("FROM scratch", "LABEL a="+lines)
			body["towerAccessToken"] = ada
			p.finished(t, p.order(body))
		}
		p.counts(t, "builds", `{"metric":"builds","count":2,"orgs":{"example.org":2}}`)
	})
}

package e2e

import (
	"fmt"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"slipway.dev/services/internal/testkit"
)

// TestMigrateFromOneProcess moves a server from SQLite and the embedded image store to a
// database server and a registry. Users, tokens, credentials and image names must work
// afterwards, without new builds.
func TestMigrateFromOneProcess(t *testing.T) {
	t.Parallel()
	up := testkit.NewRegistry(t, testkit.Open)
	own := testkit.NewRegistry(t, testkit.Basic)
	channel := madeChannel(t, smallPackages(3)...)
	base := up.Push(t, "base/index:1", testkit.Index(t, true, "amd64", "arm64"))
	s := common(t, []string{up.Host, own.Host}, withProvider(t, bare(channel.URL)))
	s["limit_platform"] = "0"
	p := oneProcess(t, s)
	source := p.procs[0].env["data_dir"]

	was := p.populate(t, base)
	before := p.lists(t, was)

	target := maps.Clone(p.procs[0].env)
	target["data_dir"] = t.TempDir()
	target["database_url"] = "sqlite:" + filepath.Join(t.TempDir(), "shared.db")
	if testkit.Real() {
		target["database_url"] = testkit.StartPostgres(t).URL
	}
	target["build_repository"] = own.Host + "/team/slipway"
	target["registry_auth_file"] = dockerConfig(t, map[string]string{own.Host: testkit.User + ":" + testkit.Password})
	migrate := []string{"migrate", "--from", "sqlite:" + filepath.Join(source, "slipway.db")}
	if out, err := target.run(migrate...); err == nil || !strings.Contains(out, "stop it first") {
		t.Errorf("while the server is running: %v %s", err, out)
	}
	if err := p.procs[0].stop(); err != nil {
		t.Fatal(err)
	}
	beside := maps.Clone(target)
	beside["data_dir"] = source
	if out, err := beside.run("serve"); err == nil || !strings.Contains(out, "slipwayd migrate --from sqlite:") {
		t.Errorf("with an empty source database: %v %s", err, out)
	}
	kept, err := os.ReadFile(filepath.Join(source, "slipway.db"))
	if err != nil {
		t.Fatal(err)
	}
	own.Intercept(func(w http.ResponseWriter, r *http.Request) bool { // a registry that fails
		http.Error(w, "broken", http.StatusInsufficientStorage)
		return true
	})
	if out, err := target.run(migrate...); err == nil {
		t.Errorf("to a failing registry: %s", out)
	}
	own.Intercept(nil)
	out, err := target.run(migrate...)
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	t.Log(out)
	if now, err := os.ReadFile(filepath.Join(source, "slipway.db")); err != nil || string(now) != string(kept) {
		t.Errorf("the source has changed: %v", err)
	}

	// The server is restarted with the new settings.
	p.procs[0].env = target
	p.procs[0].start()
	if out, err := target.run(migrate...); err == nil || !strings.Contains(out, "has users already") {
		t.Errorf("the second migration: %v %s", err, out)
	}
	old := maps.Clone(target)
	old["database_url"], old["data_dir"] = "", source
	for _, args := range [][]string{{"token", "revoke", "--user", "user-0"}, {"backup", t.TempDir()}, {"serve"}} {
		if out, err := old.run(args...); err == nil || !strings.Contains(out, "was copied to another database") {
			t.Errorf("%s with the database that was copied: %v %s", args, err, out)
		}
	}
	after := strings.ReplaceAll(p.lists(t, was), target["build_repository"], p.host+"/builds")
	if after != before {
		t.Errorf("before:\n%s\nafter:\n%s", before, after)
	}
	p.serves(t, was)
}

// run runs slipwayd with the settings and returns its output.
func (s settings) run(args ...string) (string, error) {
	cmd := exec.Command(plain(), args...)
	cmd.Env = s.environ()
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// contents are the users and images of a server.
type contents struct {
	tokens   map[string]string // by user
	robot    bot               // of a workspace
	people   []string          // the paths of lists that contain one invitation each
	requests []map[string]any
	answers  []map[string]any
	digests  map[string]string // by image name
}

// populate creates users with credentials, and images.
func (p *program) populate(t *testing.T, base string) contents {
	t.Helper()
	tokens := map[string]string{"": p.token}
	for i := range 5 {
		name := fmt.Sprint("user-", i)
		tokens[name] = p.newUser(name)
		made := request(t, http.MethodPost, p.platform+"/credentials", map[string]any{"credentials": map[string]any{
			"name": "login of " + name, "keys": map[string]any{"userName": name, "password": "p", "registry": "registry.example.org"},
		}}, "Authorization", "Bearer "+tokens[name])
		if made.status != http.StatusOK {
			t.Fatalf("credentials of %s: %d %s", name, made.status, made.body)
		}
	}
	w := &team{program: p}
	org := p.platformCall(http.MethodPost, "/orgs", p.token, map[string]any{"organization": map[string]any{"name": "robots"}})["organization"].(map[string]any)
	w.org = fmt.Sprintf("/orgs/%.0f/workspaces", org["orgId"])
	made := p.platformCall(http.MethodPost, w.org, p.token, map[string]any{"workspace": map[string]any{"name": "ci"}})["workspace"].(map[string]any)
	w.workspace = int64(made["id"].(float64))
	robot := w.newBot("builds", "launch", w.workspace)
	p.platformCall(http.MethodPut, strings.TrimSuffix(w.org, "/workspaces")+"/members/add", p.token, map[string]any{"user": "new@example.org"})
	p.platformCall(http.MethodPut, fmt.Sprintf("%s/%d/participants/add", w.org, w.workspace), p.token, map[string]any{"userNameOrEmail": "new@example.org"})
	var answers []map[string]any
	var requests []map[string]any
	for i := range 3 {
		requests = append(requests, environment(base, fmt.Sprintf("tool-%d", i)))
	}
	requests = append(requests, map[string]any{"containerImage": base, "containerConfig": map[string]any{"env": []string{"A=b"}}})
	private := environment(base, "tool-0", "tool-1")
	private["platformAccessToken"] = tokens["user-1"]
	ofRobot := environment(base, "tool-0", "tool-2")
	ofRobot["platformAccessToken"], ofRobot["platformWorkspaceId"] = strings.TrimPrefix(robot.header[1], "Bearer "), w.workspace
	requests = append(requests, private, ofRobot)
	digests := map[string]string{}
	for _, body := range requests {
		answer := p.order(body)
		if text(answer, "buildId") != "" {
			if got := p.finished(t, answer); got["succeeded"] != true {
				t.Fatalf("%v ended as %v", body, got)
			}
		}
		digests[text(answer, "targetImage")] = p.manifestDigest(t, answer)
		answers = append(answers, answer)
	}
	people := []string{strings.TrimSuffix(w.org, "/workspaces") + "/members", fmt.Sprintf("%s/%d/participants", w.org, w.workspace)}
	return contents{tokens, robot, people, requests, answers, digests}
}

// serves checks that all images can be pulled without building any of them again.
func (p *program) serves(t *testing.T, was contents) {
	t.Helper()
	for i, answer := range was.answers {
		if got := p.manifestDigest(t, answer); got != was.digests[text(answer, "targetImage")] {
			t.Errorf("the digest of %s is %s, and was %s", text(answer, "targetImage"), got, was.digests[text(answer, "targetImage")])
		}
		again := p.order(was.requests[i])
		if again["buildId"] != answer["buildId"] || again["buildId"] != nil && again["cached"] != true {
			t.Errorf("the repeated request returned %v, and before %v", again, answer)
		}
	}
}

// manifestDigest returns the digest of the image in a response.
func (p *program) manifestDigest(t *testing.T, answer map[string]any) string {
	t.Helper()
	target := text(answer, "targetImage")
	_, tag, _ := strings.Cut(target[strings.LastIndex(target, "/"):], ":")
	r := request(t, http.MethodGet, v2(target)+"/manifests/"+tag, nil)
	if r.status != http.StatusOK {
		t.Fatalf("pulling %s: %d %s", target, r.status, r.body)
	}
	return r.header.Get("Docker-Content-Digest")
}

var lastAccess = regexp.MustCompile(`"(lastAccess|lastUsed|lastAddress)":("[^"]*"|null)`)

// lists returns the accounts, credentials and builds of users and of the robot, and the members of
// the organisation and the workspace.
func (p *program) lists(t *testing.T, of contents) string {
	t.Helper()
	var out strings.Builder
	list := func(url string, header ...string) {
		r := request(t, http.MethodGet, url, nil, header...)
		if r.status != http.StatusOK {
			t.Fatalf("%s: %d %s", url, r.status, r.body)
		}
		fmt.Fprintf(&out, "%s %s\n", url, lastAccess.ReplaceAll(r.body, nil))
	}
	list(p.platform+"/user-info", of.robot.header...)
	list(p.url+"/v1alpha1/containers", of.robot.header...)
	for _, at := range []string{of.robot.path[:strings.LastIndex(of.robot.path, "/")], of.robot.path + "/tokens"} {
		list(p.platform+at+of.robot.query, "Authorization", "Bearer "+p.token)
	}
	before := out.Len()
	for _, at := range of.people {
		list(p.platform+at, "Authorization", "Bearer "+p.token)
	}
	if n := strings.Count(strings.ReplaceAll(out.String()[before:], " ", ""), `"invitation":{"invitedBy":"admin"`); n != len(of.people) {
		t.Errorf("%d invitations in the lists of members and participants instead of %d:\n%s", n, len(of.people), out.String()[before:])
	}
	for i := -1; i < len(of.tokens)-1; i++ {
		name := ""
		if i >= 0 {
			name = fmt.Sprint("user-", i)
		}
		for _, url := range []string{p.platform + "/user-info", p.platform + "/credentials", p.url + "/v1alpha1/builds", p.url + "/v1alpha1/containers"} {
			list(url, "Authorization", "Bearer "+of.tokens[name])
		}
	}
	return out.String()
}

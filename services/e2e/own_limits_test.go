package e2e

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"slipway.dev/services/internal/testkit"
)

// limited is a team with registries to build from and to push to.
type limited struct {
	*team
	base, own string
	orgID     string
	built     int
}

// setLimit sets a limit as the administrator; "" deletes it.
func (l *limited) setLimit(of, id, kind, value string) {
	l.t.Helper()
	path := "/admin/limits/" + of + "/" + id + "/" + kind
	if value == "" {
		l.platformCall(http.MethodDelete, path, l.token, nil)
		return
	}
	l.platformCall(http.MethodPut, path, l.token, map[string]any{"value": value})
}

// build orders a new build in a workspace.
func (l *limited) build(workspace int64, header ...string) reply {
	l.t.Helper()
	l.built++
	body := frozen(l.base, l.own+"/team/frozen", map[string]any{"env": []string{fmt.Sprintf("N=%d", l.built)}})
	body["platformWorkspaceId"] = workspace
	return l.call(http.MethodPost, "/v1alpha2/container", body, header...)
}

func (l *limited) header(who string) []string {
	return []string{"Authorization", "Bearer " + l.tokens[who]}
}

// wantExhausted checks that a response is that of a limit of an organisation or a workspace.
func wantExhausted(t *testing.T, what string, r reply, code, of, message string) {
	t.Helper()
	body := string(r.body)
	if r.status != http.StatusTooManyRequests || r.header.Get("Retry-After") == "" || !strings.Contains(body, `"code":"`+code+`"`) ||
		of != "" && !strings.Contains(strings.ReplaceAll(body, " ", ""), `"details":{"of":"`+of+`"}`) || !strings.Contains(body, message) {
		t.Errorf("%s: %d %s %v", what, r.status, body, r.header)
	}
}

// eventually repeats a call until its status is as wanted.
func eventually(t *testing.T, what string, status int, call func() reply) reply {
	t.Helper()
	var last reply
	testkit.Until(t, what, func() error {
		if last = call(); last.status != status {
			return fmt.Errorf("%d %s", last.status, last.body)
		}
		return nil
	})
	return last
}

// TestOwnLimits sets limits of an organisation, a workspace and a user while the program runs, and uses
// them up in all roles that count calls.
func TestOwnLimits(t *testing.T) {
	t.Parallel()
	up := testkit.NewRegistry(t, testkit.Basic)
	base := up.Push(t, "team/base:1", testkit.Image(t, "amd64", true))
	lab := webChannel(t)
	more := settings{
		"limit_platform": "0", "limit_pulls_user": "2/1h", "master_key_file": newMasterKey(t),
		"conda_channel_alias": lab.URL, "conda_channels": "bioconda=" + lab.URL + "/lab",
	}
	eachCopyShape(t, []string{up.Host}, more, func(t *testing.T, p *program) {
		l := &limited{team: newTeam(p, up.Host), base: base, own: up.Host}
		l.orgID = strings.Split(l.org, "/")[2]
		l.buildsOfOrganization(t)
		l.minutesOfOrganization(t)
		l.pullsOfUser(t)
		l.otherRoles(t)
		l.rights(t)
		if p.redis != nil {
			l.redisDies(t)
		}
	})
}

// buildsOfOrganization uses up the budget of an organisation with two users and a robot.
func (l *limited) buildsOfOrganization(t *testing.T) {
	t.Helper()
	bot := l.newBot("ci", "launch", l.workspace)
	l.setLimit("organization", l.orgID, "builds", "4/1h")
	testkit.Until(t, "the limit applies", func() error {
		r := l.call(http.MethodGet, "/api/orgs/"+l.orgID+"/limits", nil, "Authorization", "Bearer "+l.token)
		if !strings.Contains(string(r.body), `"remaining":4`) {
			return fmt.Errorf("%d %s", r.status, r.body)
		}
		return nil
	})
	// A build that was admitted before the build service knew the limit is not charged to it.
	built := 0
	testkit.Until(t, "the budget is used up", func() error {
		for _, header := range [][]string{l.header("launch"), l.header("maintain"), bot.header} {
			if r := l.build(l.workspace, header...); r.status == http.StatusOK {
				built++
			} else if r.status == http.StatusTooManyRequests {
				return nil
			} else {
				t.Fatalf("a build: %d %s", r.status, r.body)
			}
		}
		return fmt.Errorf("%d builds", built)
	})
	if built < 4 {
		t.Errorf("%d builds were admitted", built)
	}
	for who, header := range map[string][]string{"one user": l.header("launch"), "another user": l.header("maintain"), "the robot": bot.header, "the owner": {"Authorization", "Bearer " + l.token}} {
		wantExhausted(t, who, l.build(l.workspace, header...), "limit.builds", "organization", "the limit of the organisation is 4 in 1h; try again in")
	}
	other := l.platformCall(http.MethodPost, "/orgs", l.token, map[string]any{"organization": map[string]any{"name": "other"}})["organization"].(map[string]any)
	path := fmt.Sprintf("/orgs/%.0f/workspaces", other["orgId"])
	made := l.platformCall(http.MethodPost, path, l.token, map[string]any{"workspace": map[string]any{"name": "bench"}})["workspace"].(map[string]any)
	elsewhere := int64(made["id"].(float64))
	l.platformCall(http.MethodPost, fmt.Sprintf("/credentials?workspaceId=%d", elsewhere), l.token, map[string]any{"credentials": map[string]any{
		"name": "team", "keys": map[string]any{"userName": testkit.User, "password": testkit.Password, "registry": l.own},
	}})
	if r := l.build(elsewhere, "Authorization", "Bearer "+l.token); r.status != http.StatusOK {
		t.Errorf("another organisation: %d %s", r.status, r.body)
	}
	l.setLimit("organization", l.orgID, "builds", "1000/1h")
	eventually(t, "the limit is raised", http.StatusOK, func() reply { return l.build(l.workspace, bot.header...) })
}

// minutesOfOrganization uses up the minutes of building of an organisation.
func (l *limited) minutesOfOrganization(t *testing.T) {
	t.Helper()
	l.setLimit("organization", l.orgID, "buildMinutes", "3/24h")
	build := func() reply { return l.build(l.workspace, l.header("launch")...) }
	r := eventually(t, "the minutes are used up", http.StatusTooManyRequests, build)
	wantExhausted(t, "a build without minutes", r, "limit.buildMinutes", "organization", "Too many minutes of building: the limit of the organisation is 3 in 24h; try again in")
	seconds, err := strconv.Atoi(r.header.Get("Retry-After"))
	if err != nil || seconds < 23*60*60 || seconds > 24*60*60 {
		t.Errorf("a build without minutes is to be tried again in %s s", r.header.Get("Retry-After"))
	}
	wantExhausted(t, "another user", l.build(l.workspace, l.header("maintain")...), "limit.buildMinutes", "organization", "")
	list := strings.ReplaceAll(string(l.call(http.MethodGet, "/api/orgs/"+l.orgID+"/limits", nil, "Authorization", "Bearer "+l.token).body), " ", "")
	if !strings.Contains(list, `"kind":"buildMinutes","value":"3/24h"`) || !strings.Contains(list, `"remaining":0`) {
		t.Errorf("the limits of the organisation are %s", list)
	}
	l.setLimit("organization", l.orgID, "buildMinutes", "0")
	eventually(t, "there is no limit of minutes", http.StatusOK, build)
}

// pullsOfUser pulls by a name that was requested before its owner's limit changes.
func (l *limited) pullsOfUser(t *testing.T) {
	t.Helper()
	target := text(l.call(http.MethodPost, "/v1alpha2/container", l.in("launch", map[string]any{"containerImage": l.base})).json(t), "targetImage")
	_, user := l.user("one-launch")
	n := 0
	get := func() reply {
		n++
		return request(t, http.MethodGet, strings.Replace(v2(target), l.host, l.replicas[n%len(l.replicas)], 1)+"/manifests/1", nil)
	}
	spent := func() (allowed int) {
		for range 20 {
			if r := get(); r.status == http.StatusOK {
				allowed++
			} else if r.status != http.StatusTooManyRequests {
				t.Fatalf("a pull: %d %s", r.status, r.body)
			}
		}
		return allowed
	}
	if got := spent(); got != 2 {
		t.Errorf("%d pulls with the limit of all users", got)
	}
	l.setLimit("user", user, "pulls", "7/1h")
	allowed := 0
	testkit.Until(t, "all replicas know the limit", func() error {
		for range 2 * len(l.replicas) {
			if get().status == http.StatusOK {
				allowed++
			}
		}
		if allowed < 5 {
			return fmt.Errorf("%d pulls", allowed)
		}
		return nil
	})
	if allowed += spent(); allowed != 5 {
		t.Errorf("%d pulls more with a limit of 7", allowed)
	}
	l.setLimit("user", user, "pulls", "0")
	eventually(t, "the user has no limit", http.StatusOK, get)
	l.setLimit("workspace", fmt.Sprint(l.workspace), "pulls", "1/2h")
	testkit.Until(t, "the workspace has a limit", func() error { // a replica may still apply the limit of the user
		if r := get(); r.status != http.StatusTooManyRequests || !strings.Contains(string(r.body), "the limit of the workspace is 1 in 2h") || r.header.Get("Retry-After") == "" {
			return fmt.Errorf("a pull: %d %s", r.status, r.body)
		}
		return nil
	})
	inspect := func() reply {
		return l.call(http.MethodPost, "/v1alpha1/inspect", l.in("maintain", map[string]any{"containerImage": l.base}))
	}
	wantExhausted(t, "an inspection by another user", eventually(t, "inspections count as pulls", http.StatusTooManyRequests, inspect),
		"limit.pulls", "workspace", "the limit of the workspace is 1 in 2h")
	l.setLimit("workspace", fmt.Sprint(l.workspace), "pulls", "")
	eventually(t, "the workspace has no limit", http.StatusOK, get)
	eventually(t, "also for inspections", http.StatusOK, inspect)
}

// user returns the user with a name and the user's id.
func (l *limited) user(name string) (user map[string]any, id string) {
	l.t.Helper()
	all := l.platformCall(http.MethodGet, "/admin/users?search="+name, l.token, nil)["users"].([]any)
	user = all[0].(map[string]any)
	return user, fmt.Sprintf("%.0f", user["id"])
}

// otherRoles limits container requests and searches.
func (l *limited) otherRoles(t *testing.T) {
	t.Helper()
	_, user := l.user("one-view")
	l.setLimit("user", user, "searches", "1/1h")
	eventually(t, "searches", http.StatusTooManyRequests, func() reply {
		return l.call(http.MethodGet, "/v1alpha1/conda/packages?q=sam", nil, l.header("view")...)
	})
	l.setLimit("organization", l.orgID, "requests", "1/1h")
	wantExhausted(t, "a request", eventually(t, "requests", http.StatusTooManyRequests, func() reply {
		return l.call(http.MethodPost, "/v1alpha2/container", l.in("maintain", map[string]any{"containerImage": l.base}))
	}), "limit.requests", "organization", "the limit of the organisation is 1 in 1h")
	// A call in the personal workspace is not charged to the organisation: it fails for its login.
	r := l.call(http.MethodPost, "/v1alpha2/container", map[string]any{"containerImage": l.base, "platformAccessToken": l.tokens["maintain"]})
	if r.status == http.StatusTooManyRequests {
		t.Errorf("in the personal workspace: %s", r.body)
	}
	l.setLimit("organization", l.orgID, "requests", "")
	eventually(t, "requests without a limit", http.StatusOK, func() reply {
		return l.call(http.MethodPost, "/v1alpha2/container", l.in("maintain", map[string]any{"containerImage": l.base}))
	})
}

// rights tries to read and change limits as users who may not.
func (l *limited) rights(t *testing.T) {
	t.Helper()
	path := "/api/admin/limits/organization/" + l.orgID + "/builds"
	for _, who := range []string{"owner", "admin", "view"} {
		for _, c := range []struct{ method, path string }{
			{http.MethodPut, path}, {http.MethodDelete, path}, {http.MethodGet, "/api/admin/limits"}, {http.MethodGet, "/api/orgs/" + l.orgID + "/limits"},
		} {
			if r := l.call(c.method, c.path, map[string]any{"value": "0"}, l.header(who)...); r.status != http.StatusForbidden {
				t.Errorf("%s %s as %s: %d %s", c.method, c.path, who, r.status, r.body)
			}
		}
	}
	of := fmt.Sprintf("/api/orgs/%s/limits?workspaceId=%d", l.orgID, l.workspace)
	if r := l.call(http.MethodGet, of, nil, l.header("admin")...); r.status != http.StatusOK {
		t.Errorf("an admin of the workspace: %d %s", r.status, r.body)
	}
	if r := l.call(http.MethodGet, of, nil, l.header("maintain")...); r.status != http.StatusForbidden {
		t.Errorf("no admin of the workspace: %d %s", r.status, r.body)
	}
	for _, value := range []string{"-1/1h", "1000000001/1h", "1/10000h", ""} {
		if r := l.call(http.MethodPut, path, map[string]any{"value": value}, "Authorization", "Bearer "+l.token); r.status != http.StatusBadRequest {
			t.Errorf("the value %q: %d %s", value, r.status, r.body)
		}
	}
	events := string(l.call(http.MethodGet, "/api/admin/audit?action=limit.*&subject=organization/"+l.orgID+"/builds", nil, "Authorization", "Bearer "+l.token).body)
	if !strings.Contains(events, `"before":{"value":"4/1h"}`) || !strings.Contains(events, `"after":{"value":"1000/1h"}`) {
		t.Errorf("the audit trail has %s", events)
	}
}

// redisDies kills Redis: builds are admitted without being counted, and counted again afterwards.
func (l *limited) redisDies(t *testing.T) {
	t.Helper()
	build := func() reply { return l.build(l.workspace, l.header("launch")...) }
	l.setLimit("organization", l.orgID, "builds", "1/1h")
	eventually(t, "the limit is lowered", http.StatusTooManyRequests, build)
	l.redis.Kill()
	eventually(t, "builds without Redis", http.StatusOK, build)
	if err := l.redis.Start(); err != nil {
		t.Fatal(err)
	}
	r := eventually(t, "Redis is used again", http.StatusTooManyRequests, build)
	if !strings.Contains(string(r.body), "of the organisation") {
		t.Errorf("with Redis: %s", r.body)
	}
}

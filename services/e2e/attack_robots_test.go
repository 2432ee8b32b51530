package e2e

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"slipway.dev/services/internal/testkit"
)

// bot is a robot of a test, with a token that has all scopes of robots.
type bot struct {
	path, query string // of the calls that administer the robot
	header      []string
}

// newBot creates a robot of the team's organisation, or of a workspace of it if workspace is not 0.
func (w *team) newBot(name, role string, workspace int64) bot {
	w.t.Helper()
	b := bot{path: strings.TrimSuffix(w.org, "/workspaces") + "/robots"}
	if workspace != 0 {
		b.query = fmt.Sprintf("?workspaceId=%d", workspace)
	}
	made := w.platformCall(http.MethodPost, b.path+b.query, w.token, map[string]any{"name": name, "role": role})["robot"].(map[string]any)
	b.path += fmt.Sprintf("/%.0f", made["id"])
	token := w.platformCall(http.MethodPost, b.path+"/tokens"+b.query, w.token, map[string]any{
		"name": "all", "scopes": []string{"pull", "request", "build", "freeze", "runs", "credentials:read"},
	})
	b.header = []string{"Authorization", "Bearer " + text(token, "accessKey")}
	return b
}

// TestRobots requests images with robots, until the robots are deleted.
func TestRobots(t *testing.T) {
	t.Parallel()
	up := testkit.NewRegistry(t, testkit.Bearer)
	image := up.Push(t, "team/private:1", testkit.Image(t, "amd64", true))
	more := settings{"limit_platform": "0", "master_key_file": newMasterKey(t), "conda_channel_alias": "http://127.0.0.1:1"} // with all roles
	eachCopyShape(t, []string{up.Host}, more, func(t *testing.T, p *program) {
		w := newTeam(p, up.Host)
		other := p.platformCall(http.MethodPost, w.org, p.token, map[string]any{"workspace": map[string]any{"name": "other"}})["workspace"].(map[string]any)
		outside := int64(other["id"].(float64))
		inside, all, looks := w.newBot("ci", "launch", w.workspace), w.newBot("ci", "launch", 0), w.newBot("looks", "view", w.workspace)
		elsewhere := w.newBot("ci", "launch", outside)
		request := func(b bot, workspace int64) reply {
			return p.call(http.MethodPost, "/v1alpha2/container", map[string]any{"containerImage": image, "platformWorkspaceId": workspace}, b.header...)
		}
		for name, c := range map[string]struct {
			by        bot
			workspace int64
			status    int
		}{
			"of the workspace, in it":                             {inside, w.workspace, http.StatusOK},
			"of the workspace, without workspace":                 {inside, 0, http.StatusOK},
			"of the workspace, in another workspace":              {inside, outside, http.StatusForbidden},
			"of the organisation, in a workspace with a login":    {all, w.workspace, http.StatusOK},
			"of the organisation, without workspace":              {all, 0, http.StatusBadRequest}, // without a login
			"of the organisation, in a workspace without a login": {all, outside, http.StatusBadRequest},
			"with the role view":                                  {looks, w.workspace, http.StatusBadRequest},
			"of another workspace, in this workspace":             {elsewhere, w.workspace, http.StatusForbidden},
			"of another workspace, in its own":                    {elsewhere, 0, http.StatusBadRequest},
		} {
			if r := request(c.by, c.workspace); r.status != c.status {
				t.Errorf("%s: %d %s, want %d", name, r.status, r.body, c.status)
			}
		}
		made := request(inside, 0).json(t)
		pull(t, text(made, "targetImage"), "amd64")
		id := text(made, "requestId")
		if list := string(p.call(http.MethodGet, "/v1alpha1/containers", nil, inside.header...).body); !strings.Contains(list, id) {
			t.Errorf("the robot lists %s", list)
		}
		for name, b := range map[string]bot{"another robot of the workspace": looks, "of another workspace": elsewhere, "of the organisation": all} {
			if list := string(p.call(http.MethodGet, "/v1alpha1/containers", nil, b.header...).body); strings.Contains(list, id) {
				t.Errorf("%s lists %s", name, list)
			}
			if r := p.call(http.MethodPost, "/v1alpha2/container/"+id+"/name", nil, b.header...); r.status != http.StatusForbidden {
				t.Errorf("%s gets a fresh name: %d %s", name, r.status, r.body)
			}
		}
		w.robotIsNoPerson(t, inside)
		w.changeRobot(t, inside, func() reply { return request(inside, 0) })
		w.endRobots(t, inside, all, id)
	})
}

// robotIsNoPerson makes the calls that only users may make with a robot's token.
func (w *team) robotIsNoPerson(t *testing.T, b bot) {
	t.Helper()
	for _, c := range []struct {
		method, path string
		body         any
	}{
		{http.MethodGet, "/api/tokens", nil},
		{http.MethodPost, "/api/tokens", map[string]any{"name": "mine"}},
		{http.MethodDelete, "/api/tokens/delete-all", nil},
		{http.MethodPost, "/api" + b.path + "/tokens" + b.query, map[string]any{"name": "more", "scopes": []string{"pull"}}},
		{http.MethodGet, "/api" + b.path + "/tokens" + b.query, nil},
		{http.MethodGet, "/api" + b.path + b.query, nil},
		{http.MethodPut, "/api" + b.path + b.query, map[string]any{"role": "launch"}},
		{http.MethodDelete, "/api" + b.path + b.query, nil},
		{http.MethodPost, "/api/orgs", map[string]any{"organization": map[string]any{"name": "mine"}}},
		{http.MethodGet, "/api/admin/users", nil},
		{http.MethodGet, "/api/admin/audit", nil},
		{http.MethodGet, "/v1alpha1/queue", nil},
		{http.MethodGet, "/v1alpha2/metrics/builds", nil},
	} {
		w.call(c.method, c.path, c.body, b.header...).lacks(t, c.method+" "+c.path, "admin")
	}
	for _, path := range []string{fmt.Sprintf("%s/%d/participants", w.org, w.workspace), strings.TrimSuffix(w.org, "workspaces") + "members", "/admin/users"} {
		if r := w.call(http.MethodGet, "/api"+path, nil, "Authorization", "Bearer "+w.token); strings.Contains(string(r.body), "robot:") || r.status != http.StatusOK {
			t.Errorf("%s: %d %s", path, r.status, r.body)
		}
	}
	r := w.call(http.MethodGet, "/api/user-info", nil, b.header...)
	if user, _ := r.json(t)["user"].(map[string]any); text(user, "userName") != "robot:lab/bench/ci" || text(user, "email") != "" {
		t.Errorf("the robot is %s", r.body)
	}
}

// changeRobot gives a robot a lower role, with which its token loses the logins of the workspace, and
// then its first role again. Other processes delete cached logins when they receive the change.
func (w *team) changeRobot(t *testing.T, b bot, request func() reply) {
	t.Helper()
	for _, c := range []struct {
		role   string
		status int
	}{{"view", http.StatusBadRequest}, {"launch", http.StatusOK}} {
		got := w.platformCall(http.MethodPut, b.path+b.query, w.token, map[string]any{"role": c.role, "description": "Now " + c.role})["robot"].(map[string]any)
		if text(got, "role") != c.role || text(got, "description") != "Now "+c.role {
			t.Errorf("the robot is %v", got)
		}
		eventually(t, "a request with the role "+c.role, c.status, request)
	}
	if got := w.platformCall(http.MethodGet, b.path+b.query, w.token, nil)["robot"].(map[string]any); text(got, "description") != "Now launch" {
		t.Errorf("the robot is %v", got)
	}
}

// endRobots deletes one robot, and the other with its organisation.
func (w *team) endRobots(t *testing.T, one, all bot, id string) {
	t.Helper()
	if r := w.call(http.MethodDelete, "/api"+one.path+one.query, nil, "Authorization", "Bearer "+w.token); r.status != http.StatusNoContent {
		t.Fatalf("deleting: %d %s", r.status, r.body)
	}
	for _, path := range []string{"/v1alpha1/containers", "/api/user-info"} {
		if r := w.call(http.MethodGet, path, nil, one.header...); r.status != http.StatusUnauthorized && r.status != http.StatusForbidden {
			t.Errorf("%s after the deletion: %d %s", path, r.status, r.body)
		}
		if r := w.call(http.MethodGet, path, nil, all.header...); r.status != http.StatusOK {
			t.Errorf("%s of the other robot: %d %s", path, r.status, r.body)
		}
	}
	events := string(w.call(http.MethodGet, "/api/admin/audit?max=1000", nil, "Authorization", "Bearer "+w.token).body)
	for _, want := range []string{`"robot.create"`, `"robot-token.create"`, `"robot.update"`, `"robot.delete"`, `"actor":"robot:lab/bench/ci"`, `"action":"call.DeleteRobot"`} {
		if !strings.Contains(events, want) {
			t.Errorf("the audit trail lacks %s: %s", want, events)
		}
	}
	if strings.Contains(events, strings.TrimPrefix(one.header[1], "Bearer ")) {
		t.Error("the audit trail has a token")
	}
	if r := w.call(http.MethodPost, "/v1alpha2/container/"+id+"/name", nil, one.header...); r.status == http.StatusOK {
		t.Errorf("a fresh name for the deleted robot: %d %s", r.status, r.body)
	}
}

package e2e

import (
	"fmt"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"slipway.dev/services/internal/sqldb"
	"slipway.dev/services/internal/testkit"
)

// TestOwnRetention sets for how many days requests of one of two organisations can be described, with
// REST and with the command line, and makes requests older in the database. After a restart only the
// requests of that organisation whose names have expired are deleted.
func TestOwnRetention(t *testing.T) {
	t.Parallel()
	up := testkit.NewRegistry(t, testkit.Open)
	image := up.Push(t, "lib/tool:1", testkit.Image(t, "amd64", true))
	eachShape(t, []string{up.Host}, settings{"limit_platform": "0"}, func(t *testing.T, p *program) {
		admin := []string{"Authorization", "Bearer " + p.token}
		lab, other := p.makeWorkspace("lab", "bench"), p.makeWorkspace("other", "bench")
		orgs := map[string]string{}
		for _, o := range p.platformCall(http.MethodGet, "/orgs", p.token, nil)["organizations"].([]any) {
			org := o.(map[string]any)
			orgs[org["name"].(string)] = fmt.Sprintf("%.0f", org["orgId"])
		}
		submit := func(workspace string) map[string]any {
			id, err := strconv.ParseInt(workspace, 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			return p.call(http.MethodPost, "/v1alpha2/container", map[string]any{"containerImage": image, "platformAccessToken": p.token, "platformWorkspaceId": id}).json(t)
		}
		describe := func(r map[string]any) reply {
			return p.call(http.MethodGet, "/v1alpha2/container/"+text(r, "requestId"), nil)
		}
		expired := map[string]map[string]any{"lab": submit(lab), "other": submit(other), "personal": submit("0")}

		path := "/api/admin/limits/organization/" + orgs["lab"] + "/requestDays"
		for _, value := range []string{"91", "0.5", "12h", "-1", ""} {
			if r := p.call(http.MethodPut, path, map[string]any{"value": value}, admin...); r.status != http.StatusBadRequest {
				t.Errorf("%q days: %d %s", value, r.status, r.body)
			}
		}
		if r := p.call(http.MethodPut, "/api/admin/limits/workspace/"+lab+"/requestDays", map[string]any{"value": "1"}, admin...); r.status != http.StatusBadRequest {
			t.Errorf("of a workspace: %d %s", r.status, r.body)
		}
		if r := p.call(http.MethodPut, path, map[string]any{"value": "1"}, admin...); r.status != http.StatusOK {
			t.Fatalf("with REST: %d %s", r.status, r.body)
		}
		if out, errs, err := p.slipway("limits", "set", "organization", "other", "requestDays", "30"); err != nil || !strings.Contains(out, "requestDays  30") {
			t.Fatalf("%s %s %v", out, errs, err)
		}
		if out, errs, err := p.slipway("limits", "show", "lab"); err != nil || !strings.Contains(out, "requestDays  1 ") {
			t.Errorf("%s %s %v", out, errs, err)
		}
		if _, errs, err := p.slipway("limits", "set", "organization", "other", "requestDays", "91"); err == nil || !strings.Contains(errs, "at most 90 days") {
			t.Errorf("91 days: %s %v", errs, err)
		}
		events := strings.ReplaceAll(string(p.call(http.MethodGet, "/api/admin/audit?action=limit.set&subject=organization/"+orgs["lab"]+"/requestDays", nil, admin...).body), " ", "")
		if !strings.Contains(events, `"after":{"value":"1"}`) {
			t.Errorf("the audit trail has %s", events)
		}

		p.ageRequests(t, 3)
		valid := submit(lab)
		for name, r := range expired {
			if got := describe(r); got.status != http.StatusOK {
				t.Errorf("%s, before it is deleted: %d %s", name, got.status, got.body)
			}
		}
		for _, proc := range p.procs {
			if proc.name == "all" || strings.HasPrefix(proc.name, "container-") {
				if err := proc.stop(); err != nil {
					t.Fatal(err)
				}
				proc.start()
			}
		}
		eventually(t, "the request of lab is deleted", http.StatusNotFound, func() reply { return describe(expired["lab"]) })
		for name, r := range map[string]map[string]any{"other": expired["other"], "personal": expired["personal"], "lab, valid": valid} {
			if got := describe(r); got.status != http.StatusOK {
				t.Errorf("%s: %d %s", name, got.status, got.body)
			}
		}
		if r := request(t, http.MethodGet, v2(text(valid, "targetImage"))+"/manifests/1", nil); r.status != http.StatusOK {
			t.Errorf("pulling the valid name: %d %s", r.status, r.body)
		}
		list := string(p.call(http.MethodGet, "/v1alpha1/containers", nil, admin...).body)
		if strings.Contains(list, text(expired["lab"], "requestId")) || !strings.Contains(list, text(expired["other"], "requestId")) {
			t.Errorf("the list is %s", list)
		}
	})
}

// ageRequests makes all names of the database expire a number of days earlier than now.
func (p *program) ageRequests(t *testing.T, days int) {
	t.Helper()
	url := "sqlite:" + filepath.Join(p.procs[0].env["data_dir"], "slipway.db")
	if p.postgres != nil {
		url = p.postgres.URL
	}
	db, err := sqldb.Open(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	// Names are valid for a day and a half.
	if _, err := db.ExecContext(t.Context(), `UPDATE container_requests SET expires_at = expires_at - $1`, int64(days+2)*24*3600*1_000_000); err != nil {
		t.Fatal(err)
	}
}

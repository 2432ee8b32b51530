package main

import (
	"strings"
	"testing"
)

// TestAudit lists audit events as a table and as lines of JSON.
func TestAudit(t *testing.T) {
	t.Parallel()
	server := asked(t, map[string]string{
		"GET /api/admin/audit?actor=ada&max=2":                                `{"events":[{"sequence":9,"at":"2026-01-31T12:00:00Z","actor":"ada","client":"192.0.2.1","action":"token.create","subject":"5"},{"sequence":8,"actor":"ada","action":"sign-in","refused":true,"reason":"The access token is not valid"}],"next":8}`,
		"GET /api/admin/audit?action=user.%2A&max=1000&refused=true":          `{"events":[{"sequence":9,"actor":"ada"}],"next":9}`,
		"GET /api/admin/audit?action=user.%2A&before=9&max=1000&refused=true": `{"events":[{"sequence":3,"actor":"bob"}],"next":null}`,
	})
	for args, want := range map[string]string{
		"audit --actor ada --limit 2":                        "rejected: The access token is not valid",
		"audit --actor ada --limit 2 -o name":                "9\n8\n",
		"audit --lines --action user.* --refused":            "{\"sequence\":9,\"actor\":\"ada\"}\n{\"sequence\":3,\"actor\":\"bob\"}\n",
		"audit --actor ada --limit 2 --jq .events[0].action": "token.create",
	} {
		got := slipway(t.Context(), map[string]string{"SLIPWAY_TOKEN": "secret"}, append(strings.Fields(args), "--server", server)...)
		if got.code != 0 || !strings.Contains(got.out, want) {
			t.Errorf("%s: %+v; want %q", args, got, want)
		}
	}
}

// TestUsage shows the usage of each kind of owner, as a table, JSON and CSV.
func TestUsage(t *testing.T) {
	t.Parallel()
	const row = `"builds":2,"buildSeconds":95,"pulls":7,"filesystemPulls":0}]}`
	server := asked(t, map[string]string{
		"GET /api/user/usage": `{"from":"2026-02-01","to":"2026-02-28","rows":[{"userId":7,"userName":"ada",` + row,
		"GET /api/user/usage?by=day%2Corganization&from=2026-02-01&to=2026-02-02": `{"from":"2026-02-01","to":"2026-02-02","rows":[{"day":"2026-02-01","orgId":5,` + row,
		"GET /api/user/usage?by=day":                `{"from":"2026-02-01","to":"2026-02-28","rows":[]}`,
		"GET /api/orgs?max=1000":                    `{"organizations":[{"orgId":5,"name":"lab"}]}`,
		"GET /api/admin/usage?by=workspace&orgId=5": `{"rows":[{"workspaceId":8,"workspaceName":"rnaseq","orgId":5,"orgName":"lab",` + row,
		"GET /api/admin/usage?orgId=6":              `{"rows":[{"userId":9,` + row,
		"GET /api/admin/usage?workspaceId=8":        `{"rows":[{"userId":7,"userName":"ada",` + row,
		"GET /api/admin/usage?format=csv":           "user_id,pulls\r\n7,3\r\n",
	})
	for _, c := range []struct {
		args, want string // of the output, or of the error after a "!"
	}{
		{"usage", "USER  BUILDS  BUILD TIME  PULLS\nada   2       1m35s       7\n"},
		{"usage --by day,organization --from 2026-02-01 --to 2026-02-02", "2026-02-01  5             2       1m35s       7\n"},
		{"usage --org lab --by workspace", "lab/rnaseq  2 "},
		{"usage --org 6 -o name", "9\n"},
		{"usage --workspace 8 -o yaml", "userName: ada\n"},
		{"usage --workspace 8 --jq .rows[0].pulls", "7\n"},
		{"usage --all --csv", "user_id,pulls\r\n7,3\r\n"},
		{"usage --by day", "!Nothing was built or pulled from 2026-02-01 to 2026-02-28."},
		{"usage --org other", "!no organisation of yours called"},
		{"usage --from yesterday", "!--from must be a day such as 2026-02-28"},
		{"usage --all --org lab", "!org"},
		{"usage --all --csv -o json", "!csv"},
	} {
		got := slipway(t.Context(), map[string]string{"SLIPWAY_TOKEN": "secret"}, append(strings.Fields(c.args), "--server", server)...)
		out, want := got.out, c.want
		if strings.HasPrefix(want, "!") {
			out, want = got.errs, want[1:]
		}
		if !strings.Contains(out, want) {
			t.Errorf("%s: %+v; want %q", c.args, got, c.want)
		}
	}
}

// TestOrganisations creates, lists and deletes organisations, workspaces and memberships.
func TestOrganisations(t *testing.T) {
	t.Parallel()
	server := asked(t, map[string]string{
		"GET /api/orgs?max=1000": `{"organizations":[{"orgId":5,"name":"lab","fullName":"The lab","memberRole":"owner"}]}`,
		`POST /api/orgs {"organization":{"name":"new","fullName":"new","description":""}}`: `{"organization":{"orgId":6,"name":"new"}}`,
		"DELETE /api/orgs/5":                  "",
		"GET /api/orgs/5/workspaces?max=1000": `{"workspaces":[{"id":8,"name":"rnaseq"}]}`,
		`POST /api/orgs/5/workspaces {"workspace":{"name":"w","fullName":"w","description":"","visibility":"SHARED"}}`: `{"workspace":{"id":9,"name":"w"}}`,
		"DELETE /api/orgs/5/workspaces/8":                                         "",
		"GET /api/orgs/5/members?max=1000":                                        `{"members":[{"memberId":3,"userName":"ada","email":"ada@example.org","role":"member"},{"memberId":7,"userName":"new@example.org","email":"new@example.org","role":"member","invitation":{"invitedBy":"bob","expires":"2026-03-02T12:00:00Z"}}]}`,
		"GET /api/orgs/5/members?max=1000&search=ada":                             `{"members":[{"memberId":9,"userName":"adam","email":"ada@example.org","role":"member"},{"memberId":3,"userName":"ada","email":"a@example.org","role":"member"}]}`,
		"GET /api/orgs/5/members?max=1000&search=ada%40example.org":               `{"members":[{"memberId":3,"userName":"ada","email":"ada@example.org","role":"member"},{"memberId":8,"userName":"ada@example.org","email":"ada@example.org","role":"member","invitation":{"invitedBy":"bob","expires":"2026-03-02T12:00:00Z"}}]}`,
		"GET /api/orgs/5/members?max=1000&search=two%40example.org":               `{"members":[{"memberId":3,"userName":"ada","email":"two@example.org","role":"member"},{"memberId":8,"userName":"bob","email":"Two@example.org","role":"member"}]}`,
		"GET /api/orgs/5/members?max=1000&search=eve":                             `{"members":[{"memberId":4,"userName":"steve","email":"steve@example.org","role":"member"}]}`,
		"GET /api/orgs/5/members?max=1000&search=NEW%40example.org":               `{"members":[{"memberId":7,"userName":"new@example.org","email":"new@example.org","role":"member","invitation":{"invitedBy":"bob","expires":"2026-03-02T12:00:00Z"}}]}`,
		"GET /api/orgs/5/workspaces/8/participants?max=1000&search=ada":           `{"participants":[{"participantId":2,"userName":"ada","email":"ada@example.org","wspRole":"view"}]}`,
		`PUT /api/orgs/5/members/add {"user":"New@example.org"}`:                  `{"member":{"memberId":7,"userName":"new@example.org","email":"new@example.org","role":"member","invitation":{"expires":"2026-03-02T12:00:00Z"}}}`,
		`PUT /api/orgs/5/members/7/role {"role":"owner"}`:                         "",
		"DELETE /api/orgs/5/members/7":                                            "",
		`PUT /api/orgs/5/members/add {"user":"bob"}`:                              `{"member":{"memberId":4,"userName":"bob"}}`,
		`PUT /api/orgs/5/members/3/role {"role":"owner"}`:                         "",
		"DELETE /api/orgs/5/members/3":                                            "",
		"GET /api/orgs/5/workspaces/8/participants?max=1000":                      `{"participants":[{"participantId":2,"userName":"ada","email":"ada@example.org","wspRole":"view"}]}`,
		`PUT /api/orgs/5/workspaces/8/participants/add {"userNameOrEmail":"ada"}`: `{"participant":{"participantId":2,"userName":"ada"}}`,
		`PUT /api/orgs/5/workspaces/8/participants/2/role {"role":"launch"}`:      "",
		"DELETE /api/orgs/5/workspaces/8/participants/2":                          "",
	})
	for _, c := range []struct {
		args string
		want string // of the output, or of the error after a "!"
	}{
		{"org list", "lab"},
		{"org create new", "Created the organisation  new"},
		{"org delete lab", "Deleted the organisation lab."},
		{"org delete nowhere", `!there is no organisation of yours called "nowhere"`},
		{"workspace create lab/w --shared", "with the id 9"},
		{"workspace create w", "!ORGANISATION/NAME"},
		{"workspace delete lab/rnaseq", "Deleted the workspace lab/rnaseq."},
		{"workspace delete lab", "!ORGANISATION/NAME"},
		{"member list lab", "ada@example.org"},
		{"member add lab bob", "Added bob to lab."},
		{"member role lab ada owner", "ada is owner of lab now."},
		{"member remove lab ada@example.org", "ada@example.org is no longer a member of lab."},
		{"member remove lab two@example.org", "!several members of lab have the address"},
		{"member remove lab eve", `!no member of lab called "eve"`},
		{"member list lab", "new@example.org  new@example.org  member  "},
		{"member list lab -o name", "ada\nnew@example.org\n"},
		{"member add lab New@example.org", "Invited new@example.org to lab. The invitation waits for the first sign-in with this address until 2026-03-02"},
		{"member add lab New@example.org --role owner", "new@example.org is invited as owner of lab until 2026-03-02"},
		{"member remove lab NEW@example.org", "new@example.org is no longer invited to lab."},
		{"member list lab/rnaseq", "view"},
		{"member add lab/rnaseq ada --role launch", "ada is launch of lab/rnaseq now."},
		{"member remove lab/rnaseq ada", "no longer a member of lab/rnaseq"},
		{"member list lab/nowhere", `!no workspace of lab called "nowhere"`},
	} {
		got := slipway(t.Context(), map[string]string{"SLIPWAY_TOKEN": "secret"}, append(strings.Fields(c.args), "--server", server)...)
		want, fails := strings.CutPrefix(c.want, "!")
		text := got.out
		if fails {
			text = got.errs
		}
		if fails == (got.code == 0) || !strings.Contains(text, want) {
			t.Errorf("%s: %+v; want %q", c.args, got, c.want)
		}
	}
}

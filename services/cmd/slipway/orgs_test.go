package main

import (
	"strings"
	"testing"
)

// TestOrganisations makes, shows and ends organisations, workspaces and memberships.
func TestOrganisations(t *testing.T) {
	t.Parallel()
	server := asked(t, map[string]string{
		"GET /api/orgs?max=1000": `{"organizations":[{"orgId":5,"name":"lab","fullName":"The lab","memberRole":"owner"}]}`,
		`POST /api/orgs {"organization":{"name":"new","fullName":"new","description":""}}`: `{"organization":{"orgId":6,"name":"new"}}`,
		"DELETE /api/orgs/5":                  "",
		"GET /api/orgs/5/workspaces?max=1000": `{"workspaces":[{"id":8,"name":"rnaseq"}]}`,
		`POST /api/orgs/5/workspaces {"workspace":{"name":"w","fullName":"w","description":"","visibility":"SHARED"}}`: `{"workspace":{"id":9,"name":"w"}}`,
		"DELETE /api/orgs/5/workspaces/8":                                         "",
		"GET /api/orgs/5/members?max=1000":                                        `{"members":[{"memberId":3,"userName":"ada","email":"ada@example.org","role":"member"}]}`,
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
		{"org create new", "Made the organisation  new"},
		{"org delete lab", "Deleted the organisation lab."},
		{"org delete nowhere", `!there is no organisation of yours called "nowhere"`},
		{"workspace create lab/w --shared", "with the id 9"},
		{"workspace create w", "!ORGANISATION/NAME"},
		{"workspace delete lab/rnaseq", "Deleted the workspace lab/rnaseq."},
		{"workspace delete lab", "!ORGANISATION/NAME"},
		{"member list lab", "ada@example.org"},
		{"member add lab bob", "Added bob to lab."},
		{"member role lab ada owner", "ada is owner of lab now."},
		{"member remove lab ada@example.org", "ada@example.org is no member of lab any more."},
		{"member remove lab eve", `!no member of lab called "eve"`},
		{"member list lab/rnaseq", "view"},
		{"member add lab/rnaseq ada --role launch", "ada is launch of lab/rnaseq now."},
		{"member remove lab/rnaseq ada", "no member of lab/rnaseq"},
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

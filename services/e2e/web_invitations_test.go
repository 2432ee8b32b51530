package e2e

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp/kb"
)

// invitedRow is the list entry of an invitation, as JavaScript.
const invitedRow = `[...document.querySelectorAll(".rows li")].find((l) => l.innerText.includes("new@example.org"))`

// TestWebPageOfInvitations invites an address that no user has to an organisation and its workspace.
// The page must show that the invitations wait, and revoke them. A participant who may not invite
// only sees the invitation.
func TestWebPageOfInvitations(t *testing.T) {
	t.Parallel()
	browser := newChromium(t)
	// The test opens more pages in a second than a user, each with several calls.
	more := withProvider(t, settings{"master_key_file": newMasterKey(t), "limit_platform": "0"})
	eachShape(t, nil, more, func(t *testing.T, p *program) {
		p.makeWorkspace("lab", "rnaseq")
		theirToken := p.newUser("max")
		for _, args := range [][]string{{"member", "add", "lab", "max"}, {"member", "add", "lab/rnaseq", "max", "--role", "view"}} {
			if out, errs, err := p.slipway(args...); err != nil {
				t.Fatalf("%q: %s %s %v", args, out, errs, err)
			}
		}
		b, theirs := openTab(t, browser, p.url+"/view/workspaces"), openTab(t, browser, p.url+"/view/workspaces")
		b.signIn(adminToken)
		theirs.signIn(theirToken)
		b.openPlace(`.head a`, "lab")
		b.invite(p, "owner")
		b.good("invitation to an organisation", p.url)
		b.fill("#who", "new@EXAMPLE.org"+kb.Enter)
		b.await(`document.querySelector(".problem")?.innerText.includes("new@example.org is invited already")`)
		b.openPlace(`.back a`, "Workspaces")
		b.openPlace(`.rows .what a`, "lab / rnaseq")
		b.invite(p, "maintain")
		theirs.openPlace(`.rows .what a`, "lab / rnaseq")
		theirs.await(invitedRow + `?.querySelector(".tag").innerText === "maintain" && !` + invitedRow + `.querySelector("button, select")`)
		theirs.good("invitation of others", p.url)
		b.openPlace(`.back a`, "Workspaces")
		b.openPlace(`.head a`, "lab")
		b.await(invitedRow + `?.querySelector("select").value === "owner"`)
		b.eval(invitedRow + `.querySelector("button").click()`)
		b.await(invitedRow + `.querySelector(".bad")?.innerText.startsWith("Yes, revoke")`)
		b.eval(invitedRow + `.querySelector(".bad").click()`)
		b.await(`!` + invitedRow + ` && document.querySelector(".rows li")`)
		b.openPlace(`.back a`, "Workspaces")
		b.openPlace(`.rows .what a`, "lab / rnaseq")
		b.await(`document.querySelector(".rows li") && !` + invitedRow)
		r := p.call(http.MethodGet, "/api/admin/audit?action=invitation.*", nil, "Authorization", "Bearer "+p.token)
		for action, n := range map[string]int{"create": 2, "role": 2, "revoke": 2, "accept": 0} {
			if got := strings.Count(string(r.body), `"invitation.`+action+`"`); got != n {
				t.Errorf("%d events invitation.%s instead of %d: %s", got, action, n, r.body)
			}
		}
	})
}

// openPlace follows the first link that a selector matches, and waits for a page with a title.
func (b *tab) openPlace(selector, title string) {
	b.t.Helper()
	b.await(`document.querySelector("` + selector + `")`)
	b.eval(`document.querySelector("` + selector + `").click()`)
	b.await(`document.querySelector("h1")?.innerText === "` + title + `"`)
}

// invite invites an address on the page of an organisation or a workspace, and changes the role.
func (b *tab) invite(p *program, role string) {
	b.t.Helper()
	b.fill("#who", "New@Example.org"+kb.Enter)
	b.await(invitedRow + `?.querySelector(".note").innerText.match(/^invited until .*\d\d\d\d.*, waits for the first sign-in$/)`)
	b.await(`document.querySelector("#who").value === "" && !document.querySelector(".problem")`)
	b.eval(`{ const s = ` + invitedRow + `.querySelector("select"); s.value = "` + role + `"; s.dispatchEvent(new Event("change")); }`)
	if err := within(time.Minute, func() error {
		r := p.call(http.MethodGet, "/api/admin/audit?action=invitation.role&subject=new@example.org", nil, "Authorization", "Bearer "+p.token)
		if !strings.Contains(strings.ReplaceAll(string(r.body), " ", ""), `"after":{"role":"`+role+`"}`) {
			return fmt.Errorf("the role does not become %s: %s", role, r.body)
		}
		return nil
	}); err != nil {
		b.t.Fatalf("%v; the page shows:\n%s\nthe browser reports %q", err, b.text("document.body.innerText"), b.all())
	}
	b.await(invitedRow + `?.querySelector("select").value === "` + role + `"`)
}

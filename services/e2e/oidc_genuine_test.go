package e2e

import (
	"bufio"
	"encoding/json"
	"fmt"
	"html"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"slipway.dev/services/internal/testkit"
)

// oidcProviderVersion is the version of node-oidc-provider on npm.
const oidcProviderVersion = "8.8.1"

// A genuineProvider is a node-oidc-provider with test users.
type genuineProvider struct {
	url, people string
}

// newGenuineProvider starts the provider with a redirect URI. It skips the test if Node.js or
// npm is missing.
func newGenuineProvider(t *testing.T, redirect string) *genuineProvider {
	t.Helper()
	for _, program := range []string{"node", "npm"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("SKIPPED: node-oidc-provider needs %s: apt-get install nodejs npm", program)
		}
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(cache, "slipway-e2e", "oidc-provider-"+oidcProviderVersion)
	if _, err := os.Stat(filepath.Join(dir, "node_modules", "oidc-provider", "package.json")); err != nil {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		install := exec.CommandContext(t.Context(), "npm", "install", "--silent", "--no-save", "--no-package-lock", "--ignore-scripts", "oidc-provider@"+oidcProviderVersion)
		install.Dir = dir
		if out, err := install.CombinedOutput(); err != nil {
			t.Skipf("SKIPPED: node-oidc-provider cannot be installed: %v\n%s", err, tail(string(out), 2000))
		}
	}
	script, err := os.ReadFile("testdata/oidc/provider.mjs")
	if err != nil {
		t.Fatal(err)
	}
	// Node.js resolves packages relative to the script.
	f, err := os.CreateTemp(dir, "provider-*.mjs")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.Remove(f.Name()) })
	if _, err := f.Write(script); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	port := testkit.FreePort(t)
	g := &genuineProvider{"http://127.0.0.1:" + port, filepath.Join(t.TempDir(), "people.json")}
	g.set(t, nil)
	cmd := exec.CommandContext(t.Context(), "node", f.Name(), port, redirect, g.people)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	for says := bufio.NewScanner(out); ; {
		if !says.Scan() {
			t.Fatal("the provider exited before it was ready")
		}
		if says.Text() == "ready" {
			go func() { _, _ = io.Copy(io.Discard, out) }()
			return g
		}
	}
}

// set replaces the users; groups maps each user to their groups.
func (g *genuineProvider) set(t *testing.T, groups map[string][]string) {
	t.Helper()
	people := map[string]any{}
	for name, in := range groups {
		people[name] = map[string]any{"email": name + "@lab.example", "groups": in}
	}
	raw, err := json.Marshal(people)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(g.people, raw, 0o600); err != nil {
		t.Fatal(err)
	}
}

var (
	formAction  = regexp.MustCompile(`<form[^>]* action="([^"]+)"[^>]*>`)
	hiddenField = regexp.MustCompile(`<input type="hidden" name="([^"]+)" value="([^"]*)"`)
)

// signIn follows a page's link to the provider and fills in the provider's forms. It returns
// the page of the redirect, or an error if there are too many forms.
func (g *genuineProvider) signIn(name, page string) (*http.Client, *http.Response, error) {
	jar, err := cookiejar.New(nil)
	if err != nil {
		return nil, nil, err
	}
	browser := &http.Client{Jar: jar}
	resp, err := browser.Get(page)
	if err != nil {
		return nil, nil, err
	}
	body, err := io.ReadAll(resp.Body)
	_ = resp.Body.Close()
	if err != nil {
		return nil, nil, err
	}
	link := regexp.MustCompile(`<a href="([^"]+)">`).FindSubmatch(body)
	if link == nil {
		return nil, nil, fmt.Errorf("the page has no link: %s", body)
	}
	resp, err = browser.Get(html.UnescapeString(string(link[1])))
	for range 5 {
		if err != nil {
			return nil, nil, err
		}
		if !strings.HasPrefix(resp.Request.URL.String(), g.url) {
			return browser, resp, nil
		}
		body, err := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		form := formAction.FindSubmatch(body)
		if err != nil {
			return nil, nil, err
		}
		if form == nil {
			return nil, nil, fmt.Errorf("the provider has no form: %s", body)
		}
		to, err := resp.Request.URL.Parse(html.UnescapeString(string(form[1])))
		if err != nil {
			return nil, nil, err
		}
		values := url.Values{"login": {name}, "password": {"any"}}
		for _, field := range hiddenField.FindAllSubmatch(body, -1) {
			values.Set(string(field[1]), string(field[2]))
		}
		resp, err = browser.PostForm(to.String(), values)
		if err != nil {
			return nil, nil, err
		}
	}
	_ = resp.Body.Close()
	return nil, nil, fmt.Errorf("the provider does not sign %s in", name)
}

// TestSignInAtAGenuineProvider signs users in at an independent provider implementation. Users
// are created according to their groups, roles follow the groups, and users that the provider
// has removed cannot sign in.
func TestSignInAtAGenuineProvider(t *testing.T) {
	t.Parallel()
	address := "127.0.0.1:" + testkit.FreePort(t) // the redirect URI must be known before the server starts
	g := newGenuineProvider(t, "http://"+address+"/oauth/callback")
	p := oneProcess(t, common(t, nil, settings{
		"master_key_file": newMasterKey(t), "platform_http_addr": address, "platform_url": "http://" + address,
		"oidc_issuer": g.url, "oidc_client_id": "slipway", "oidc_client_secret_file": writeFile(t, "oidc-secret", "s3cret\n"),
		"oidc_scopes": "groups", "oidc_auto_create": "groups", "oidc_groups": "staff=lab,heads=lab:owner,heads=lab/rna:maintain,it=administrator",
	}))
	org := p.platformCall(http.MethodPost, "/orgs", p.token, map[string]any{"organization": map[string]any{"name": "lab"}})["organization"].(map[string]any)
	path := fmt.Sprintf("/orgs/%.0f", org["orgId"])
	p.platformCall(http.MethodPost, path+"/workspaces", p.token, map[string]any{"workspace": map[string]any{"name": "rna"}})
	roles := func(name string) string {
		list, _ := p.platformCall(http.MethodGet, path+"/members?search="+name+"@lab.example", p.token, nil)["members"].([]any)
		if len(list) == 0 {
			return ""
		}
		role, _ := list[0].(map[string]any)["role"].(string)
		return role
	}
	page := p.url + "/api/oauth/authorize?response_type=code&client_id=slipway&redirect_uri=http://127.0.0.1:1/&state=s&code_challenge=E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM&code_challenge_method=S256"
	arrives := func(name string) (int, string) {
		t.Helper()
		_, resp, err := g.signIn(name, page)
		if err != nil {
			return 0, err.Error()
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode, string(body)
	}

	g.set(t, map[string][]string{"ada": {"staff"}, "ben": {"others"}})
	if status, body := arrives("ada"); status != http.StatusOK || !strings.Contains(body, "act as ada?") || roles("ada") != "member" {
		t.Errorf("ada, who is staff: %d, role %q\n%s", status, roles("ada"), body)
	}
	if status, body := arrives("ben"); status != http.StatusForbidden || !strings.Contains(body, "There is no user with your e-mail address") {
		t.Errorf("ben, who is in no group with a role: %d\n%s", status, body)
	}
	// Two browsers sign in concurrently after the groups have changed.
	g.set(t, map[string][]string{"ada": {"staff", "heads", "it"}, "ben": {"staff"}})
	both := make(chan string, 2)
	for _, name := range []string{"ada", "ben"} {
		go func() {
			status, body := arrives(name)
			both <- fmt.Sprintf("%s: %d, asked: %t", name, status, strings.Contains(body, "act as "+name+"?"))
		}()
	}
	for range 2 {
		if got := <-both; !strings.HasSuffix(got, ": 200, asked: true") {
			t.Errorf("one of two browsers got %s", got)
		}
	}
	if a, b := roles("ada"), roles("ben"); a != "owner" || b != "member" {
		t.Errorf("ada is %q, ben is %q", a, b)
	}
	// The command line signs in as ada, who is now an administrator.
	u := newPerson(t)
	u.signInOnTheWeb(p, func(page string) (*http.Response, error) {
		browser, came, err := g.signIn("ada", page)
		if err != nil {
			return nil, err
		}
		return answerYes(browser, came)
	})
	u.shows("whoami", "ada@lab.example")
	u.shows("audit --action member.role", "oidc:"+g.url)
	// ada has no groups, and ben was removed.
	g.set(t, map[string][]string{"ada": {}})
	if status, _ := arrives("ada"); status != http.StatusOK || roles("ada") != "" {
		t.Errorf("ada without groups: %d, role %q", status, roles("ada"))
	}
	u.refused("audit", "Only administrators")
	if status, body := arrives("ben"); status != 0 {
		t.Errorf("ben, who was removed from the provider, signed in: %d\n%s", status, body)
	}
}

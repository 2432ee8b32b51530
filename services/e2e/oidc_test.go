package e2e

import (
	"bytes"
	"errors"
	"fmt"
	"html"
	"io"
	"maps"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"slipway.dev/services/internal/testkit"
)

// TestSignInAtAProvider follows the page's link to the identity provider, which must sign the
// command line in.
func TestSignInAtAProvider(t *testing.T) {
	t.Parallel()
	issuer := testkit.NewIssuer(t)
	address := "127.0.0.1:" + testkit.FreePort(t) // the redirect URI must be known before the server starts
	more := settings{
		"master_key_file": newMasterKey(t), "platform_http_addr": address, "platform_url": "http://" + address,
		"oidc_issuer": issuer.URL, "oidc_client_id": testkit.IssuerClient, "oidc_client_secret_file": writeFile(t, "oidc-secret", testkit.IssuerSecret+"\n"),
	}
	eachShape(t, nil, more, func(t *testing.T, p *program) {
		p.newUser("ada")
		u := newPerson(t)
		issuer.Email = "ada@example.org"
		if out := u.signInOnTheWeb(p, followToProvider); !strings.Contains(out, "as ada") {
			t.Errorf("the provider signs in as %s", out)
		}
		u.shows("whoami", "ada@example.org")

		issuer.Email = "nobody@example.org"
		page := p.url + "/api/oauth/authorize?response_type=code&client_id=x&redirect_uri=http://127.0.0.1:1/&state=s&code_challenge=E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM&code_challenge_method=S256"
		resp, err := followToProvider(page)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		if body, _ := io.ReadAll(resp.Body); resp.StatusCode != http.StatusForbidden || !strings.Contains(string(body), "There is no user with your e-mail address") {
			t.Errorf("an unknown user got %d %s", resp.StatusCode, body)
		}
	})
}

// TestInvitationsAtAProvider invites an e-mail address with the command line. Only the user who signs
// in with it at the identity provider, verified, must get an account and the roles.
func TestInvitationsAtAProvider(t *testing.T) {
	t.Parallel()
	issuer := testkit.NewIssuer(t)
	address := "127.0.0.1:" + testkit.FreePort(t)
	more := settings{
		"master_key_file": newMasterKey(t), "platform_http_addr": address, "platform_url": "http://" + address,
		"oidc_issuer": issuer.URL, "oidc_client_id": testkit.IssuerClient, "oidc_client_secret_file": writeFile(t, "oidc-secret", testkit.IssuerSecret+"\n"),
		"oidc_auto_create": "invitations",
	}
	eachShape(t, nil, more, func(t *testing.T, p *program) {
		admin, u := newPerson(t), newPerson(t)
		admin.give(p.token, "login --token-stdin --server "+p.url)
		admin.do("org create lab")
		admin.do("workspace create lab/rna")
		admin.shows("member add lab Ada@New.example", "Invited ada@new.example to lab.", "waits for the first sign-in")
		admin.shows("member add lab/rna ada@new.example --role maintain", "ada@new.example is invited as maintain of lab/rna until")
		admin.do("member add lab eve@new.example")
		admin.shows("member list lab", "ada@new.example", "eve@new.example")
		admin.shows("member remove lab EVE@new.example", "eve@new.example is no longer invited to lab.")
		page := p.url + "/api/oauth/authorize?response_type=code&client_id=x&redirect_uri=http://127.0.0.1:1/&state=s&code_challenge=E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM&code_challenge_method=S256"
		for _, stranger := range []string{"eve@new.example", "a.da@new.example"} {
			issuer.Email = stranger
			resp, err := followToProvider(page)
			if err != nil {
				t.Fatal(err)
			}
			body, _ := io.ReadAll(resp.Body)
			_ = resp.Body.Close()
			if resp.StatusCode != http.StatusForbidden || !strings.Contains(string(body), "There is no user with your e-mail address") {
				t.Errorf("%s, who is not invited, got %d %s", stranger, resp.StatusCode, body)
			}
		}
		issuer.Email = "ADA@new.example"
		if out := u.signInOnTheWeb(p, followToProvider); !strings.Contains(out, "as ada") {
			t.Errorf("the invited user signs in as %s", out)
		}
		u.shows("workspaces", "lab/rna", "maintain")
		u.shows("member list lab/rna", "ADA@new.example")
		if out := admin.do("member list lab -o json"); strings.Contains(out, "invitation") || !strings.Contains(out, "ADA@new.example") {
			t.Errorf("after the sign-in the members are %s", out)
		}
		admin.shows("audit --action invitation.*", "invitation.accept", "oidc:"+issuer.URL, "invitation.revoke")
	})
}

// withProvider returns settings with a sign-in provider, without which addresses are not invited.
func withProvider(t *testing.T, s settings) settings {
	t.Helper()
	s = maps.Clone(s)
	s["oidc_issuer"], s["oidc_client_id"] = testkit.NewIssuer(t).URL, testkit.IssuerClient
	s["oidc_client_secret_file"] = writeFile(t, "oidc-secret", testkit.IssuerSecret+"\n")
	return s
}

// followToProvider follows the page's link like a browser, and consents if the page asks about
// a program.
func followToProvider(page string) (*http.Response, error) {
	jar, err := cookiejar.New(nil)
	if err != nil {
		return nil, err
	}
	browser := &http.Client{Jar: jar}
	resp, err := browser.Get(page)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, err
	}
	link := regexp.MustCompile(`<a href="([^"]+)">`).FindSubmatch(body)
	if link == nil {
		return nil, fmt.Errorf("the page has no link: %s", body)
	}
	came, err := browser.Get(html.UnescapeString(string(link[1])))
	if err != nil {
		return nil, err
	}
	return answerYes(browser, came)
}

// answerYes submits the consent page; other pages are returned unchanged.
func answerYes(browser *http.Client, asked *http.Response) (*http.Response, error) {
	body, err := io.ReadAll(asked.Body)
	if err := errors.Join(err, asked.Body.Close()); err != nil {
		return nil, err
	}
	asked.Body = io.NopCloser(bytes.NewReader(body))
	consent := regexp.MustCompile(`(?s)action="consent">.*name="consent" value="([^"]+)"`).FindSubmatch(body)
	if consent == nil {
		return asked, nil
	}
	if !bytes.Contains(body, []byte("calls itself <b>slipway</b>")) || !bytes.Contains(body, []byte("act as ada?")) {
		return nil, fmt.Errorf("the page does not name the program: %s", body)
	}
	to := asked.Request.URL.ResolveReference(&url.URL{Path: "consent"})
	return browser.PostForm(to.String(), url.Values{"consent": {html.UnescapeString(string(consent[1]))}})
}

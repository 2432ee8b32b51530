package e2e

import (
	"fmt"
	"html"
	"io"
	"net/http"
	"net/http/cookiejar"
	"regexp"
	"strings"
	"testing"

	"slipway.dev/services/internal/testkit"
)

// TestSignInAtAProvider: a person follows the page's link to their organisation's
// provider, and comes back to the command line signed in.
func TestSignInAtAProvider(t *testing.T) {
	t.Parallel()
	issuer := testkit.NewIssuer(t)
	address := "127.0.0.1:" + testkit.FreePort(t) // the provider sends the browser there
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
			t.Errorf("whom the platform does not know is told %d %s", resp.StatusCode, body)
		}
	})
}

// followToProvider does as a browser in which the page's link is clicked.
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
	return browser.Get(html.UnescapeString(string(link[1])))
}

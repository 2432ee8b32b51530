package e2e

import (
	"bufio"
	"fmt"
	"html"
	"io"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"strings"
	"testing"

	"slipway.dev/services/internal/testkit"
)

// TestSignInOnAnotherMachine signs in without a browser: the command line displays a code, and
// waits until a user has entered it on another machine, with a token or at the identity
// provider. Ctrl-C must end the waiting immediately.
func TestSignInOnAnotherMachine(t *testing.T) {
	t.Parallel()
	issuer := testkit.NewIssuer(t)
	issuer.Email = "ada@example.org"
	address := "127.0.0.1:" + testkit.FreePort(t)
	more := settings{
		"master_key_file": newMasterKey(t), "platform_http_addr": address, "platform_url": "http://" + address,
		"oidc_issuer": issuer.URL, "oidc_client_id": testkit.IssuerClient, "oidc_client_secret_file": writeFile(t, "oidc-secret", testkit.IssuerSecret+"\n"),
	}
	eachShape(t, nil, more, func(t *testing.T, p *program) {
		token := p.newUser("ada")
		u := newPerson(t)
		out := u.signInElsewhere(p, func(page, code string) (*http.Response, error) {
			if resp, err := http.PostForm(page, url.Values{"user_code": {"BBBB-BBBB"}, "access_token": {token}}); err != nil || resp.StatusCode != http.StatusBadRequest {
				t.Errorf("another code: %v, %v", resp, err)
			}
			asked, err := http.PostForm(page, url.Values{"user_code": {strings.ToLower(code)}, "access_token": {token}})
			if err != nil {
				return nil, err
			}
			return answerYes(http.DefaultClient, asked)
		})
		if !strings.Contains(out, "as ada") {
			t.Errorf("a token signs in as %s", out)
		}
		u.shows("whoami", "ada@example.org")

		u = newPerson(t)
		out = u.signInElsewhere(p, func(page, code string) (*http.Response, error) {
			resp, err := followToProvider(page)
			if err != nil {
				return nil, err
			}
			defer resp.Body.Close()
			body, err := io.ReadAll(resp.Body)
			consent := regexp.MustCompile(`name="consent" value="([^"]+)"`).FindSubmatch(body)
			if err != nil || consent == nil {
				return nil, fmt.Errorf("the page has no field for the code: %s, %w", body, err)
			}
			asked, err := http.PostForm(page, url.Values{"user_code": {code}, "consent": {html.UnescapeString(string(consent[1]))}})
			if err != nil {
				return nil, err
			}
			return answerYes(http.DefaultClient, asked)
		})
		if !strings.Contains(out, "as ada") {
			t.Errorf("the provider signs in as %s", out)
		}

		cmd := newPerson(t).command("login", "--device", "--server", p.url)
		errs, err := cmd.StderrPipe()
		if err == nil {
			err = cmd.Start()
		}
		if err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewScanner(errs)
		for lines.Scan() && !strings.Contains(lines.Text(), "Ctrl-C") {
		}
		if err := cmd.Process.Signal(os.Interrupt); err != nil {
			t.Fatal(err)
		}
		rest, _ := io.ReadAll(errs)
		if err := cmd.Wait(); err == nil || !strings.Contains(string(rest), "interrupted") {
			t.Errorf("after Ctrl-C: %v %s", err, rest)
		}
	})
}

// signInElsewhere signs in with --device, and completes the sign-in on the page.
func (u *person) signInElsewhere(p *program, browse func(page, code string) (*http.Response, error)) string {
	u.t.Helper()
	return u.signInWith(p, "--device", "is signed in", func(lines *bufio.Scanner) (*http.Response, error) {
		page, code := "", ""
		for code == "" && lines.Scan() {
			if page == "" {
				page = regexp.MustCompile(`https?://\S+`).FindString(lines.Text())
			}
			code = regexp.MustCompile(`^  ([A-Z]{4}-[A-Z]{4})$`).FindString(lines.Text())
		}
		return browse(page, strings.TrimSpace(code))
	})
}

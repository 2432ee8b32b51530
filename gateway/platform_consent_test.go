package gateway_test

import (
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"

	"slipway.dev/proto/gen/openapi"
	platformv1 "slipway.dev/proto/gen/slipway/platform/v1"
)

// asks checks that a page names the program, in a form that no other page can frame.
func asks(t *testing.T, resp *http.Response, page string, parts ...string) {
	t.Helper()
	for _, part := range append(parts, "<form", "It may do all that you may do here", "close this page") {
		if !strings.Contains(page, part) {
			t.Errorf("the page lacks %q: %s", part, page)
		}
	}
	policy := resp.Header.Get("Content-Security-Policy")
	if resp.StatusCode != http.StatusOK || !strings.Contains(policy, "frame-ancestors 'none'") || !strings.HasPrefix(policy, "default-src 'none'") || resp.Header.Get("Cache-Control") != "no-store" {
		t.Errorf("it is %d with %v", resp.StatusCode, resp.Header)
	}
}

// TestConsentPage checks that a user who returns from the provider for a program on the
// same machine is asked, and that the program gets its code only after consent.
func TestConsentPage(t *testing.T) {
	t.Parallel()
	granted := &platformv1.GrantConsentRequest{}
	at := servePlatform(t, "", byMethod(map[string]grpc.StreamHandler{
		"GetServiceInfo": answering(t, &platformv1.GetServiceInfoRequest{}, &platformv1.GetServiceInfoResponse{}),
		"FinishSignIn": answering(t, &platformv1.FinishSignInRequest{}, &platformv1.FinishSignInResponse{
			Consent: "yes-1", UserName: "ada", Program: &platformv1.Program{ClientId: "<b>c\u202eli", RedirectUri: "http://127.0.0.1:1/x?\"y"},
		}),
		"GrantConsent": answering(t, granted, &platformv1.GrantConsentResponse{ClientId: "cli", RedirectUri: "http://127.0.0.1:1/x?code=c"}),
	}))
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, at+"/oauth/callback?state=secret&code=c", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.AddCookie(&http.Cookie{Name: "slipway_sign_in", Value: "secret"})
	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	page, _ := io.ReadAll(resp.Body)
	holds(t, document(t, openapi.Platform), http.MethodGet, "/oauth/callback", resp, page)
	asks(t, resp, string(page), "act as ada?", "<b>&lt;b&gt;cli</b>", "<b>http://127.0.0.1:1/x?&#34;y</b>", `action="consent"`, `value="yes-1"`)

	resp, body := postForm(t, at+"/oauth/consent", url.Values{"consent": {"yes-1"}})
	holds(t, document(t, openapi.Platform), http.MethodPost, "/oauth/consent", resp, []byte(body))
	if to := resp.Header.Get("Location"); resp.StatusCode != http.StatusSeeOther || to != "http://127.0.0.1:1/x?code=c" || granted.GetConsent() != "yes-1" {
		t.Errorf("the answer leads to %d %s for %v", resp.StatusCode, to, granted)
	}
	if resp := visit(t, at+"/oauth/consent?consent=yes-1", nil); resp.StatusCode == http.StatusSeeOther {
		t.Error("a link answers the question")
	}

	at = servePlatform(t, "", byMethod(map[string]grpc.StreamHandler{
		"GetServiceInfo": answering(t, &platformv1.GetServiceInfoRequest{}, &platformv1.GetServiceInfoResponse{}),
		"GrantConsent":   refusingWith(t, codes.PermissionDenied, "This sign-in is over", nil),
	}))
	resp, body = postForm(t, at+"/oauth/consent", url.Values{"consent": {"yes-1"}})
	holds(t, document(t, openapi.Platform), http.MethodPost, "/oauth/consent", resp, []byte(body))
	if resp.StatusCode != http.StatusForbidden || !strings.Contains(body, "This sign-in is over") {
		t.Errorf("a late answer: %d %s", resp.StatusCode, body)
	}
}

package gateway_test

import (
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"slipway.dev/proto/gen/openapi"
	platformv1 "slipway.dev/proto/gen/slipway/platform/v1"

	"slipway.dev/gateway"
)

// answering returns a service that receives one message and returns another.
func answering(t *testing.T, got, answer proto.Message) grpc.StreamHandler {
	return func(_ any, s grpc.ServerStream) error {
		if err := s.RecvMsg(got); err != nil {
			t.Error(err)
		}
		return s.SendMsg(answer)
	}
}

// byMethod returns a service with one handler for each call.
func byMethod(answers map[string]grpc.StreamHandler) grpc.StreamHandler {
	return func(srv any, s grpc.ServerStream) error {
		method, _ := grpc.MethodFromServerStream(s)
		return answers[method[strings.LastIndexByte(method, '/')+1:]](srv, s)
	}
}

func postForm(t *testing.T, to string, form url.Values) (*http.Response, string) {
	t.Helper()
	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, to, strings.NewReader(form.Encode()))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp, string(body)
}

func TestTokenEndpoint(t *testing.T) {
	t.Parallel()
	got := &platformv1.IssueTokensRequest{}
	at := servePlatform(t, "/api", answering(t, got, &platformv1.IssueTokensResponse{AccessToken: "a.b.c", RefreshToken: "r", ExpiresIn: 3600}))
	resp, body := postForm(t, at+"/oauth/access_token", url.Values{"grant_type": {"refresh_token"}, "refresh_token": {"old"}})
	if resp.StatusCode != http.StatusOK || !strings.Contains(body, `"access_token":"a.b.c"`) || got.GetRefreshToken() != "old" || resp.Header.Get("Cache-Control") != "no-store" {
		t.Errorf("got %d %s for %v", resp.StatusCode, body, got)
	}
	holds(t, document(t, openapi.Platform), http.MethodPost, "/oauth/access_token", resp, []byte(body))
	names := map[string]string{}
	for _, c := range resp.Cookies() {
		names[c.Name] = c.Value
		if !c.HttpOnly || !c.Secure || c.SameSite != http.SameSiteLaxMode {
			t.Errorf("the cookie is %v", c)
		}
	}
	if names["JWT"] != "a.b.c" || names["JWT_REFRESH_TOKEN"] != "r" {
		t.Errorf("the cookies are %v", names)
	}
}

func TestSignInPage(t *testing.T) {
	t.Parallel()
	got := &platformv1.CreateCodeRequest{}
	at := servePlatform(t, "", byMethod(map[string]grpc.StreamHandler{
		"GetServiceInfo": answering(t, &platformv1.GetServiceInfoRequest{}, &platformv1.GetServiceInfoResponse{}),
		"CreateCode":     answering(t, got, &platformv1.CreateCodeResponse{Code: "c&d"}),
	}))
	q := url.Values{"client_id": {`<script>"`}, "redirect_uri": {"http://127.0.0.1:1/x?y=z"}, "state": {"s t"}}
	resp := get(t, at+"/oauth/authorize?"+q.Encode())
	page, _ := io.ReadAll(resp.Body)
	holds(t, document(t, openapi.Platform), http.MethodGet, "/oauth/authorize", resp, page)
	if resp.StatusCode != http.StatusOK || strings.Contains(string(page), "<script>") || !strings.Contains(string(page), "&lt;script&gt;") || resp.Header.Get("Content-Security-Policy") == "" ||
		!strings.Contains(string(page), "<b>http://127.0.0.1:1/x?y=z</b>") || !strings.Contains(string(page), "It may do all that you may do here") {
		t.Errorf("the page is %d %s", resp.StatusCode, page)
	}
	q.Set("access_token", "secret")
	back, _ := postForm(t, at+"/oauth/authorize", q)
	if to := back.Header.Get("Location"); back.StatusCode != http.StatusSeeOther || to != "http://127.0.0.1:1/x?code=c%26d&state=s+t&y=z" || got.GetAccessToken() != "secret" {
		t.Errorf("sent to %s with %d", to, back.StatusCode)
	}
}

// TestSignInElsewhere signs in at the OIDC provider and returns.
func TestSignInElsewhere(t *testing.T) {
	t.Parallel()
	begun, finished := &platformv1.BeginSignInRequest{}, &platformv1.FinishSignInRequest{}
	at := servePlatform(t, "", byMethod(map[string]grpc.StreamHandler{
		"GetServiceInfo": answering(t, &platformv1.GetServiceInfoRequest{}, &platformv1.GetServiceInfoResponse{
			ServiceInfo: &platformv1.ServiceInfo{ApiUrl: "https://p", LandingUrl: "https://page", AuthTypes: []string{"oidc"}},
		}),
		"BeginSignIn":  answering(t, begun, &platformv1.BeginSignInResponse{Url: "https://idp/auth?x=y", State: "secret"}),
		"FinishSignIn": answering(t, finished, &platformv1.FinishSignInResponse{RedirectUri: "http://127.0.0.1:1/x?code=c"}),
	}))
	q := url.Values{"client_id": {"cli"}, "redirect_uri": {"http://127.0.0.1:1/x"}, "code_challenge": {"ch"}, "code_challenge_method": {"S256"}, "state": {"s"}}
	page, _ := io.ReadAll(get(t, at+"/oauth/authorize?"+q.Encode()).Body)
	if !strings.Contains(string(page), `href="https://p/oauth/oidc?client_id=cli&amp;`) {
		t.Errorf("the page is %s", page)
	}
	startSignIn := visit(t, at+"/oauth/oidc?"+q.Encode(), nil)
	if p := begun.GetProgram(); startSignIn.Header.Get("Location") != "https://idp/auth?x=y" || p.GetCodeChallenge() != "ch" || p.GetRedirectUri() != "http://127.0.0.1:1/x" || begun.GetState() != "s" {
		t.Errorf("sent to %v for %v", startSignIn.Header, begun)
	}
	cookies := startSignIn.Cookies()
	if len(cookies) != 1 || !cookies[0].HttpOnly || cookies[0].SameSite != http.SameSiteLaxMode || cookies[0].Value != "secret" {
		t.Fatalf("the cookies are %v", cookies)
	}
	for name, c := range map[string]struct {
		path   string
		cookie *http.Cookie
		status int
	}{
		"back":            {"?state=secret&code=c", cookies[0], http.StatusSeeOther},
		"another browser": {"?state=secret&code=c", nil, http.StatusForbidden},
		"another state":   {"?state=other&code=c", cookies[0], http.StatusForbidden},
		"refused":         {"?state=secret&error=access_denied", cookies[0], http.StatusForbidden},
	} {
		resp := visit(t, at+"/oauth/callback"+c.path, c.cookie)
		if resp.StatusCode != c.status || c.status == http.StatusSeeOther && resp.Header.Get("Location") != "http://127.0.0.1:1/x?code=c" {
			t.Errorf("%s: %d %v", name, resp.StatusCode, resp.Header)
		}
	}
	for name, c := range map[string]struct{ said, want string }{
		"with a description":        {"error=access_denied&error_description=Ask+your+%3Cb%3Ehelp+desk%3C%2Fb%3E%E2%80%AE%0Anow", "It says: “Ask your &lt;b&gt;help desk&lt;/b&gt; now”"},
		"with a code":               {"error=access_denied", "It says: “access_denied”"},
		"with a long code":          {"error=" + strings.Repeat("x", 5000), "“" + strings.Repeat("x", 300) + "…”"},
		"without a reason":          {"", "did not let you in.</p>\n<p><a href=\"https://page/login\">"},
		"with an unknown parameter": {"error=x&again=https://evil", "<p><a href=\"https://page/login\">"},
	} {
		page := refusal(t, at+"/oauth/callback?state=secret&"+c.said, cookies[0])
		if !strings.Contains(page, c.want) || strings.Contains(page, "evil") {
			t.Errorf("refused %s: %s", name, page)
		}
	}
	if page := refusal(t, at+"/oauth/callback?state=other&error=<b>"+"read+me", cookies[0]); strings.Contains(page, "read me") || !strings.Contains(page, "not started in this browser") {
		t.Errorf("what a stranger says is shown: %s", page)
	}
	if finished.GetState() != "secret" || finished.GetCode() != "c" {
		t.Errorf("finished with %v", finished)
	}
}

// refusal returns the page that tells a user why they are not signed in.
func refusal(t *testing.T, at string, cookie *http.Cookie) string {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, at, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.AddCookie(&http.Cookie{Name: cookie.Name, Value: cookie.Value})
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	page, _ := io.ReadAll(resp.Body)
	holds(t, document(t, openapi.Platform), http.MethodGet, "/oauth/callback", resp, page)
	if resp.StatusCode != http.StatusForbidden || !strings.HasPrefix(resp.Header.Get("Content-Security-Policy"), "default-src 'none'; style-src 'sha256-") {
		t.Errorf("it is %d with %v", resp.StatusCode, resp.Header)
	}
	return string(page)
}

// FuzzPrintable checks that any text of a provider or a program becomes a short line.
func FuzzPrintable(f *testing.F) {
	f.Add("access_denied")
	f.Add("a\x00b\u202e\nc\xff")
	f.Add(strings.Repeat("é ", 400))
	f.Fuzz(func(t *testing.T, text string) {
		got := gateway.Printable(text)
		if utf8.RuneCountInString(got) > 301 || strings.ContainsFunc(got, func(r rune) bool { return !unicode.IsGraphic(r) }) || !utf8.ValidString(got) || strings.TrimSpace(got) != got {
			t.Errorf("%q is shown as %q", text, got)
		}
	})
}

// visit fetches a page like a browser, without following redirects.
func visit(t *testing.T, to string, cookie *http.Cookie) *http.Response {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, to, nil)
	if err != nil {
		t.Fatal(err)
	}
	if cookie != nil {
		req.AddCookie(&http.Cookie{Name: cookie.Name, Value: cookie.Value})
	}
	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	return resp
}

func TestDiscovery(t *testing.T) {
	t.Parallel()
	at := servePlatform(t, "", answering(t, &platformv1.GetServiceInfoRequest{}, &platformv1.GetServiceInfoResponse{ServiceInfo: &platformv1.ServiceInfo{ApiUrl: "https://p"}}))
	resp := get(t, at+"/.well-known/openid-configuration")
	body, _ := io.ReadAll(resp.Body)
	holds(t, document(t, openapi.Platform), http.MethodGet, "/.well-known/openid-configuration", resp, body)
	if !strings.Contains(string(body), `"token_endpoint":"https://p/oauth/access_token"`) {
		t.Errorf("got %s", body)
	}
}

// TestLanding checks that a user who opens the login path at the API's address is
// redirected to the page.
func TestLanding(t *testing.T) {
	t.Parallel()
	at := servePlatform(t, "", answering(t, &platformv1.GetServiceInfoRequest{}, &platformv1.GetServiceInfoResponse{ServiceInfo: &platformv1.ServiceInfo{LandingUrl: "https://page", ApiUrl: "https://p"}}))
	resp := visit(t, at+"/login", nil)
	if to := resp.Header.Get("Location"); resp.StatusCode != http.StatusSeeOther || to != "https://page/login" {
		t.Errorf("it leads to %d %s", resp.StatusCode, to)
	}
}

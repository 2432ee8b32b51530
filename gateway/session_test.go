package gateway_test

import (
	"context"
	"encoding/base64"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	platformv1 "slipway.dev/proto/gen/slipway/platform/v1"

	"slipway.dev/gateway"
)

// given is a valid access token that a user has pasted.
var given = base64.StdEncoding.EncodeToString([]byte(`{"tid":7}.0123`))

// An identity is a platform that knows some access tokens, and records the deleted ones.
type identity struct {
	mu      sync.Mutex
	known   []string
	deleted []string // the ids of deleted tokens, each with the token that deleted it
	issued  *platformv1.IssueTokensRequest
}

// bearer returns the access token of a call.
func bearer(ctx context.Context) string {
	md, _ := metadata.FromIncomingContext(ctx)
	return strings.TrimPrefix(strings.Join(md.Get("authorization"), ","), "Bearer ")
}

func (i *identity) serve(_ any, s grpc.ServerStream) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	method, _ := grpc.MethodFromServerStream(s)
	by := bearer(s.Context())
	switch method[strings.LastIndexByte(method, '/')+1:] {
	case "IssueTokens":
		i.issued = &platformv1.IssueTokensRequest{}
		if err := s.RecvMsg(i.issued); err != nil {
			return err
		}
		pair := "e30." + base64.RawURLEncoding.EncodeToString([]byte(`{"sid":"41"}`)) + ".mac"
		i.known = append(i.known, pair)
		return s.SendMsg(&platformv1.IssueTokensResponse{AccessToken: pair})
	case "CreateToken":
		in := &platformv1.CreateTokenRequest{}
		if err := s.RecvMsg(in); err != nil {
			return err
		}
		if !slices.Contains(i.known, by) || !strings.HasPrefix(in.GetToken().GetName(), "Web page 20") || in.GetToken().GetExpires() == "" {
			return status.Error(codes.Unauthenticated, "no")
		}
		i.known = append(i.known, "created")
		return s.SendMsg(&platformv1.CreateTokenResponse{AccessKey: "created", Token: &platformv1.TokenRecord{Id: 8}})
	case "DeleteToken":
		in := &platformv1.DeleteTokenRequest{}
		if err := s.RecvMsg(in); err != nil {
			return err
		}
		i.deleted = append(i.deleted, fmt.Sprintf("%d by %s", in.GetTokenId(), by))
		return s.SendMsg(&platformv1.DeleteTokenResponse{})
	}
	if !slices.Contains(i.known, by) {
		st, err := status.New(codes.Unauthenticated, "The access token is invalid").WithDetails(&errdetails.ErrorInfo{Domain: "slipway.dev"})
		if err != nil {
			return err
		}
		return st.Err()
	}
	return s.SendMsg(&platformv1.GetUserInfoResponse{})
}

// A site is a handler of the page's origin, and the request that reached the API behind it.
type site struct {
	http.Handler
	*identity
	reached http.Header
}

func newSite(t *testing.T) *site {
	t.Helper()
	s := &site{identity: &identity{known: []string{given}}}
	conn := dialPlatform(t, s.serve)
	api, err := gateway.NewPlatform(t.Context(), conn, nil, "")
	if err != nil {
		t.Fatal(err)
	}
	s.Handler = gateway.WithSessions(conn, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.reached = r.Header.Clone()
		if r.URL.Path == "/challenge" {
			w.Header().Set("Www-Authenticate", `Basic realm="slipway"`)
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		http.StripPrefix("/api", api).ServeHTTP(w, r)
	}))
	return s
}

const origin = "https://slipway.example.org"

// send sends a request with headers, which are name and value in turn.
func (s *site) send(t *testing.T, method, path, body string, headers ...string) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), method, origin+path, strings.NewReader(body))
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Add(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	return w
}

// ofPage returns the headers of the page at an address, and more.
func ofPage(origin string, more ...string) []string {
	return append([]string{"Slipway-Page", origin, "Origin", origin, "Sec-Fetch-Site", "same-origin"}, more...)
}

// TestSessionBegins signs in with an access token at several addresses.
func TestSessionBegins(t *testing.T) {
	t.Parallel()
	for page, want := range map[string]string{
		origin:                  "__Host-slipway=0." + given + "; Path=/; Max-Age=43200; HttpOnly; Secure; SameSite=Strict",
		origin + ":8443":        "__Host-slipway-8443=0." + given + "; Path=/; Max-Age=43200; HttpOnly; Secure; SameSite=Strict",
		"http://127.0.0.1:9090": "slipway-9090=0." + given + "; Path=/; Max-Age=43200; HttpOnly; SameSite=Strict",
		"http://slipway.lan":    "slipway=0." + given + "; Path=/; Max-Age=43200; HttpOnly; SameSite=Strict",
	} {
		s := newSite(t)
		w := s.send(t, http.MethodPost, "/session", `{"token":"`+given+`"}`, ofPage(page)...)
		if got := w.Header().Get("Set-Cookie"); w.Code != http.StatusOK || got != want || w.Body.String() != `{"tokenId":7}` {
			t.Errorf("%s: %d %s, cookie %s", page, w.Code, w.Body, got)
		}
		name, _, _ := strings.Cut(want, ";")
		w = s.send(t, http.MethodDelete, "/session", "", ofPage(page, "Cookie", name)...)
		if got := w.Header().Get("Set-Cookie"); w.Code != http.StatusNoContent || !strings.Contains(got, "=; Path=/; Max-Age=0; HttpOnly;") || len(s.deleted) != 0 {
			t.Errorf("%s: signing out: %d, cookie %s, deleted %v", page, w.Code, got, s.deleted)
		}
	}
}

// TestSessionAfterAProvider signs in with a code. The token that is created for the session is deleted at its
// end, and when another session replaces it.
func TestSessionAfterAProvider(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	const body = `{"code":"c","codeVerifier":"v","redirectUri":"https://slipway.example.org/login"}`
	w := s.send(t, http.MethodPost, "/session", body, ofPage(origin)...)
	if got := w.Header().Get("Set-Cookie"); w.Code != http.StatusOK || !strings.HasPrefix(got, "__Host-slipway=8.created;") || w.Body.String() != `{"tokenId":8}` {
		t.Fatalf("%d %s, cookie %s", w.Code, w.Body, got)
	}
	if i := s.issued; i.GetCode() != "c" || i.GetCodeVerifier() != "v" || i.GetRedirectUri() != origin+"/login" || i.GetClientId() != "web page" || i.GetGrantType() != "authorization_code" {
		t.Errorf("the code was exchanged by %v", i)
	}
	s.send(t, http.MethodPost, "/session", `{"token":"`+given+`"}`, ofPage(origin, "Cookie", "__Host-slipway=8.created")...)
	s.send(t, http.MethodDelete, "/session", "", ofPage(origin, "Cookie", "__Host-slipway=8.created")...)
	if want := []string{"8 by created", "8 by created"}; len(s.deleted) != 3 || !strings.HasPrefix(s.deleted[0], "41 by e30.") || !slices.Equal(s.deleted[1:], want) {
		t.Errorf("deleted were %v", s.deleted)
	}
}

// TestSessionRefused checks that neither other pages nor programs nor invalid sign-ins begin or end a session.
func TestSessionRefused(t *testing.T) {
	t.Parallel()
	const evil, token = "https://evil.example", `{"token":"TOKEN"}`
	for name, c := range map[string]struct {
		method, body string
		headers      []string
		want         int
	}{
		"another page":                 {"POST", token, []string{"Origin", evil, "Sec-Fetch-Site", "cross-site"}, 403},
		"another page with the header": {"POST", token, []string{"Origin", evil, "Sec-Fetch-Site", "cross-site", "Slipway-Page", origin}, 403},
		"an old browser":               {"POST", token, []string{"Origin", evil, "Slipway-Page", origin}, 403},
		"another port":                 {"POST", token, []string{"Origin", origin + ":81", "Sec-Fetch-Site", "same-site", "Slipway-Page", origin + ":81"}, 403},
		"a form of another page":       {"DELETE", "", []string{"Origin", evil}, 403},
		"a sandboxed frame":            {"POST", token, []string{"Origin", "null", "Slipway-Page", "null"}, 403},
		"two pages":                    {"POST", token, ofPage(origin, "Slipway-Page", origin), 403},
		"a page with a path":           {"POST", token, ofPage(origin + "/x"), 403},
		"a page with a user":           {"POST", token, ofPage("https://me@slipway.example.org"), 403},
		"a page of another scheme":     {"POST", token, ofPage("ftp://slipway.example.org"), 403},
		"a page with a long name":      {"POST", token, ofPage("https://" + strings.Repeat("a", 300)), 403},
		"a program":                    {"POST", token, nil, 403},
		"a program with the header":    {"POST", token, []string{"Slipway-Page", origin}, 403},
		"a read":                       {"GET", "", ofPage(origin), 405},
		"an invalid token":             {"POST", `{"token":"other"}`, ofPage(origin), 403},
		"a token with a semicolon":     {"POST", `{"token":"a;b"}`, ofPage(origin), 403},
		"a token with a line break":    {"POST", `{"token":"a\r\nb"}`, ofPage(origin), 403},
		"a long token":                 {"POST", `{"token":"` + strings.Repeat("a", gateway.MaxSessionToken+1) + `"}`, ofPage(origin), 403},
		"nothing":                      {"POST", `{}`, ofPage(origin), 400},
		"a token and a code":           {"POST", `{"token":"TOKEN","code":"c"}`, ofPage(origin), 400},
		"a code with NUL":              {"POST", `{"code":"c\u0000"}`, ofPage(origin), 400},
		"no JSON":                      {"POST", "token=TOKEN", ofPage(origin), 400},
		"a long body":                  {"POST", `{"token":"` + strings.Repeat("a", gateway.MaxSession) + `"}`, ofPage(origin), 413},
	} {
		s := newSite(t)
		headers := append([]string{"Cookie", "__Host-slipway=8.created"}, c.headers...)
		w := s.send(t, c.method, "/session", strings.ReplaceAll(c.body, "TOKEN", given), headers...)
		if w.Code != c.want || w.Header().Get("Set-Cookie") != "" || len(s.deleted) != 0 || s.reached != nil {
			t.Errorf("%s: %d %s, cookie %q, deleted %v", name, w.Code, w.Body, w.Header().Get("Set-Cookie"), s.deleted)
		}
	}
}

// TestSessionOfRequests checks which requests are made as the user of a session, and that no request has its cookie
// behind the gateway.
func TestSessionOfRequests(t *testing.T) {
	t.Parallel()
	cookie := "__Host-slipway=0." + given
	const refused = "refused"
	for name, c := range map[string]struct {
		headers []string
		want    string // the header Authorization behind the gateway; refused if the page has no session
	}{
		"the page":                           {[]string{"Slipway-Page", origin, "Sec-Fetch-Site", "same-origin"}, "Bearer " + given},
		"the page without Sec-Fetch-Site":    {[]string{"Slipway-Page", origin}, "Bearer " + given},
		"the page with Origin":               {ofPage(origin), "Bearer " + given},
		"a token of its own":                 {ofPage(origin, "Authorization", "Bearer own"), "Bearer own"},
		"a request without the header":       {[]string{"Sec-Fetch-Site", "same-origin"}, ""},
		"a page of another site":             {[]string{"Slipway-Page", origin, "Sec-Fetch-Site", "cross-site"}, ""},
		"a page on another port":             {[]string{"Slipway-Page", origin, "Sec-Fetch-Site", "same-site"}, ""},
		"an address that the user has typed": {[]string{"Slipway-Page", origin, "Sec-Fetch-Site", "none"}, ""},
		"an old browser's page":              {[]string{"Slipway-Page", origin, "Origin", "https://evil.example"}, ""},
		"the page at another port":           {[]string{"Slipway-Page", origin + ":8443"}, refused},
		"the page without TLS":               {[]string{"Slipway-Page", "http://slipway.example.org"}, refused},
	} {
		s := newSite(t)
		w := s.send(t, http.MethodGet, "/api/user-info", "", append([]string{"Cookie", "a=b; " + cookie, "Cookie", "slipway-8080=0.other; slipway_sign_in=c"}, c.headers...)...)
		if c.want == refused {
			if w.Code != http.StatusUnauthorized || s.reached != nil || !strings.Contains(w.Body.String(), "sign in again") {
				t.Errorf("%s: %d %s", name, w.Code, w.Body)
			}
			continue
		}
		if got := s.reached.Get("Authorization"); got != c.want {
			t.Errorf("%s: the request has %q, want %q", name, got, c.want)
		}
		if got := s.reached.Values("Cookie"); !slices.Equal(got, []string{"a=b; slipway_sign_in=c"}) {
			t.Errorf("%s: the request has the cookies %q", name, got)
		}
		if valid := strings.HasSuffix(c.want, given); (w.Code == http.StatusOK) != valid || w.Header().Get("Set-Cookie") != "" {
			t.Errorf("%s: %d, cookie %q", name, w.Code, w.Header().Get("Set-Cookie"))
		}
	}
	var reached http.Header
	h := gateway.WithoutSessions(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { reached = r.Header }))
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/v2/", nil)
	r.Header.Set("Slipway-Page", origin)
	r.Header.Set("Cookie", cookie)
	h.ServeHTTP(httptest.NewRecorder(), r)
	if reached.Get("Authorization") != "" || reached.Get("Cookie") != "" {
		t.Errorf("without sessions the request has %v", reached)
	}
}

// TestSessionEnds checks that the cookie is removed when the platform rejects its token, and that browsers do not
// ask for a password.
func TestSessionEnds(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	w := s.send(t, http.MethodGet, "/api/user-info", "", ofPage(origin, "Cookie", "__Host-slipway=8.expired")...)
	if got := w.Header().Get("Set-Cookie"); w.Code != http.StatusForbidden || got != "__Host-slipway=; Path=/; Max-Age=0; HttpOnly; Secure; SameSite=Strict" {
		t.Errorf("%d, cookie %q", w.Code, got)
	}
	for path, headers := range map[string][]string{
		"/api/user-info": ofPage(origin, "Cookie", "__Host-slipway=8.expired", "Authorization", "Bearer own"),
		"/challenge":     ofPage(origin, "Cookie", "__Host-slipway=0."+given),
	} {
		if w := s.send(t, http.MethodGet, path, "", headers...); w.Header().Get("Set-Cookie") != "" || w.Header().Get("Www-Authenticate") != "" || w.Code < 400 {
			t.Errorf("%s: %d %v", path, w.Code, w.Header())
		}
	}
	if w := s.send(t, http.MethodGet, "/challenge", ""); w.Header().Get("Www-Authenticate") == "" {
		t.Error("programs get no challenge")
	}
	for _, value := range []string{"", ".", "0.", "x." + given, given, "8." + strings.Repeat("a", gateway.MaxSessionToken+1), `"8.a b"`} {
		if s.send(t, http.MethodGet, "/api/user-info", "", ofPage(origin, "Cookie", "__Host-slipway="+value)...); s.reached.Get("Authorization") != "" {
			t.Errorf("the value %.20q is the user %.20q", value, s.reached.Get("Authorization"))
		}
	}
}

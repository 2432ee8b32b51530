package gateway

import (
	"errors"
	"net/http"
	"net/url"
	"slices"

	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"

	platformv1 "slipway.dev/proto/gen/slipway/platform/v1"
)

// signIn implements the platform's sign-in for programs: pages on which a user enters their
// token, and the token endpoint (gateway/contract/platform.md#sign-in). Forms and redirects
// are not API calls, so they are handled here.
type signIn struct {
	mux     *runtime.ServeMux
	service platformv1.IdentityServiceClient
	// name is the name of the OIDC provider for users.
	name string
}

func (s signIn) mount() error {
	for _, p := range []struct {
		method, path string
		handle       runtime.HandlerFunc
	}{
		{http.MethodGet, "/.well-known/openid-configuration", s.configuration},
		{http.MethodGet, "/oauth/authorize", s.page},
		{http.MethodPost, "/oauth/authorize", s.authorize},
		{http.MethodGet, "/oauth/oidc", s.startSignIn},
		{http.MethodGet, "/oauth/callback", s.finishSignIn},
		{http.MethodPost, "/oauth/device_authorization", s.device},
		{http.MethodGet, "/oauth/device", s.showCodePage},
		{http.MethodPost, "/oauth/device", s.describeDevice},
		{http.MethodPost, "/oauth/consent", s.grant},
		{http.MethodPost, "/oauth/access_token", s.tokens},
		{http.MethodGet, "/login", s.landing},
	} {
		if err := s.mux.HandlePath(p.method, p.path, p.handle); err != nil {
			return err
		}
	}
	return nil
}

func (s signIn) refuse(w http.ResponseWriter, r *http.Request, err error) {
	writePlatformError(r.Context(), s.mux, nil, w, r, err)
}

// configuration serves the addresses of the endpoints (OpenID Connect Discovery).
func (s signIn) configuration(w http.ResponseWriter, r *http.Request, _ map[string]string) {
	info, err := s.service.GetServiceInfo(r.Context(), &platformv1.GetServiceInfoRequest{})
	if err != nil {
		s.refuse(w, r, err)
		return
	}
	base := info.GetServiceInfo().GetApiUrl()
	writeJSON(w, map[string]any{
		"issuer": base, "authorization_endpoint": base + "/oauth/authorize", "token_endpoint": base + "/oauth/access_token",
		"device_authorization_endpoint": base + "/oauth/device_authorization",
		"response_types_supported":      []string{"code"}, "grant_types_supported": []string{"authorization_code", "refresh_token", deviceGrant},
		"code_challenge_methods_supported": []string{"S256"}, "token_endpoint_auth_methods_supported": []string{"none"},
	})
}

// landing redirects users to the sign-in page. Clients send them here because they append the
// login path to the address of the API.
func (s signIn) landing(w http.ResponseWriter, r *http.Request, _ map[string]string) {
	info, err := s.service.GetServiceInfo(r.Context(), &platformv1.GetServiceInfoRequest{})
	if err != nil {
		s.refuse(w, r, err)
		return
	}
	seeOther(w, info.GetServiceInfo().GetLandingUrl()+"/login")
}

func writeJSON(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(encode(v)) // the client may have disconnected
}

// page shows the page that asks for a token.
func (s signIn) page(w http.ResponseWriter, r *http.Request, _ map[string]string) {
	elsewhere, err := s.provider(r)
	if err != nil {
		s.refuse(w, r, err)
		return
	}
	if elsewhere.To != "" {
		elsewhere.To += "?" + r.URL.RawQuery
	}
	show(w, http.StatusOK, signInPage(r.URL.Query().Get, elsewhere))
}

// provider returns the OIDC provider, or the zero value if the server has no provider.
func (s signIn) provider(r *http.Request) (provider, error) {
	info, err := s.service.GetServiceInfo(r.Context(), &platformv1.GetServiceInfoRequest{})
	if err != nil || !slices.Contains(info.GetServiceInfo().GetAuthTypes(), "oidc") {
		return provider{}, err
	}
	// The cookie for the return belongs to the platform's own address.
	return provider{Name: s.name, To: info.GetServiceInfo().GetApiUrl() + "/oauth/oidc"}, nil
}

func htmlHeaders(h http.Header) {
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Security-Policy", "default-src 'none'; style-src "+pageStyleSum()+"; frame-ancestors 'none'; form-action 'self' http://127.0.0.1:* http://localhost:*")
	// With no-referrer, browsers would send the forms with the Origin "null".
	h.Set("Referrer-Policy", "same-origin")
	h.Set("X-Content-Type-Options", "nosniff")
}

// maxForm is the maximum length of a form in bytes: it contains a few tokens.
const maxForm = 64 << 10

// form returns a function that reads a form's fields. If the form is malformed, it writes
// the error and returns false.
func (s signIn) form(w http.ResponseWriter, r *http.Request) (read func(string) string, ok bool) {
	r.Body = http.MaxBytesReader(w, r.Body, maxForm)
	err := r.ParseForm()
	if errors.As(err, new(*http.MaxBytesError)) {
		WriteMessage(w, http.StatusRequestEntityTooLarge, "The form is larger than 64 KiB")
		return nil, false
	}
	if err != nil || !areTexts(r.PostForm) {
		WriteMessage(w, http.StatusBadRequest, identified("The form must be UTF-8, without the character NUL", w.Header()))
		return nil, false
	}
	return r.PostFormValue, true
}

// authorize issues a code to the program that the page named, for the user of the access
// token.
func (s signIn) authorize(w http.ResponseWriter, r *http.Request, _ map[string]string) {
	form, ok := s.form(w, r)
	if !ok {
		return
	}
	resp, err := s.service.CreateCode(r.Context(), &platformv1.CreateCodeRequest{
		AccessToken: form("access_token"), ClientId: form("client_id"), RedirectUri: form("redirect_uri"),
		CodeChallenge: form("code_challenge"), CodeChallengeMethod: form("code_challenge_method"),
	})
	if err != nil {
		s.refuse(w, r, err)
		return
	}
	to, err := url.Parse(form("redirect_uri")) // the service has validated it
	if err != nil {
		s.refuse(w, r, err)
		return
	}
	q := to.Query()
	q.Set("code", resp.GetCode())
	if state := form("state"); state != "" {
		q.Set("state", state)
	}
	to.RawQuery = q.Encode()
	seeOther(w, to.String())
}

// tokens returns a pair of tokens, as JSON and as the cookies that older clients read. The
// cookies are never accepted as authentication.
func (s signIn) tokens(w http.ResponseWriter, r *http.Request, _ map[string]string) {
	form, ok := s.form(w, r)
	if !ok {
		return
	}
	resp, err := s.service.IssueTokens(r.Context(), &platformv1.IssueTokensRequest{
		GrantType: form("grant_type"), Code: form("code"), CodeVerifier: form("code_verifier"),
		RedirectUri: form("redirect_uri"), ClientId: form("client_id"), RefreshToken: form("refresh_token"),
		DeviceCode: form("device_code"),
	})
	if err != nil {
		s.refuseTokens(w, r, err)
		return
	}
	for name, value := range map[string]string{"JWT": resp.GetAccessToken(), "JWT_REFRESH_TOKEN": resp.GetRefreshToken()} {
		http.SetCookie(w, &http.Cookie{Name: name, Value: value, Path: "/", HttpOnly: true, Secure: true, SameSite: http.SameSiteLaxMode})
	}
	writeJSON(w, map[string]any{
		"access_token": resp.GetAccessToken(), "refresh_token": resp.GetRefreshToken(),
		"token_type": "Bearer", "expires_in": resp.GetExpiresIn(),
	})
}

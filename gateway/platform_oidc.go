package gateway

import (
	"cmp"
	"net/http"
	"strings"
	"unicode"

	platformv1 "slipway.dev/proto/gen/slipway/platform/v1"
)

// signInCookie binds the return from the OIDC provider to the browser that started the
// sign-in.
const signInCookie = "slipway_sign_in"

// startSignIn redirects a user to the OIDC provider.
func (s signIn) startSignIn(w http.ResponseWriter, r *http.Request, _ map[string]string) {
	q := r.URL.Query()
	req := &platformv1.BeginSignInRequest{State: q.Get("state")}
	if !q.Has("device") { // otherwise the user enters a code after the return
		req.Program = &platformv1.Program{
			ClientId: q.Get("client_id"), RedirectUri: q.Get("redirect_uri"),
			CodeChallenge: q.Get("code_challenge"), CodeChallengeMethod: q.Get("code_challenge_method"),
		}
	}
	resp, err := s.service.BeginSignIn(r.Context(), req)
	if err != nil {
		s.showRefusal(w, r, err)
		return
	}
	// Browsers store no Secure cookie for a plain HTTP address, which is only allowed on
	// loopback.
	secure := r.TLS != nil || strings.EqualFold(r.Header.Get("X-Forwarded-Proto"), "https")
	http.SetCookie(w, &http.Cookie{
		Name: signInCookie, Value: resp.GetState(), Path: "/", MaxAge: 600, HttpOnly: true, Secure: secure, SameSite: http.SameSiteLaxMode,
	})
	seeOther(w, resp.GetUrl())
}

// finishSignIn handles the return from the OIDC provider. It redirects the user to the page of
// this service that started the sign-in, to the question about a program, or to the page
// for a device's code.
func (s signIn) finishSignIn(w http.ResponseWriter, r *http.Request, _ map[string]string) {
	q := r.URL.Query()
	cookie, err := r.Cookie(signInCookie)
	if err != nil || cookie.Value == "" || cookie.Value != q.Get("state") {
		s.showRefused(w, r, http.StatusForbidden, refusedSignIn{Why: "This sign-in was not started in this browser, or too long ago."})
		return
	}
	if q.Get("code") == "" {
		s.showRefused(w, r, http.StatusForbidden, refusedSignIn{
			Why: "Your organisation's sign-in did not let you in.", Said: printable(cmp.Or(q.Get("error_description"), q.Get("error"))),
		})
		return
	}
	resp, err := s.service.FinishSignIn(r.Context(), &platformv1.FinishSignInRequest{State: q.Get("state"), Code: q.Get("code")})
	if err != nil {
		s.showRefusal(w, r, err)
		return
	}
	http.SetCookie(w, &http.Cookie{Name: signInCookie, Path: "/", MaxAge: -1, HttpOnly: true, SameSite: http.SameSiteLaxMode})
	switch program := resp.GetProgram(); {
	case program != nil:
		show(w, http.StatusOK, consentQuestion{
			User: resp.GetUserName(), Program: program.GetClientId(), Address: program.GetRedirectUri(), Consent: resp.GetConsent(),
		}.page())
	case resp.GetConsent() != "":
		show(w, http.StatusOK, deviceForm{Consent: resp.GetConsent(), User: resp.GetUserName()}.page())
	default:
		seeOther(w, resp.GetRedirectUri())
	}
}

// showRefusal shows an error to a user in a browser.
func (s signIn) showRefusal(w http.ResponseWriter, r *http.Request, err error) {
	code, p := read(r.Context(), err, w.Header())
	switch code {
	case http.StatusUnauthorized, http.StatusNotFound: // for a 401, browsers would ask for a password
		code = http.StatusForbidden
	case http.StatusBadRequest:
		p.Message = identified(p.Message, w.Header())
	}
	s.showRefused(w, r, code, refusedSignIn{Why: p.Message})
}

func (s signIn) showRefused(w http.ResponseWriter, r *http.Request, code int, f refusedSignIn) {
	if info, err := s.service.GetServiceInfo(r.Context(), &platformv1.GetServiceInfoRequest{}); err == nil && info.GetServiceInfo().GetLandingUrl() != "" {
		f.Again = info.GetServiceInfo().GetLandingUrl() + "/login"
	}
	show(w, code, f.page())
}

// maxPrinted is the maximum number of characters of an external text on a page.
const maxPrinted = 300

// printable returns an external text in a form that a page can show: one short line of
// visible characters.
func printable(text string) string {
	seen := strings.Map(func(r rune) rune {
		if unicode.IsSpace(r) {
			return ' '
		}
		if r == unicode.ReplacementChar || !unicode.IsGraphic(r) {
			return -1
		}
		return r
	}, text)
	line := []rune(strings.Join(strings.Fields(seen), " "))
	if len(line) > maxPrinted {
		return string(line[:maxPrinted]) + "…"
	}
	return string(line)
}

func seeOther(w http.ResponseWriter, to string) {
	w.Header().Set("Location", to)
	w.WriteHeader(http.StatusSeeOther)
}

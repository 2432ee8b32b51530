package gateway

import (
	"cmp"
	"io"
	"net/http"
	"strings"
	"unicode"

	"google.golang.org/grpc/status"

	platformv1 "slipway.dev/proto/gen/slipway/platform/v1"
)

// signInCookie binds the way back from the OIDC provider to the browser that left.
const signInCookie = "slipway_sign_in"

// leave sends a person to the OIDC provider.
func (s signIn) leave(w http.ResponseWriter, r *http.Request, _ map[string]string) {
	q := r.URL.Query()
	req := &platformv1.BeginSignInRequest{State: q.Get("state")}
	if !q.Has("device") { // else the person enters a code when they come back
		req.Program = &platformv1.Program{
			ClientId: q.Get("client_id"), RedirectUri: q.Get("redirect_uri"),
			CodeChallenge: q.Get("code_challenge"), CodeChallengeMethod: q.Get("code_challenge_method"),
		}
	}
	resp, err := s.room.BeginSignIn(r.Context(), req)
	if err != nil {
		s.turnAway(w, r, err)
		return
	}
	// Browsers keep no Secure cookie of a plain address, which only loopback has.
	secure := r.TLS != nil || strings.EqualFold(r.Header.Get("X-Forwarded-Proto"), "https")
	http.SetCookie(w, &http.Cookie{
		Name: signInCookie, Value: resp.GetState(), Path: "/", MaxAge: 600, HttpOnly: true, Secure: secure, SameSite: http.SameSiteLaxMode,
	})
	seeOther(w, resp.GetUrl())
}

// comeBack takes a person from the OIDC provider to the program that waits, or to the
// page where they enter its code.
func (s signIn) comeBack(w http.ResponseWriter, r *http.Request, _ map[string]string) {
	q := r.URL.Query()
	cookie, err := r.Cookie(signInCookie)
	if err != nil || cookie.Value == "" || cookie.Value != q.Get("state") {
		s.showRefused(w, r, http.StatusForbidden, refusedSignIn{Why: "This sign-in was not started in this browser, or too long ago."})
		return
	}
	if q.Get("code") == "" {
		s.showRefused(w, r, http.StatusForbidden, refusedSignIn{
			Why: "Your organisation's sign-in did not let you in.", Said: sayable(cmp.Or(q.Get("error_description"), q.Get("error"))),
		})
		return
	}
	resp, err := s.room.FinishSignIn(r.Context(), &platformv1.FinishSignInRequest{State: q.Get("state"), Code: q.Get("code")})
	if err != nil {
		s.turnAway(w, r, err)
		return
	}
	http.SetCookie(w, &http.Cookie{Name: signInCookie, Path: "/", MaxAge: -1, HttpOnly: true, SameSite: http.SameSiteLaxMode})
	if resp.GetConsent() != "" {
		s.showDevice(w, http.StatusOK, deviceForm{Consent: resp.GetConsent(), User: resp.GetUserName()})
		return
	}
	seeOther(w, resp.GetRedirectUri())
}

// turnAway tells a person, who is in a browser, what a program would be told.
func (s signIn) turnAway(w http.ResponseWriter, r *http.Request, err error) {
	code, why := read(status.Convert(err), w.Header())
	switch code {
	case http.StatusUnauthorized, http.StatusNotFound: // browsers would ask for a password
		code = http.StatusForbidden
	case http.StatusBadRequest:
		why = identified(why, w.Header())
	}
	s.showRefused(w, r, code, refusedSignIn{Why: why})
}

func (s signIn) showRefused(w http.ResponseWriter, r *http.Request, code int, f refusedSignIn) {
	if info, err := s.room.GetServiceInfo(r.Context(), &platformv1.GetServiceInfoRequest{}); err == nil && info.GetServiceInfo().GetLandingUrl() != "" {
		f.Again = info.GetServiceInfo().GetLandingUrl() + "/login"
	}
	htmlHeaders(w.Header())
	w.WriteHeader(code)
	_, _ = io.WriteString(w, f.page()) // the client may be gone
}

// mostSaid is how many characters of a provider's own words are shown.
const mostSaid = 300

// sayable is a text of the provider's as it can stand on a page: a line of what can be
// seen, and not long.
func sayable(text string) string {
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
	if len(line) > mostSaid {
		return string(line[:mostSaid]) + "…"
	}
	return string(line)
}

func seeOther(w http.ResponseWriter, to string) {
	w.Header().Set("Location", to)
	w.WriteHeader(http.StatusSeeOther)
}

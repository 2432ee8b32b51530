package gateway

import (
	"net/http"
	"strings"

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
		s.refuse(w, r, err)
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
		writeMessage(w, http.StatusForbidden, "This sign-in was not started in this browser; start again")
		return
	}
	if q.Get("code") == "" {
		writeMessage(w, http.StatusForbidden, "The sign-in provider did not let you in; start again")
		return
	}
	resp, err := s.room.FinishSignIn(r.Context(), &platformv1.FinishSignInRequest{State: q.Get("state"), Code: q.Get("code")})
	if err != nil {
		s.refuse(w, r, err)
		return
	}
	http.SetCookie(w, &http.Cookie{Name: signInCookie, Path: "/", MaxAge: -1, HttpOnly: true, SameSite: http.SameSiteLaxMode})
	if resp.GetConsent() != "" {
		s.showDevice(w, http.StatusOK, deviceForm{Consent: resp.GetConsent(), User: resp.GetUserName()})
		return
	}
	seeOther(w, resp.GetRedirectUri())
}

func seeOther(w http.ResponseWriter, to string) {
	w.Header().Set("Location", to)
	w.WriteHeader(http.StatusSeeOther)
}

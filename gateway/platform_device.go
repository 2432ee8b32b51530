package gateway

import (
	"encoding/json"
	"io"
	"net/http"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/status"

	platformv1 "slipway.dev/proto/gen/slipway/platform/v1"
)

// deviceGrant is the grant_type of a program that showed a code (RFC 8628, 3.4).
const deviceGrant = "urn:ietf:params:oauth:grant-type:device_code"

// device gives a program on a machine without a browser a code to show (RFC 8628, 3.1).
// No address comes with the code in it: who types it knows which program it is from.
func (s signIn) device(w http.ResponseWriter, r *http.Request, _ map[string]string) {
	form, ok := s.form(w, r)
	if !ok {
		return
	}
	resp, err := s.room.BeginDeviceSignIn(r.Context(), &platformv1.BeginDeviceSignInRequest{ClientId: form("client_id")})
	if err != nil {
		s.refuse(w, r, err)
		return
	}
	writeJSON(w, map[string]any{
		"device_code": resp.GetDeviceCode(), "user_code": resp.GetUserCode(), "verification_uri": resp.GetVerificationUri(),
		"expires_in": resp.GetExpiresIn(), "interval": resp.GetInterval(),
	})
}

// deviceForm is what the page shows on which a code is entered.
type deviceForm struct {
	// Code is what was entered.
	Code string
	// Consent and User are of somebody who came back from the provider.
	Consent, User string
	// Elsewhere is the way to the provider; empty where there is none.
	Elsewhere string
	// Problem is why nobody was let in; Allowed the program that was.
	Problem, Allowed string
}

// askCode shows the page.
func (s signIn) askCode(w http.ResponseWriter, r *http.Request, _ map[string]string) {
	elsewhere, err := s.provider(r)
	if err != nil {
		s.refuse(w, r, err)
		return
	}
	if elsewhere != "" {
		elsewhere += "?device=1"
	}
	s.showDevice(w, http.StatusOK, deviceForm{Elsewhere: elsewhere})
}

// allowDevice lets the program in whose code was entered. What is wrong stands on the
// page, with the code, which people mistype.
func (s signIn) allowDevice(w http.ResponseWriter, r *http.Request, _ map[string]string) {
	form, ok := s.form(w, r)
	if !ok {
		return
	}
	shown := deviceForm{Code: form("user_code"), Consent: form("consent"), User: form("user")}
	resp, err := s.room.AllowDevice(r.Context(), &platformv1.AllowDeviceRequest{
		UserCode: shown.Code, Consent: shown.Consent, AccessToken: form("access_token"),
	})
	if err == nil {
		s.showDevice(w, http.StatusOK, deviceForm{Allowed: resp.GetClientId()})
		return
	}
	code, problem := read(status.Convert(err), w.Header())
	if code == http.StatusUnauthorized {
		code = http.StatusForbidden // browsers would ask for a password
	}
	shown.Problem = problem
	s.showDevice(w, code, shown)
}

func (s signIn) showDevice(w http.ResponseWriter, code int, f deviceForm) {
	htmlHeaders(w.Header())
	w.WriteHeader(code)
	_, _ = io.WriteString(w, f.page()) // the client may be gone
}

// refuseTokens also tells a program that waits for its code to be entered what it has to
// do, in the words of RFC 8628, 3.5.
func (s signIn) refuseTokens(w http.ResponseWriter, r *http.Request, err error) {
	st := status.Convert(err)
	for _, d := range st.Details() {
		info, ok := d.(*errdetails.ErrorInfo)
		if ok && info.GetMetadata()["oauth"] != "" {
			writeOAuthError(w, info.GetMetadata()["oauth"], st.Message())
			return
		}
	}
	s.refuse(w, r, err)
}

func writeOAuthError(w http.ResponseWriter, kind, message string) {
	body, err := json.Marshal(map[string]string{"error": kind, "error_description": message, "message": message})
	if err != nil {
		writeMessage(w, http.StatusInternalServerError, "Internal error")
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusBadRequest)
	_, _ = w.Write(body) // the client may be gone
}

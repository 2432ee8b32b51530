package gateway

import (
	"net/http"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/status"

	platformv1 "slipway.dev/proto/gen/slipway/platform/v1"
)

// deviceGrant is the grant_type of a program that displayed a code (RFC 8628, 3.4).
const deviceGrant = "urn:ietf:params:oauth:grant-type:device_code"

// device issues a code for a program on a machine without a browser (RFC 8628, 3.1). The
// response has no address that contains the code: a user who has to type the code knows
// which program displays it.
func (s signIn) device(w http.ResponseWriter, r *http.Request, _ map[string]string) {
	form, ok := s.form(w, r)
	if !ok {
		return
	}
	resp, err := s.service.BeginDeviceSignIn(r.Context(), &platformv1.BeginDeviceSignInRequest{ClientId: form("client_id")})
	if err != nil {
		s.refuse(w, r, err)
		return
	}
	writeJSON(w, map[string]any{
		"device_code": resp.GetDeviceCode(), "user_code": resp.GetUserCode(), "verification_uri": resp.GetVerificationUri(),
		"expires_in": resp.GetExpiresIn(), "interval": resp.GetInterval(),
	})
}

// deviceForm is the content of the page on which a code is entered.
type deviceForm struct {
	// Code is the entered code.
	Code string
	// Consent and User are set for a user who has returned from the provider.
	Consent, User string
	// Elsewhere is the provider.
	Elsewhere provider
	// Problem is why the code was not accepted; Allowed is the program that was allowed.
	Problem, Allowed string
}

// showCodePage shows the page on which a code is entered.
func (s signIn) showCodePage(w http.ResponseWriter, r *http.Request, _ map[string]string) {
	elsewhere, err := s.deviceProvider(r)
	if err != nil {
		s.refuse(w, r, err)
		return
	}
	show(w, http.StatusOK, deviceForm{Elsewhere: elsewhere}.page())
}

// deviceProvider returns where a user signs in at the provider and returns to the page of
// the code; the zero value without a provider.
func (s signIn) deviceProvider(r *http.Request) (provider, error) {
	elsewhere, err := s.provider(r)
	if elsewhere.To != "" {
		elsewhere.To += "?device=1"
	}
	return elsewhere, err
}

// describeDevice shows the page that asks about the program of the entered code. Errors are
// shown on the form and keep the code, since users mistype it.
func (s signIn) describeDevice(w http.ResponseWriter, r *http.Request, _ map[string]string) {
	form, ok := s.form(w, r)
	if !ok {
		return
	}
	shown := deviceForm{Code: form("user_code"), Consent: form("consent"), User: form("user")}
	resp, err := s.service.DescribeDevice(r.Context(), &platformv1.DescribeDeviceRequest{
		UserCode: shown.Code, Consent: shown.Consent, AccessToken: form("access_token"),
	})
	if err == nil {
		show(w, http.StatusOK, consentQuestion{User: resp.GetUserName(), Program: resp.GetClientId(), Code: shown.Code, Consent: resp.GetConsent()}.page())
		return
	}
	code, failed := read(r.Context(), err, w.Header())
	if code == http.StatusUnauthorized {
		code = http.StatusForbidden // for a 401, browsers would ask for a password
	}
	shown.Problem = failed.Message
	shown.Elsewhere, _ = s.deviceProvider(r) // the form is usable without the link
	show(w, code, shown.page())
}

// refuseTokens writes an error of the token endpoint. A program that waits until its code is
// entered gets the errors of RFC 8628, 3.5.
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
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusBadRequest)
	_, _ = w.Write(encode(map[string]string{"error": kind, "error_description": message, "message": message, "code": codeOf(http.StatusBadRequest)})) // the client may have disconnected
}

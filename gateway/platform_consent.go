package gateway

import (
	"io"
	"net/http"

	platformv1 "slipway.dev/proto/gen/slipway/platform/v1"
)

// consentQuestion asks a user whether a program may act as them. No code is issued before the user
// has agreed (gateway/contract/platform.md#sign-in).
type consentQuestion struct {
	// User is the name of the user, and Program the name that the program gives itself.
	User, Program string
	// Address is where a program on this machine receives its code; Code is the code that a
	// program on another machine displays.
	Address, Code string
	// Consent is the secret that the form sends to agree. No other page can know it, and it
	// works once, so that another page cannot make the browser agree.
	Consent string
}

// page returns the question as a form.
func (q consentQuestion) page() string {
	where := `shows the code <b>{code}</b>, on whatever machine it runs`
	if q.Address != "" {
		where = `runs on this machine, and gets the answer at <b>{address}</b>`
	}
	return fill(pageHead+`<title>Slipway: let a program in?</title>
<h1>Let a program act as {user}?</h1>
<p>A program that calls itself <b>{program}</b> asks. It `+where+`.</p>
`+programMay+`<p>If you did not start it yourself just now, close this page.</p>
<form method="post" action="consent">
<input type="hidden" name="consent" value="{consent}">
<button>Allow</button>
</form>
`, map[string]string{"user": q.User, "program": printable(q.Program), "address": printable(q.Address), "code": printable(q.Code), "consent": q.Consent})
}

// programMay describes the rights of a program that a user allows.
const programMay = `<p>It may do all that you may do here: see, change and delete your images, builds, credentials, access tokens,
organisations and runs. It can do so for up to 90 days, or until you end its session (<code>slipway tokens list</code> shows it).</p>
`

// grant issues a code to the program that the user has allowed.
func (s signIn) grant(w http.ResponseWriter, r *http.Request, _ map[string]string) {
	form, ok := s.form(w, r)
	if !ok {
		return
	}
	resp, err := s.service.GrantConsent(r.Context(), &platformv1.GrantConsentRequest{Consent: form("consent")})
	switch {
	case err != nil:
		s.showRefusal(w, r, err)
	case resp.GetRedirectUri() != "":
		seeOther(w, resp.GetRedirectUri())
	default:
		show(w, http.StatusOK, deviceForm{Allowed: resp.GetClientId()}.page())
	}
}

// show writes a page.
func show(w http.ResponseWriter, code int, page string) {
	htmlHeaders(w.Header())
	w.WriteHeader(code)
	_, _ = io.WriteString(w, page) // the client may have disconnected
}

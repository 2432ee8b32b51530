package gateway

import (
	"html"
	"strings"
)

// fill puts values in the places of a page that are named {so}: text, or an attribute
// in quotes, never a script. html/template would do as well, but it calls methods by
// their names, for which the linker keeps every exported method of the program: a
// third more of it.
func fill(page string, values map[string]string) string {
	pairs := make([]string, 0, 2*len(values))
	for name, v := range values {
		pairs = append(pairs, "{"+name+"}", html.EscapeString(v))
	}
	return strings.NewReplacer(pairs...).Replace(page) // what was put in is not read again
}

const pageHead = `<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
`

// elsewhereLink leads to the organisation's provider; nowhere where there is none.
func elsewhereLink(to string) string {
	if to == "" {
		return ""
	}
	return fill(`<p><a href="{to}">Sign in with your organisation's account instead</a></p>
`, map[string]string{"to": to})
}

// signInPage asks for a token.
func signInPage(query func(string) string, elsewhere string) string {
	values := map[string]string{}
	for _, name := range []string{"client_id", "redirect_uri", "code_challenge", "code_challenge_method", "state"} {
		values[name] = query(name)
	}
	return fill(pageHead+`<title>Slipway: sign in</title>
<h1>Sign in</h1>
<p>The program <b>{client_id}</b> on this machine asks for access as you. If you did not start it, close this page.</p>
<form method="post">
<input type="hidden" name="client_id" value="{client_id}">
<input type="hidden" name="redirect_uri" value="{redirect_uri}">
<input type="hidden" name="code_challenge" value="{code_challenge}">
<input type="hidden" name="code_challenge_method" value="{code_challenge_method}">
<input type="hidden" name="state" value="{state}">
<label>Your access token <input type="password" name="access_token" autocomplete="off" required autofocus></label>
<button>Allow</button>
</form>
`, values) + elsewhereLink(elsewhere)
}

// page is the form on which a code is entered, or what came of it.
func (f deviceForm) page() string {
	const head = pageHead + `<title>Slipway: sign in on another machine</title>
<h1>Sign in on another machine</h1>
`
	if f.Allowed != "" {
		return fill(head+`<p>The program <b>{program}</b> is signed in. This page can be closed.</p>
`, map[string]string{"program": f.Allowed})
	}
	problem, person := "", `<label>Your access token <input type="password" name="access_token" autocomplete="off" required></label>
<button>Allow</button>
`
	if f.Problem != "" {
		problem = `<p role="alert">{problem}</p>
`
	}
	if f.Consent != "" {
		person = `<input type="hidden" name="consent" value="{consent}"><input type="hidden" name="user" value="{user}">
<button>Sign it in as {user}</button>
`
	}
	return fill(head+problem+`<p>Enter the code that a program of yours shows. If somebody sent you the code, close this page: they would be signed in as you.</p>
<form method="post" action="device">
<label>Code <input name="user_code" value="{code}" autocomplete="off" autocapitalize="characters" spellcheck="false" required autofocus></label>
`+person+`</form>
`, map[string]string{"problem": f.Problem, "code": f.Code, "consent": f.Consent, "user": f.User}) + elsewhereLink(f.Elsewhere)
}

package gateway

import (
	"crypto/sha256"
	"encoding/base64"
	"html"
	"strings"
)

// fill replaces the placeholders {name} of a page by escaped values. A placeholder must be in
// text or in a quoted attribute, never in a script. html/template is not used because it
// calls methods by name: the linker would keep every exported method of the program, which
// makes it a third larger.
func fill(page string, values map[string]string) string {
	pairs := make([]string, 0, 2*len(values))
	for name, v := range values {
		pairs = append(pairs, "{"+name+"}", html.EscapeString(v))
	}
	return strings.NewReplacer(pairs...).Replace(page) // values are not scanned again
}

const pageHead = `<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<style>` + pageStyle + `</style>
`

// pageStyle is the whole style of these pages, so that they need no other file. It
// resembles that of the web page (web/style.css).
const pageStyle = `:root{color-scheme:light dark;--text:#1d1c1a;--back:#fbfaf7;--soft:#5d5a54;--line:#8a857b;--act:#0b6259;--on:#fff}
@media (prefers-color-scheme:dark){:root{--text:#eceae5;--back:#151617;--soft:#aaa79f;--line:#7c8083;--act:#6fd0c1;--on:#0a2320}}
body{max-width:34rem;margin:12vh auto 3rem;padding:0 1.25rem;background:var(--back);color:var(--text);font:1rem/1.55 system-ui,sans-serif;overflow-wrap:anywhere}
h1{margin:0 0 1rem;font-size:1.6rem;line-height:1.25}
a{color:var(--act)}
label{display:block;margin:1.25rem 0 1rem;font-weight:600}
input{display:block;box-sizing:border-box;width:100%;margin-top:.35rem;padding:.6rem .7rem;border:1px solid var(--line);border-radius:.4rem;background:var(--back);color:inherit;font:inherit}
button,.provider a{padding:.6rem 1.2rem;border:0;border-radius:.4rem;background:var(--act);color:var(--on);font:inherit;font-weight:600;cursor:pointer}
.provider a{display:inline-block;text-decoration:none}
:focus-visible{outline:2px solid var(--act);outline-offset:2px}
.note{color:var(--soft)}`

// pageStyleSum returns the digest of the style for the Content-Security-Policy, which
// allows no other.
func pageStyleSum() string {
	sum := sha256.Sum256([]byte(pageStyle))
	return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
}

// organisationsAccount is how pages name the provider at which users sign in, if its name is not set.
const organisationsAccount = "your organisation's account"

// A provider is the OpenID Connect provider at which users sign in. The zero value means that there is no provider.
type provider struct {
	// Name is its name for users, and To the address where the sign-in begins.
	Name, To string
}

// link returns the link to the provider, which other ways to sign in follow; "" without a provider.
func (p provider) link() string {
	if p.To == "" {
		return ""
	}
	return fill(`<p class="provider"><a href="{to}">Sign in with {name}</a></p>
<p>Or use an access token:</p>
`, map[string]string{"to": p.To, "name": p.Name})
}

// signInPage returns the page that asks for a token.
func signInPage(query func(string) string, elsewhere provider) string {
	values := map[string]string{}
	for _, name := range []string{"client_id", "redirect_uri", "code_challenge", "code_challenge_method", "state"} {
		values[name] = query(name)
	}
	values["program"], values["address"] = printable(query("client_id")), printable(query("redirect_uri"))
	return fill(pageHead+`<title>Slipway: sign in</title>
<h1>Sign in</h1>
<p>A program that calls itself <b>{program}</b> asks to act as you. It runs on this machine, and gets the answer at <b>{address}</b>.</p>
`+programMay+`<p>If you did not start it yourself just now, close this page.</p>
`, values) + elsewhere.link() + fill(`<form method="post">
<input type="hidden" name="client_id" value="{client_id}">
<input type="hidden" name="redirect_uri" value="{redirect_uri}">
<input type="hidden" name="code_challenge" value="{code_challenge}">
<input type="hidden" name="code_challenge_method" value="{code_challenge_method}">
<input type="hidden" name="state" value="{state}">
<label>Your access token <input type="password" name="access_token" autocomplete="off" required></label>
<button>Allow</button>
</form>
`, values)
}

// page returns the form on which a code is entered, or the result.
func (f deviceForm) page() string {
	const head = pageHead + `<title>Slipway: sign in on another machine</title>
<h1>Sign in on another machine</h1>
`
	if f.Allowed != "" {
		return fill(head+`<p>The program <b>{program}</b> is signed in. This page can be closed.</p>
`, map[string]string{"program": printable(f.Allowed)})
	}
	problem, person := "", `<label>Your access token <input type="password" name="access_token" autocomplete="off" required></label>
<button>Continue</button>
`
	if f.Problem != "" {
		problem = `<p role="alert">{problem}</p>
`
	}
	if f.Consent != "" {
		person = `<input type="hidden" name="consent" value="{consent}"><input type="hidden" name="user" value="{user}">
<button>Continue as {user}</button>
`
	}
	return fill(head+problem+`<p>Enter the code that a program of yours shows. If you received the code from another person, close this page: they would be signed in as you.</p>
`, map[string]string{"problem": f.Problem}) + f.Elsewhere.link() + fill(`<form method="post" action="device">
<label>Code <input name="user_code" value="{code}" autocomplete="off" autocapitalize="characters" spellcheck="false" required autofocus></label>
`+person+`</form>
`, map[string]string{"code": f.Code, "consent": f.Consent, "user": f.User})
}

// refusedSignIn is the content of the page for a sign-in at the OIDC provider that failed.
type refusedSignIn struct {
	Why string
	// Said is the provider's message, or "".
	Said string
	// Again is the address where the user can sign in, or "".
	Again string
}

func (f refusedSignIn) page() string {
	said, again := "", `<p>Begin again where you started.</p>
`
	if f.Said != "" {
		said = `<p class="note">It says: “{said}”</p>
`
	}
	if f.Again != "" {
		again = `<p><a href="{again}">Begin again on the page</a>, where an access token signs you in, too; or, if a program sent you here, begin again there.</p>
`
	}
	return fill(pageHead+`<title>Slipway: not signed in</title>
<main>
<h1>You are not signed in</h1>
<p role="alert">{why}</p>
`+said+again+"</main>\n", map[string]string{"why": f.Why, "said": f.Said, "again": f.Again})
}

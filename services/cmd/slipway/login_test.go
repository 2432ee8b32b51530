package main

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// me returns the server's response for a known user.
func me(t *testing.T, token string) string {
	t.Helper()
	return serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer "+token {
			w.WriteHeader(http.StatusForbidden)
			_, _ = io.WriteString(w, `{"message":"The access token is not valid"}`)
			return
		}
		_, _ = io.WriteString(w, `{"user":{"id":7,"userName":"ada","email":"ada@example.org"},"later":1}`)
	})
}

func TestLogin(t *testing.T) {
	t.Parallel()
	env := map[string]string{"XDG_CONFIG_HOME": filepath.Join(t.TempDir(), "config")}
	url, other := me(t, "secret-1"), me(t, "secret-2")
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte("secret-1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	got := slipway(t.Context(), env, "login", "--server", url+"/", "--token-file", file)
	if want := "Signed in to " + url + " as ada.\n"; got.code != 0 || got.out != want || got.errs != "" {
		t.Fatalf("got %+v, want %q", got, want)
	}
	path := filepath.Join(env["XDG_CONFIG_HOME"], "slipway", "logins.json")
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Fatalf("the file is %v, %v", info, err)
	}
	if got := slipway(t.Context(), env, "whoami"); got.code != 0 || !strings.Contains(got.out, "ada@example.org") || !strings.Contains(got.out, url) {
		t.Errorf("after signing in: %+v", got)
	}
	// A token is sent to its own server only, and flags win over stored logins.
	if got := slipway(t.Context(), env, "whoami", "--server", other); got.code != 1 || !strings.Contains(got.errs, "slipway login") {
		t.Errorf("at another server: %+v", got)
	}
	env["SLIPWAY_TOKEN"] = "secret-2"
	if got := slipway(t.Context(), env, "whoami", "--server", other); got.code != 0 {
		t.Errorf("with a variable: %+v", got)
	}
	if got := slipway(t.Context(), env, "whoami"); got.code != 1 || strings.Contains(got.errs, "slipway login") {
		t.Errorf("with the wrong variable: %+v", got)
	}
	delete(env, "SLIPWAY_TOKEN")
	if got := slipway(t.Context(), env, "logout"); got.code != 0 || !strings.Contains(got.out, "Signed out of "+url) {
		t.Errorf("signing out: %+v", got)
	}
	if got := slipway(t.Context(), env, "logout", "--server", url); got.code != 1 || !strings.Contains(got.errs, "not signed in") {
		t.Errorf("signing out twice: %+v", got)
	}
	if raw, err := os.ReadFile(path); err != nil || strings.Contains(string(raw), "secret") {
		t.Errorf("left is %s, %v", raw, err)
	}
}

func TestLoginRefused(t *testing.T) {
	t.Parallel()
	url := me(t, "secret")
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte("wrong"), 0o600); err != nil {
		t.Fatal(err)
	}
	home := map[string]string{"HOME": t.TempDir()}
	for _, c := range []struct {
		name, args, want string
		env              map[string]string
		code             int
	}{
		{"a wrong token", "login --server " + url + " --token-file " + file, "signing in: The access token is not valid", home, 1},
		{"no terminal", "login --server " + url, "--token-stdin", home, 2},
		{"two sources of the token", "login --server " + url + " --token-stdin --token-file " + file, "cannot be used together", home, 2},
		{"the web and a token", "login --web --token-stdin", "--device create a token", home, 2},
		{"--web and --device", "login --web --device", "cannot be used together", home, 2},
		{"no such file", "login --server " + url + " --token-file /nothing", "reading the token", home, 1},
		{"no server", "login --server x --token-file " + file, "must be a URL", home, 2},
	} {
		if got := slipway(t.Context(), c.env, strings.Fields(c.args)...); got.code != c.code || got.out != "" || !strings.Contains(got.errs, c.want) {
			t.Errorf("%s: got %+v", c.name, got)
		}
	}
	if _, err := os.Stat(filepath.Join(home["HOME"], ".config")); !os.IsNotExist(err) {
		t.Error("a login that was refused is kept")
	}
	if err := os.WriteFile(file, []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	got := slipway(t.Context(), nil, "login", "--server", url, "--token-file", file)
	if got.code != 1 || !strings.Contains(got.errs, "neither XDG_CONFIG_HOME nor HOME is set") {
		t.Errorf("without a home: %+v", got)
	}
}

func TestBrokenLogins(t *testing.T) {
	t.Parallel()
	env := map[string]string{"HOME": t.TempDir()}
	path := filepath.Join(env["HOME"], ".config", "slipway", "logins.json")
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := slipway(t.Context(), env, "whoami"); got.code != 1 || !strings.Contains(got.errs, path) {
		t.Errorf("got %+v", got)
	}
}

// watcher acts as the browser: it opens the page that is printed.
type watcher struct {
	once sync.Once
	url  string
	seen func(page string)
}

func (w *watcher) Write(p []byte) (int, error) {
	if i := strings.Index(string(p), w.url); i >= 0 {
		page, _, _ := strings.Cut(string(p[i:]), "\n")
		w.once.Do(func() { go w.seen(page) })
	}
	return len(p), nil
}

// TestLoginOnTheWeb simulates the browser and the server.
func TestLoginOnTheWeb(t *testing.T) {
	t.Parallel()
	var challenge string
	server := serve(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/api/oauth/access_token":
			if r.PostFormValue("code") != "the-code" || len(r.PostFormValue("code_verifier")) < 43 || r.PostFormValue("client_id") != "slipway" || challenge == "" {
				t.Errorf("asked with %v", r.PostForm)
			}
			_, _ = io.WriteString(w, `{"access_token":"a.b.c","refresh_token":"r"}`)
		case "/api/tokens":
			if r.Header.Get("Authorization") != "Bearer a.b.c" {
				t.Errorf("made by %s", r.Header.Get("Authorization"))
			}
			_, _ = io.WriteString(w, `{"accessKey":"lasting","token":{"id":1}}`)
		default:
			if r.Header.Get("Authorization") != "Bearer lasting" {
				w.WriteHeader(http.StatusForbidden)
			}
			_, _ = io.WriteString(w, `{"user":{"userName":"ada"}}`)
		}
	})
	browser := &watcher{url: server + "/api/oauth/authorize", seen: func(page string) {
		u, err := url.Parse(page)
		if err != nil {
			t.Error(err)
			return
		}
		challenge = u.Query().Get("code_challenge")
		for _, state := range []string{"wrong", u.Query().Get("state")} {
			resp, err := http.Get(u.Query().Get("redirect_uri") + "?code=the-code&state=" + state)
			if err != nil {
				t.Error(err)
				return
			}
			resp.Body.Close()
		}
	}}
	home := t.TempDir()
	root := command(func(name string) string { return map[string]string{"HOME": home}[name] })
	var out strings.Builder
	root.SetArgs([]string{"login", "--web", "--server", server})
	root.SetOut(&out)
	root.SetErr(browser)
	if code := run(context.Background(), root); code != 0 || !strings.Contains(out.String(), "as ada") {
		t.Fatalf("exit code %d, %s", code, out.String())
	}
	raw, err := os.ReadFile(filepath.Join(home, ".config", "slipway", "logins.json"))
	var kept struct {
		Logins map[string]struct{ Token, User string }
	}
	if err := errorsOf(err, json.Unmarshal(raw, &kept)); err != nil || kept.Logins[server].Token != "lasting" {
		t.Errorf("kept is %s, %v", raw, err)
	}
}

func errorsOf(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

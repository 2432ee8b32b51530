package caller_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"slipway.dev/services/internal/caller"
	"slipway.dev/services/internal/upstream"
)

func authFile(t testing.TB, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "config.json")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestReadAuthFile(t *testing.T) {
	t.Parallel()
	type logins = map[string]upstream.Login
	ada := upstream.Login{Username: "ada", Password: "pa:ss"}
	const auth = `{"auth":"YWRhOnBhOnNz"}` // ada:pa:ss
	for _, tc := range []struct {
		name, in string
		want     logins
	}{
		{"auth", `{"auths":{"quay.io":` + auth + `}}`, logins{"quay.io": ada}},
		{"user and password", `{"auths":{"quay.io":{"username":"ada","password":"pa:ss"}}}`, logins{"quay.io": ada}},
		{"both: auth wins", `{"auths":{"quay.io":{"auth":"YWRhOnBhOnNz","username":"eve","password":"x"}}}`, logins{"quay.io": ada}},
		{"no password", `{"auths":{"quay.io":{"auth":"YWRhOg=="}}}`, logins{"quay.io": {Username: "ada"}}},
		{"a path", `{"auths":{"quay.io/team":` + auth + `}}`, logins{"quay.io/team": ada}},
		{"a port", `{"auths":{"localhost:5000":` + auth + `}}`, logins{"localhost:5000": ada}},
		{"as written by docker", `{"auths":{"https://index.docker.io/v1/":` + auth + `}}`, logins{"docker.io": ada}},
		{"version 2", `{"auths":{"https://quay.io/v2/":` + auth + `}}`, logins{"quay.io": ada}},
		{"http", `{"auths":{"http://localhost:5000/":` + auth + `}}`, logins{"localhost:5000": ada}},
		{"Docker Hub by its host name", `{"auths":{"registry-1.docker.io/team":` + auth + `}}`, logins{"docker.io/team": ada}},
		{"Docker Hub by its former host name", `{"auths":{"registry.hub.docker.com":` + auth + `}}`, logins{"docker.io": ada}},
		{"several", `{"auths":{"a":` + auth + `,"b":` + auth + `}}`, logins{"a": ada, "b": ada}},
		{"other members", `{"credsStore":"x","HttpHeaders":{},"auths":{}}`, logins{}},
		{"no members", `{}`, logins{}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			got, err := caller.ReadAuthFile(authFile(t, tc.in))
			if diff := cmp.Diff(tc.want, got); err != nil || diff != "" {
				t.Errorf("%v %s", err, diff)
			}
		})
	}
	if got, err := caller.ReadAuthFile(""); err != nil || got == nil || len(got) != 0 {
		t.Errorf("no file: %v, %v", got, err)
	}
}

func TestReadAuthFileRefuses(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ name, in, want string }{
		{"not JSON", `auths: x`, "docker's config.json"},
		{"a list", `[]`, "docker's config.json"},
		{"an empty file", ``, "docker's config.json"},
		{"auth is not base64", `{"auths":{"quay.io":{"auth":"%"}}}`, `"quay.io"`},
		{"auth without a colon", `{"auths":{"quay.io":{"auth":"YWRh"}}}`, `"quay.io"`},
		{"auth without a user", `{"auths":{"quay.io":{"auth":"OngK"}}}`, `"quay.io"`},
		{"a credential helper", `{"auths":{"quay.io":{}},"credsStore":"desktop"}`, "helpers are not supported"},
		{"a password alone", `{"auths":{"quay.io":{"password":"secret"}}}`, `"quay.io"`},
	} {
		path := authFile(t, tc.in)
		_, err := caller.ReadAuthFile(path)
		if err == nil || !strings.Contains(err.Error(), tc.want) || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: got %v, want the file and %s", tc.name, err, tc.want)
		}
		if err != nil && strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: the error contains the password: %v", tc.name, err)
		}
	}
	if _, err := caller.ReadAuthFile(filepath.Join(t.TempDir(), "none")); err == nil {
		t.Error("a missing file was accepted")
	}
}

func FuzzReadAuthFile(f *testing.F) {
	f.Add(`{"auths":{"https://index.docker.io/v1/":{"auth":"YWRhOnBhc3M="}}}`)
	f.Add(`{"auths":{"quay.io/team":{"username":"ada","password":"x"},"http://a/v2":{"auth":"Og=="}}}`)
	f.Add(`{"auths":null}`)
	path := authFile(f, "")
	f.Fuzz(func(t *testing.T, text string) {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		logins, err := caller.ReadAuthFile(path)
		if (logins == nil) != (err != nil) {
			t.Errorf("got %v, %v", logins, err)
		}
		for key, l := range logins {
			if l.Username == "" {
				t.Errorf("%q has no user", key)
			}
		}
	})
}

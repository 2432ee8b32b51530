package doctor

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"slipway.dev/services/cmd/slipway/internal/run"
	"slipway.dev/services/cmd/slipway/internal/session"
	"slipway.dev/services/mount/sandbox"
)

func TestMain(m *testing.M) {
	if code, ok := run.Entered(); ok { // a check of the namespaces
		os.Exit(code)
	}
	os.Exit(m.Run())
}

// A service is a server with a version, a clock and one user.
type service struct {
	version string
	ahead   time.Duration
}

func (s service) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Date", time.Now().Add(s.ahead).UTC().Format(http.TimeFormat))
	switch {
	case r.URL.Path == "/service-info":
		_, _ = io.WriteString(w, `{"serviceInfo":{"version":"1.30.0"}}`)
	case r.URL.Path == "/v1alpha1/abilities":
		_, _ = io.WriteString(w, `{"productVersion":"`+s.version+`"}`)
	case r.URL.Path == "/api/user-info" && r.Header.Get("Authorization") == "Bearer good":
		_, _ = io.WriteString(w, `{"user":{"userName":"ada"}}`)
	case r.URL.Path == "/api/user-info":
		w.WriteHeader(http.StatusUnauthorized)
		_, _ = io.WriteString(w, `{"message":"The access token is not valid"}`)
	default:
		w.WriteHeader(http.StatusNotFound)
	}
}

// examine runs `slipway doctor -o json`, and returns its findings by their checks.
func examine(t *testing.T, env map[string]string, args ...string) (map[string]finding, error) {
	t.Helper()
	s := session.Settings{Version: "1.2.3"}
	root := &cobra.Command{Use: "slipway", SilenceErrors: true, SilenceUsage: true}
	s.Add(root, func(name string) string { return env[name] })
	root.AddCommand(Command(&s))
	var out bytes.Buffer
	root.SetOut(&out)
	root.SetArgs(append([]string{"doctor", "-o", "json", "--cache", filepath.Join(t.TempDir(), "cache")}, args...))
	err := root.ExecuteContext(t.Context())
	var printed struct{ Findings []finding }
	if err := json.Unmarshal(out.Bytes(), &printed); err != nil {
		t.Fatalf("%v: %s", err, out.String())
	}
	all := map[string]finding{}
	failed := 0
	for _, f := range printed.Findings {
		all[f.Check] = f
		if f.State == fail {
			failed++
		}
		if f.State == fail && f.Do == "" {
			t.Errorf("a failure states no fix: %+v", f)
		}
		if f.Text == "" {
			t.Errorf("a finding has no text: %+v", f)
		}
	}
	if (err != nil) != (failed > 0) {
		t.Errorf("%d checks failed, and the error is %v", failed, err)
	}
	return all, err
}

func TestServer(t *testing.T) {
	t.Parallel()
	closed := httptest.NewServer(http.NotFoundHandler())
	closed.Close()
	for _, one := range []struct {
		name, token string
		server      http.Handler // nil for none
		want        map[string]state
	}{
		{"good", "good", service{version: "1.2.9"}, map[string]state{"server": ok, "version": ok, "login": ok, "clock": ok}},
		{"anonymous", "", service{version: "1.2.3"}, map[string]state{"server": ok, "login": ok}},
		{"expired", "bad", service{version: "1.2.3"}, map[string]state{"server": ok, "login": fail}},
		{"another version", "", service{version: "1.3.0"}, map[string]state{"version": warn}},
		{"clock behind", "", service{version: "1.2.3", ahead: time.Hour}, map[string]state{"clock": fail}},
		{"clock ahead", "", service{version: "1.2.3", ahead: -time.Hour}, map[string]state{"clock": fail}},
		{"another server", "", http.NotFoundHandler(), map[string]state{"server": fail}},
		{"none", "", nil, map[string]state{"server": fail}},
	} {
		t.Run(one.name, func(t *testing.T) {
			t.Parallel()
			url := closed.URL
			if one.server != nil {
				s := httptest.NewServer(one.server)
				defer s.Close()
				url = s.URL
			}
			all, _ := examine(t, map[string]string{"SLIPWAY_SERVER": url, "SLIPWAY_TOKEN": one.token})
			for check, want := range one.want {
				if all[check].State != want {
					t.Errorf("%s is %+v, want %s", check, all[check], want)
				}
			}
		})
	}
}

func TestOfflineChecksNoServer(t *testing.T) {
	t.Parallel()
	all, _ := examine(t, map[string]string{"SLIPWAY_SERVER": "http://127.0.0.1:1"}, "--offline")
	if _, ok := all["server"]; ok || all["kernel"].Text == "" || all["cache"].State == "" {
		t.Errorf("%+v", all)
	}
}

func TestCacheFolder(t *testing.T) {
	t.Parallel()
	good, open, file := t.TempDir(), t.TempDir(), filepath.Join(t.TempDir(), "file")
	if err := os.Chmod(open, 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, one := range []struct {
		dir                string
		writable, ownState state
	}{
		{good, ok, ok},
		{filepath.Join(good, "missing", "cache"), ok, ok},
		{open, ok, warn},
		{file, fail, ok},
	} {
		if f := writable(one.dir); f.State != one.writable || !strings.Contains(f.Text, one.dir) {
			t.Errorf("%s: %+v", one.dir, f)
		}
		if f := owner("owner", one.dir, insteadOfLower); f.State != one.ownState {
			t.Errorf("%s: %+v", one.dir, f)
		}
		if f := space(one.dir); f.State == fail || f.Text == "" {
			t.Errorf("%s: %+v", one.dir, f)
		}
	}
	if left, err := os.ReadDir(good); err != nil || len(left) != 0 {
		t.Errorf("files are left: %v, %v", left, err)
	}
}

// A read-only cache that is missing is reported, and does not fail.
func TestLowerCache(t *testing.T) {
	t.Parallel()
	all, _ := examine(t, nil, "--offline", "--cache-lower", "/missing-"+filepath.Base(t.TempDir()))
	if f := all["read-only cache"]; f.State != warn || f.Instead == "" {
		t.Errorf("%+v", f)
	}
}

func TestFromMachine(t *testing.T) {
	t.Parallel()
	for _, one := range []struct {
		in   sandbox.Finding
		want finding
	}{
		{sandbox.Finding{What: "kernel", OK: true, Detail: "6.12"}, finding{Check: "kernel", State: ok, Text: "6.12"}},
		{sandbox.Finding{What: "FUSE", OK: true, Required: true}, finding{Check: "FUSE", State: ok, Text: "allowed"}},
		{sandbox.Finding{What: "FUSE", Required: true, Detail: "denied", Advice: "allow it", Instead: "SIF"}, finding{Check: "FUSE", State: fail, Text: "denied", Do: "allow it", Instead: "SIF"}},
		{sandbox.Finding{What: "EROFS", Detail: "missing", Advice: "load it"}, finding{Check: "EROFS", State: warn, Text: "missing", Do: "load it"}},
	} {
		if got := fromMachine(one.in); got != one.want {
			t.Errorf("%+v: %+v, want %+v", one.in, got, one.want)
		}
	}
}

package e2e

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"slipway.dev/services/internal/testkit"
)

// TestSearchByCommand builds an image, after which any client must find its packages by a
// command and by a file. Packages that were read with a login, and those of a channel that a
// user named, must not be found.
func TestSearchByCommand(t *testing.T) {
	t.Parallel()
	const secret = "s3cret-of-a-channel"
	up, packages := testkit.NewRegistry(t, testkit.Open), newArtifacts(t)
	channel := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/private/") && r.Header.Get("Authorization") != "Bearer "+secret {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		packages.Config.Handler.ServeHTTP(w, r)
	}))
	t.Cleanup(channel.Close)
	s := bare(channel.URL)
	s["conda_channels"] = "lab=" + channel.URL + "/lab,private=" + channel.URL + "/private"
	s["master_key_file"] = newMasterKey(t)
	password := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(password, []byte(secret), 0o600); err != nil {
		t.Fatal(err)
	}
	eachCopyShape(t, []string{up.Host}, s, func(t *testing.T, p *program) {
		base := up.Push(t, "base/index:1", testkit.Index(t, true, "amd64", "arm64"))
		if _, errs, err := p.slipway("credentials", "add", "private", "--channel", channel.URL+"/private", "--bearer", "--password-file", password); err != nil {
			t.Fatal(errs, err)
		}
		build := func(channel string, entries ...string) {
			t.Helper()
			req := environment(base, entries...)
			req["packages"].(map[string]any)["channels"] = []string{channel}
			req["towerAccessToken"] = p.token
			answer := p.order(req)
			if s := p.finished(t, answer); s["succeeded"] != true {
				t.Fatalf("the build of %v of %s ended as %v:\n%s", entries, channel, s, p.logOf(answer))
			} else if log := p.logOf(answer); strings.Contains(log, "index for searches") {
				t.Fatalf("the packages were not indexed:\n%s", log)
			}
		}
		// search returns the results of another client, without an account.
		search := func(query string) (int, string) {
			t.Helper()
			r := p.call(http.MethodGet, "/v1alpha1/conda/packages?"+query, nil)
			return r.status, string(r.body)
		}
		build("private", "lz4-c")
		build("user", "libcurl")
		if status, body := search("channel=lab&command=lz4"); status != http.StatusOK || strings.Contains(body, "lz4-c") {
			t.Errorf("before the first build of the channel, the response is %d %s", status, body)
		}
		build("lab", "libcurl", "lz4-c")
		if status, body := search("channel=lab&command=curl-config"); status != http.StatusOK || !strings.Contains(body, `"name":"libcurl"`) || !strings.Contains(body, `"versions":["8.4.0"]`) || !strings.Contains(body, `"summary":"tool and library`) {
			t.Errorf("by a command, the response is %d %s", status, body)
		}
		if status, body := search("channel=lab&file=" + url.QueryEscape("/opt/conda/include/curl/curl.h")); status != http.StatusOK || !strings.Contains(body, `"name":"libcurl"`) {
			t.Errorf("by a file, the response is %d %s", status, body)
		}
		if status, body := search("channel=lab&file=libz.so.1.2.13"); status != http.StatusOK || !strings.Contains(body, `"paths":["lib/libz.so.1.2.13"]`) {
			t.Errorf("by the name of a file, the response is %d %s", status, body)
		}
		if status, body := search("channel=lab&q=libcurl"); status != http.StatusOK || !strings.Contains(body, `"summary":"tool and library`) {
			t.Errorf("by name, the response is %d %s", status, body)
		}
		if status, body := search("channel=user&command=curl-config"); status != http.StatusBadRequest || !strings.Contains(body, "conda_channels") {
			t.Errorf("in a channel of a user, the response is %d %s", status, body)
		}
		if status, body := search("channel=private&command=lz4"); status == http.StatusOK {
			t.Errorf("in a private channel without a login, the response is %d %s", status, body)
		}
		if out, errs, err := p.slipway("search", "--command", "lz4", "--channel", "private"); err != nil || out != "" || !strings.Contains(errs, "no package") {
			t.Errorf("in a private channel its owner finds %s %s, %v", out, errs, err)
		}
		if out, errs, err := p.slipway("search", "--command", "curl-config", "--channel", "lab"); err != nil || !strings.Contains(out, "libcurl  8.4.0") {
			t.Errorf("the command line finds %s %s, %v", out, errs, err)
		}
	})
}

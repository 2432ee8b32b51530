package e2e

import (
	"fmt"
	"maps"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"slipway.dev/services/internal/testkit"
)

// TestUpstreamCache requests and pulls images while their registries are there, limit requests and
// do not run. What was pulled before must be served, to clients that may read it, with no request to the
// registry but for the digest of a tag, and be said to be stale if that fails.
func TestUpstreamCache(t *testing.T) {
	t.Parallel()
	t.Run("folder", func(t *testing.T) {
		t.Parallel()
		upstreamCache(t, settings{"blob_cache": filepath.Join(t.TempDir(), "blobs")}, oneProcess, 1)
	})
	if testkit.Real() {
		t.Run("bucket", func(t *testing.T) {
			s3 := testkit.StartS3(t)
			upstreamCache(t, unraced(settings{"blob_cache": s3.Address(s3.URL), "blob_cache_credentials_file": s3.Credentials(t)}), processPerRole, 2)
		})
	}
}

// upstreamCache runs the test in a program with the given number of processes of each role. What
// registries allow a user's login, each process asks for itself.
func upstreamCache(t *testing.T, more settings, start func(testing.TB, settings) *program, replicas int) {
	hub, private, operators := testkit.NewRegistry(t, testkit.Open), testkit.NewRegistry(t, testkit.Bearer), testkit.NewRegistry(t, testkit.Basic)
	all := []*testkit.Registry{hub, private, operators}
	image := testkit.Index(t, true, "amd64", "arm64")
	names := []string{hub.Push(t, "lib/tool:1", image), private.Push(t, "team/tool:1", image), operators.Push(t, "lib/tool:1", image)}
	more["upstream_cache"], more["master_key_file"] = "true", newMasterKey(t)
	more["registry_auth_file"] = dockerConfig(t, map[string]string{operators.Host: testkit.User + ":" + testkit.Password})
	s := common(t, []string{hub.Host, private.Host, operators.Host}, more)
	p := start(t, s)
	admin := []string{"Authorization", "Bearer " + p.token}
	r := p.call(http.MethodPost, "/api/credentials", map[string]any{"credentials": map[string]any{
		"name": "private", "provider": "container-reg", "keys": map[string]any{"registry": private.Host, "userName": testkit.User, "password": testkit.Password},
	}}, admin...)
	if r.status != http.StatusOK {
		t.Fatalf("storing credentials: %d %s", r.status, r.body)
	}
	bob := p.newUser("bob")
	added := map[string]any{"env": []string{"A=b"}}
	ask := func(image, token string) reply {
		return p.call(http.MethodPost, "/v1alpha2/container", map[string]any{"containerImage": image, "containerConfig": added, "towerAccessToken": token})
	}
	pulls := func(what, image, token string) (stale bool) {
		t.Helper()
		r := ask(image, token)
		if r.status != http.StatusOK {
			t.Errorf("%s: %s is answered %d: %s", what, image, r.status, r.body)
			return false
		}
		target := text(r.json(t), "targetImage")
		root := request(t, http.MethodGet, manifest(target), nil, "Accept", "application/vnd.oci.image.index.v1+json")
		pull(t, target, "amd64")
		return root.header.Get("Warning") == `110 - "response is stale"`
	}
	forget := func() {
		for _, r := range all {
			r.Requests()
		}
	}
	for i, token := range []string{"", p.token, bob} {
		pulls("first", names[i], token)
	}
	pulls("first", names[2], "")
	forget()
	for i, token := range []string{bob, p.token, ""} {
		pulls("again", names[i], token) // stale only if the registry takes longer than limits.StaleAfter
		if i > 0 && replicas > 1 {
			continue
		}
		if got := all[i].Requests(); slices.ContainsFunc(got, func(r string) bool { return !strings.HasPrefix(r, "HEAD ") || !strings.HasSuffix(r, "/manifests/1") }) {
			t.Errorf("%s: its registry is asked %q", names[i], got)
		}
	}
	digest, err := image.Digest()
	if err != nil {
		t.Fatal(err)
	}
	byDigest := strings.TrimSuffix(names[0], ":1") + "@" + digest.String()
	pulls("by digest", byDigest, "")
	if got := hub.Requests(); len(got) != 0 {
		t.Errorf("for a digest its registry is asked %q", got)
	}

	for _, r := range all {
		r.Intercept(func(w http.ResponseWriter, _ *http.Request) bool {
			w.Header().Set("Retry-After", "60")
			w.WriteHeader(http.StatusTooManyRequests)
			return true
		})
	}
	for i, token := range []string{"", p.token, bob} {
		if i == 1 && replicas > 1 {
			continue
		}
		if !pulls("while the registry limits requests", names[i], token) {
			t.Errorf("%s is not said to be stale", names[i])
		}
	}
	if r := ask(strings.Replace(names[0], ":1", ":2", 1), ""); r.status != http.StatusBadRequest || !strings.Contains(string(r.body), "limits the rate of requests") {
		t.Errorf("an unknown image is answered %d: %s", r.status, r.body)
	}
	for _, token := range []string{"", bob} {
		if r := ask(names[1], token); r.status != http.StatusBadRequest {
			t.Errorf("another user requests a private image: %d %s", r.status, r.body)
		}
	}

	for _, r := range all {
		r.Stop()
	}
	for _, process := range p.procs {
		if slices.Contains([]string{"all", "registry"}, process.name) {
			if err := process.stop(); err != nil {
				t.Fatal(err)
			}
			process.start()
		}
	}
	// With nothing in memory, only what is for everyone is served.
	if !pulls("after a restart without the registry", names[0], bob) {
		t.Error("after a restart without the registry it is not said to be stale")
	}
	pulls("by digest, after a restart without the registry", byDigest, bob)
	for i, token := range []string{p.token, bob} {
		if r := ask(names[1+i], token); replicas == 1 && (r.status != http.StatusBadRequest || !strings.Contains(string(r.body), "cannot be reached")) {
			t.Errorf("without its registry the request of %s is answered %d: %s", names[1+i], r.status, r.body)
		}
	}
	p.saysThatItIsStale(t)
}

// saysThatItIsStale checks the log and the metrics of a program that has served stale images.
func (p *program) saysThatItIsStale(t *testing.T) {
	t.Helper()
	logs, stale := "", 0
	for _, process := range p.procs {
		logs += process.log()
		for line := range strings.Lines(string(request(t, http.MethodGet, process.admin+"/metrics", nil).body)) {
			if strings.HasPrefix(line, "slipway_upstream_cache_total{") && strings.Contains(line, `result="stale"} `) && !strings.HasSuffix(line, " 0\n") {
				stale++
			}
		}
	}
	if n := strings.Count(logs, "what is known of its images is served"); n == 0 || stale == 0 {
		t.Errorf("the log says it %d times, and %d metrics", n, stale)
	}
}

// TestClientsInAnOutage is TestClients while the registries of the images do not run.
func TestClientsInAnOutage(t *testing.T) {
	needClients(t)
	running := engines(t)
	for where, more := range map[string]func(*testing.T) settings{
		"folder": func(t *testing.T) settings { return settings{"blob_cache": filepath.Join(t.TempDir(), "blobs")} },
		"bucket": func(t *testing.T) settings {
			s3 := testkit.StartS3(t)
			return settings{"blob_cache": s3.Address(s3.URL), "blob_cache_credentials_file": s3.Credentials(t)}
		},
	} {
		t.Run(where, func(t *testing.T) {
			up := testkit.NewRegistry(t, testkit.Open)
			body := map[string]any{"containerImage": up.Push(t, "base/busybox:1", busybox(t, true)), "containerConfig": map[string]any{
				"env": []string{"GREETING=hello"}, "entrypoint": []string{"/entry.sh"},
				"layers": []any{dataLayer(t, "added.txt", "of the request"), dataLayer(t, "entry.sh", entryScript)},
			}}
			s := settings{"upstream_cache": "true"}
			maps.Copy(s, more(t))
			p := oneProcess(t, common(t, []string{up.Host}, s))
			testkit.Until(t, "the image is kept", func() error { // uploads to a bucket run in the background
				up.Requests()
				pull(t, p.submit(body), "amd64")
				if got := up.Requests(); slices.ContainsFunc(got, func(r string) bool { return !strings.HasPrefix(r, "HEAD ") }) {
					return fmt.Errorf("the registry is asked %q", got)
				}
				return nil
			})
			up.Stop()
			pullWithEach(t, running, p.submit(body))
		})
	}
}

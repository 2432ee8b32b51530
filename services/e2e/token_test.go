package e2e

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/bcrypt"

	"slipway.dev/services/internal/testkit"
)

func TestInvalidImageNames(t *testing.T) {
	t.Parallel()
	up := testkit.NewRegistry(t, testkit.Open)
	image := up.Push(t, "lib/tool:v1", testkit.Image(t, "amd64", true))
	eachShape(t, []string{up.Host}, nil, func(t *testing.T, p *program) {
		target := p.submit(map[string]any{"containerImage": image})
		base, token := v2(target), tokenOf(target)
		for name, url := range map[string]string{
			"unknown token":   strings.Replace(base, token, strings.Repeat("a", 26), 1) + "/manifests/v1",
			"malformed token": strings.Replace(base, token, "../../etc", 1) + "/manifests/v1",
			"wrong path":      strings.Replace(base, "lib/tool", "lib/other", 1) + "/manifests/v1",
			"longer path":     strings.Replace(base, "lib/tool", "lib/tool/more", 1) + "/manifests/v1",
		} {
			t.Run(name, func(t *testing.T) {
				r := request(t, http.MethodGet, url, nil)
				if r.status != http.StatusNotFound {
					t.Fatalf("returned %d %s", r.status, r.body)
				}
				errorBody("NAME_UNKNOWN")(t, r)
			})
		}
		t.Run("another tag", func(t *testing.T) {
			errorBody("MANIFEST_UNKNOWN")(t, request(t, http.MethodGet, base+"/manifests/v2", nil))
		})
	})
}

func TestRevocation(t *testing.T) {
	t.Parallel()
	up := testkit.NewRegistry(t, testkit.Open)
	image := up.Push(t, "lib/tool:v1", testkit.Image(t, "amd64", true))
	hash, err := bcrypt.GenerateFromPassword([]byte("pass word"), bcrypt.MinCost)
	if err != nil {
		t.Fatal(err)
	}
	operators := settings{"operator_accounts_file": writeFile(t, "htpasswd", "# operators\nops:"+string(hash)+"\n")}
	eachShape(t, []string{up.Host}, operators, func(t *testing.T, p *program) {
		pulled := func(target string) int {
			status := 0
			for _, replica := range p.replicas { // all replicas have the token in memory
				status = max(status, request(t, http.MethodGet, strings.Replace(v2(target), p.host, replica, 1)+"/manifests/v1", nil).status)
			}
			return status
		}
		revoked := func(target string) {
			t.Helper()
			if err := within(20*time.Second, func() error {
				if s := pulled(target); s != http.StatusNotFound {
					return &unexpectedStatus{s}
				}
				return nil
			}); err != nil {
				t.Errorf("after the revocation a replica still serves the image: %v", err)
			}
			for path, want := range map[string]int{"": http.StatusOK, "/status": http.StatusNotFound} {
				if r := p.call(http.MethodGet, "/v1alpha2/container/"+tokenOf(target)+path, nil); r.status != want {
					t.Errorf("GET …%s returned %d %s, want %d", path, r.status, r.body, want)
				}
			}
		}
		t.Run("by a client that has the token", func(t *testing.T) {
			target := p.submit(map[string]any{"containerImage": image})
			if s := pulled(target); s != http.StatusOK {
				t.Fatalf("pulling returned %d", s)
			}
			for range 2 { // repeating it is not an error
				if r := p.call(http.MethodDelete, "/v1alpha2/container/"+tokenOf(target), nil); r.status != http.StatusNoContent || len(r.body) > 0 {
					t.Fatalf("DELETE returned %d %s", r.status, r.body)
				}
			}
			revoked(target)
		})
		t.Run("by an operator", func(t *testing.T) {
			target := p.submit(map[string]any{"containerImage": image})
			pulled(target)
			path := "/container-token/" + tokenOf(target)
			basic := func(user, pass string) string { return "Basic " + b64(user+":"+pass) }
			for _, c := range []struct {
				auth string
				want int
			}{{"", 401}, {basic("ops", "wrong"), 401}, {basic("nobody", "pass word"), 401}, {basic("ops", "pass word"), 200}} {
				r := p.call(http.MethodDelete, path, nil, "Authorization", c.auth)
				if r.status != c.want {
					t.Errorf("DELETE with %q returned %d %s, want %d", c.auth, r.status, r.body, c.want)
				}
				if c.want == 401 && !strings.HasPrefix(r.header.Get("Www-Authenticate"), "Basic ") {
					t.Error("no challenge")
				}
			}
			revoked(target)
			target = p.submit(map[string]any{"containerImage": image})
			if r := p.call(http.MethodDelete, "/container-token/"+idOf(target), nil, "Authorization", basic("ops", "pass word")); r.status != http.StatusOK {
				t.Errorf("DELETE of an id returned %d %s", r.status, r.body)
			}
			revoked(target)
			if r := p.call(http.MethodDelete, "/container-token/"+strings.Repeat("a", 26), nil, "Authorization", basic("ops", "pass word")); r.status != 404 {
				t.Errorf("an unknown token returned %d", r.status)
			}
		})
	})
}

type unexpectedStatus struct{ code int }

func (e *unexpectedStatus) Error() string { return http.StatusText(e.code) }

func TestTagThatMovesBetweenIndexAndManifest(t *testing.T) {
	t.Parallel()
	up := testkit.NewRegistry(t, testkit.Open)
	for _, config := range []map[string]any{nil, {"env": []string{"A=b"}}} {
		old := testkit.Index(t, true, "amd64", "arm64")
		image := up.Push(t, "lib/tool:v1", old)
		eachShape(t, []string{up.Host}, nil, func(t *testing.T, p *program) {
			up.Push(t, "lib/tool:v1", old)
			target := p.submit(map[string]any{"containerImage": image, "containerConfig": config})
			first := strings.Replace(v2(target), p.host, p.replicas[0], 1)
			last := strings.Replace(v2(target), p.host, p.replicas[len(p.replicas)-1], 1)
			up.Push(t, "lib/tool:v1", testkit.Index(t, true, "amd64", "arm64")) // after the request and before the pull
			request(t, http.MethodGet, last+"/manifests/v1", nil)
			moved := everythingAt(t, first)
			up.Push(t, "lib/tool:v1", testkit.Index(t, true, "amd64", "arm64"))
			request(t, http.MethodGet, last+"/manifests/v1", nil)
			if got := rest(t, last, moved); got != http.StatusOK {
				t.Errorf("the other replica returned %d for the child of an index that the first one showed", got)
			}
		})
	}
}

// everythingAt returns the digest of the first entry of the currently served index.
func everythingAt(t testing.TB, base string) string {
	t.Helper()
	var x struct{ Manifests []struct{ Digest string } }
	mustJSON(t, request(t, http.MethodGet, base+"/manifests/v1", nil).body, &x)
	return x.Manifests[0].Digest
}

// rest pulls the documents and blobs below a child manifest.
func rest(t testing.TB, base, child string) int {
	t.Helper()
	r := request(t, http.MethodGet, base+"/manifests/"+child, nil)
	if r.status != http.StatusOK {
		return r.status
	}
	var m struct{ Config struct{ Digest string } }
	mustJSON(t, r.body, &m)
	return request(t, http.MethodGet, base+"/blobs/"+m.Config.Digest, nil).status
}

func TestRedisIsLost(t *testing.T) {
	t.Parallel()
	if !testkit.Real() {
		t.Skip("needs a redis-server that can be killed")
	}
	up := testkit.NewRegistry(t, testkit.Open)
	image := up.Push(t, "lib/tool:1", testkit.Index(t, true, "amd64", "arm64"))
	p := processPerRole(t, common(t, []string{up.Host}, nil))
	body := map[string]any{"containerImage": image, "containerConfig": map[string]any{"env": []string{"A=b"}, "layers": []any{dataLayer(t, "f", "x")}}}
	target := p.submit(body)
	gone := p.submit(body)
	want := everything(t, target)
	p.redis.Kill()
	if r := p.call(http.MethodDelete, "/v1alpha2/container/"+tokenOf(gone), nil); r.status != http.StatusNoContent {
		t.Errorf("revoking without Redis returned %d %s", r.status, r.body)
	}
	for _, replica := range []string{"registry-1", "registry-2"} { // the caches in memory are lost too
		p.process(replica).kill()
		p.process(replica).start()
	}
	if got := everything(t, target); got != want {
		t.Error("without Redis the bytes differ")
	}
	during := p.submit(body)
	pull(t, during, "amd64")
	if err := p.redis.Start(); err != nil {
		t.Fatal(err)
	}
	if got := everything(t, target); got != want {
		t.Error("with an empty Redis the bytes differ")
	}
	pull(t, during, "amd64")
	if r := request(t, http.MethodGet, v2(gone)+"/manifests/1", nil); r.status != http.StatusNotFound {
		t.Errorf("a token that was revoked while Redis was down got %d", r.status)
	}
}

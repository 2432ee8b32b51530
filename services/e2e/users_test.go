package e2e

import (
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"slipway.dev/services/internal/testkit"
)

// slipwayd runs a command with the program's database.
func (p *program) slipwayd(args ...string) string {
	p.t.Helper()
	env := p.procs[0].env
	args = append(args, "--data-dir", env["data_dir"])
	if env["database_url"] != "" {
		args = append(args, "--database-url", env["database_url"])
	}
	out, err := exec.Command(filepath.Join(binaries, "slipwayd"), args...).CombinedOutput()
	if err != nil {
		p.t.Fatalf("slipwayd %v: %v\n%s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

// newUser creates a user with a token.
func (p *program) newUser(name string) (token string) {
	p.t.Helper()
	p.slipwayd("user", "create", "--name", name, "--email", name+"@example.org")
	return p.slipwayd("token", "create", "--user", name, "--name", "test")
}

// TestSecondUserIsRefused checks that a user without a login of their own cannot read a private
// image that another user has just pulled.
func TestSecondUserIsRefused(t *testing.T) {
	t.Parallel()
	up := testkit.NewRegistry(t, testkit.Bearer)
	image := up.Push(t, "team/private:1", testkit.Image(t, "amd64", true))
	open := testkit.NewRegistry(t, testkit.Open)
	public := open.Push(t, "lib/public:1", testkit.Image(t, "amd64", true))
	eachShape(t, []string{up.Host, open.Host}, settings{"limit_platform": "0", "master_key_file": newMasterKey(t)}, func(t *testing.T, p *program) {
		ada, eve := p.token, p.newUser("eve")
		kept := request(t, http.MethodPost, p.platform+"/credentials", map[string]any{"credentials": map[string]any{
			"name": "private", "keys": map[string]any{"userName": testkit.User, "password": testkit.Password, "registry": up.Host},
		}}, "Authorization", "Bearer "+ada)
		if kept.status != http.StatusOK {
			t.Fatalf("storing credentials: %d %s", kept.status, kept.body)
		}
		ask := func(token string) reply {
			return p.call(http.MethodPost, "/v1alpha2/container", map[string]any{"containerImage": image, "platformAccessToken": token})
		}
		// Both users concurrently, with empty caches.
		var wg sync.WaitGroup
		for range 6 {
			for token, status := range map[string]int{ada: http.StatusOK, eve: http.StatusBadRequest} {
				wg.Go(func() {
					if r := ask(token); r.status != status {
						t.Errorf("concurrently: %d %s, want %d", r.status, r.body, status)
					}
				})
			}
		}
		wg.Wait()
		// With filled caches.
		target := text(ask(ada).json(t), "targetImage")
		manifest := request(t, http.MethodGet, v2(target)+"/manifests/1", nil)
		config, _ := manifest.json(t)["config"].(map[string]any)
		for _, path := range []string{"/manifests/" + manifest.header.Get("Docker-Content-Digest"), "/blobs/" + text(config, "digest")} {
			if r := request(t, http.MethodGet, v2(target)+path, nil); r.status != http.StatusOK {
				t.Fatalf("%s with a login: %d %s", path, r.status, r.body)
			}
		}
		if r := ask(eve); r.status != http.StatusBadRequest || !strings.Contains(string(r.body), "containerImage") {
			t.Errorf("with filled caches: %d %s", r.status, r.body)
		}
		// By digest, through an issued name of the second user.
		hers := v2(p.submit(map[string]any{"containerImage": public, "platformAccessToken": eve}))
		theirs := strings.Replace(hers, "lib/public", "team/private", 1)
		for _, base := range []string{hers, theirs} {
			for _, path := range []string{"/manifests/" + manifest.header.Get("Docker-Content-Digest"), "/blobs/" + text(config, "digest")} {
				if r := request(t, http.MethodGet, base+path, nil); r.status != http.StatusNotFound {
					t.Errorf("the other user's %s through %s: %d %s", path, base, r.status, r.body)
				}
			}
		}
		inspected := p.call(http.MethodPost, "/v1alpha1/inspect", map[string]any{"containerImage": image, "platformAccessToken": eve})
		if inspected.status == http.StatusOK {
			t.Errorf("inspecting returned %s", inspected.body)
		}
	})
}

// newMasterKey returns a key file that all processes of a program share.
func newMasterKey(t testing.TB) string {
	t.Helper()
	return writeFile(t, "master-key", "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=\n")
}

// TestMasterKeyIsMissing checks that a program that cannot decrypt its data does not start, and
// explains why.
func TestMasterKeyIsMissing(t *testing.T) {
	t.Parallel()
	key := newMasterKey(t)
	p := oneProcess(t, common(t, nil, settings{"master_key_file": key}))
	kept := request(t, http.MethodPost, p.platform+"/credentials", map[string]any{"credentials": map[string]any{
		"name": "a", "keys": map[string]any{"userName": "u", "password": "p", "registry": "quay.io"},
	}}, "Authorization", "Bearer "+p.token)
	if kept.status != http.StatusOK {
		t.Fatalf("storing credentials: %d %s", kept.status, kept.body)
	}
	if err := p.procs[0].stop(); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct{ file, says string }{
		"a file with another key": {writeFile(t, "other-key", "RkVEQ0JBOTg3NjU0MzIxMEZFRENCQTk4NzY1NDMyMTA=\n"), "does not hold the master key"},
		"a missing file":          {filepath.Join(t.TempDir(), "none"), "master_key_file"},
		"a file without a key":    {writeFile(t, "no-key", "# nothing\n"), "it holds no key"},
		"a file with half a key":  {writeFile(t, "half-key", "MDEyMzQ1Njc4OWFi\n"), "not 32 bytes in base64"},
		"no configured file":      {"", "does not hold the master key"},
	} {
		env := settings{}
		for k, v := range p.procs[0].env {
			env[k] = v
		}
		env["master_key_file"] = c.file
		cmd := exec.Command(filepath.Join(binaries, "slipwayd"), "serve")
		cmd.Env = env.environ()
		out, err := cmd.CombinedOutput()
		if err == nil || !strings.Contains(string(out), c.says) {
			t.Errorf("%s: %v\n%s", name, err, out)
		}
	}
	p.procs[0].start()
	if r := request(t, http.MethodGet, p.platform+"/credentials", nil, "Authorization", "Bearer "+p.token); !strings.Contains(string(r.body), "quay.io") {
		t.Errorf("with its key again: %d %s", r.status, r.body)
	}
}

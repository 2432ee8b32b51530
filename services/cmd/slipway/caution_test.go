package main

import (
	"encoding/json"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// plant creates files and their folders.
func plant(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	for name, content := range files {
		must(t, os.MkdirAll(filepath.Join(dir, filepath.Dir(name)), 0o700))
		must(t, os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600))
	}
}

// sent runs a command line against a server. It returns the layers and the context that
// were sent, and standard error.
func sent(t *testing.T, args ...string) ([]sentLayer, string) {
	t.Helper()
	var layers []sentLayer
	server := serve(t, func(w http.ResponseWriter, r *http.Request) {
		var body struct {
			ContainerConfig struct{ Layers []sentLayer }
			BuildContext    *sentLayer
		}
		if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
			t.Errorf("reading the body: %v", err)
		}
		if layers = body.ContainerConfig.Layers; body.BuildContext != nil {
			layers = append(layers, *body.BuildContext)
		}
		_, _ = io.WriteString(w, plainAnswer)
	})
	got := slipway(t.Context(), map[string]string{"SLIPWAY_TOKEN": "secret"}, append(args, "--server", server)...)
	if got.code != 0 || len(layers) != 1 {
		t.Fatalf("got %+v and %d layers", got, len(layers))
	}
	return layers, got.errs
}

// dockerfile creates a Dockerfile outside of every context.
func dockerfile(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	plant(t, dir, map[string]string{"Dockerfile": "FROM scratch\nCOPY . /\n"})
	return filepath.Join(dir, "Dockerfile")
}

// TestContextBesideALiveService checks that building in slipwayd's working folder sends
// neither its data nor its sockets.
func TestContextBesideALiveService(t *testing.T) {
	t.Parallel()
	for name, data := range map[string]map[string]string{
		"marked":       {"data/.slipway-data": "", "data/anything": "TOP-SECRET"},
		"an older one": {"data/slipway.db": "TOP-SECRET", "data/lock": "", "data/admin-token": "TOP-SECRET", "data/master-key": "TOP-SECRET"},
		"deeper":       {"a/b/.slipway-data": "", "a/b/x/y": "TOP-SECRET"},
	} {
		dir := t.TempDir()
		plant(t, dir, data)
		plant(t, dir, map[string]string{"app.py": "print()"})
		must(t, syscall.Mkfifo(filepath.Join(dir, "pipe"), 0o600))
		if l, err := net.Listen("unix", filepath.Join(dir, "s")); err == nil { // the path may be too long for a socket
			t.Cleanup(func() { _ = l.Close() })
		}
		for _, args := range [][]string{{"image", "ubuntu", "--layer", dir}, {"build", "-f", dockerfile(t), "--context", dir}} {
			layers, errs := sent(t, args...)
			plain := unpack(t, layers[0])
			if strings.Contains(string(plain), "TOP-SECRET") || !strings.Contains(string(plain), "app.py") {
				t.Errorf("%s, %s: packed %q", name, args[0], entries(t, plain))
			}
			for _, want := range []string{"Left out pipe: ", "data folder of a slipwayd"} {
				if !strings.Contains(errs, want) {
					t.Errorf("%s, %s: said %q, not %q", name, args[0], errs, want)
				}
			}
		}
	}
}

// TestContextIsADataFolder checks that a context which is a data folder is not sent.
func TestContextIsADataFolder(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	plant(t, dir, map[string]string{".slipway-data": "", "admin-token": "x"})
	got := slipway(t.Context(), nil, "build", "-f", dockerfile(t), "--context", dir)
	if got.code != 1 || !strings.Contains(got.errs, "data folder of a slipwayd") {
		t.Errorf("got %+v", got)
	}
}

// TestWarnsOfSecrets checks that files which look like secrets are sent with a warning,
// since they may be intended.
func TestWarnsOfSecrets(t *testing.T) {
	t.Parallel()
	const key = "-----BEGIN EC PRIVATE KEY-----\n"
	secret := []string{".env", ".env.production", "home/.ssh/id_rsa", "tls/server.pem", "tls/server.key", ".netrc", ".docker/config.json", ".aws/credentials", "kubeconfig", ".kube/config", "admin-token", "master-key", "a/cert.p12"}
	plain := []string{"app.py", ".env.example", "tls/ca.pem", "config.json", "environment.yml", "id_rsa.pub", "translations.key"}
	dir := t.TempDir()
	for _, name := range slices.Concat(secret, plain) {
		content := ""
		if strings.HasPrefix(name, "tls/server") {
			content = key
		}
		plant(t, dir, map[string]string{name: content})
	}
	layers, errs := sent(t, "image", "ubuntu", "--layer", dir)
	if list := strings.Join(entries(t, unpack(t, layers[0])), "\n"); !strings.Contains(list, " admin-token ") {
		t.Errorf("a file that is warned of was not packed: %s", list)
	}
	_, list, _ := strings.Cut(errs, "sent to the server: ")
	list, _, _ = strings.Cut(list, ". List them")
	got := strings.Split(list, ", ")
	slices.Sort(got)
	slices.Sort(secret)
	if !slices.Equal(got, secret) {
		t.Errorf("warned of\n%q, want\n%q\n(%s)", got, secret, errs)
	}
	plant(t, dir, map[string]string{".dockerignore": strings.Join(secret, "\n") + "\n**/.dockerignore"})
	if _, errs := sent(t, "build", "-f", dockerfile(t), "--context", dir); errs != "" {
		t.Errorf("what is left out is warned of: %s", errs)
	}
}

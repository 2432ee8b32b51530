package e2e

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"slipway.dev/services/internal/testkit"
)

// aptSource serves a package "greeting" like a Debian mirror.
func aptSource(t testing.TB) (url string) {
	t.Helper()
	dir, mirror := t.TempDir(), t.TempDir()
	for path, content := range map[string]string{
		"DEBIAN/control":   "Package: greeting\nVersion: 1.0\nArchitecture: all\nMaintainer: nobody <nobody@example.org>\nDescription: says hello\n",
		"usr/bin/greeting": "#!/bin/sh\necho hello of the package\n",
	} {
		if err := os.MkdirAll(filepath.Join(dir, filepath.Dir(path)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, path), []byte(content), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	deb := filepath.Join(mirror, "greeting.deb")
	if out, err := exec.Command("dpkg-deb", "--root-owner-group", "--build", dir, deb).CombinedOutput(); err != nil {
		t.Fatalf("dpkg-deb: %v\n%s", err, out)
	}
	raw, err := os.ReadFile(deb)
	if err != nil {
		t.Fatal(err)
	}
	list := fmt.Sprintf("Package: greeting\nVersion: 1.0\nArchitecture: all\nMaintainer: nobody <nobody@example.org>\nFilename: ./greeting.deb\nSize: %d\nSHA256: %s\nDescription: says hello\n",
		len(raw), sha(raw)[len("sha256:"):])
	if err := os.WriteFile(filepath.Join(mirror, "Packages"), []byte(list), 0o644); err != nil {
		t.Fatal(err)
	}
	// Not 127.0.0.1, which steps reach without the proxy.
	l, err := net.Listen("tcp", "127.0.0.2:0")
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewUnstartedServer(http.FileServer(http.Dir(mirror)))
	_ = server.Listener.Close()
	server.Listener = l
	server.Start()
	t.Cleanup(server.Close)
	return server.URL
}

// TestBuildOnDebian installs a package through the builds' proxy in one stage, copies it to
// another stage, and runs the result.
func TestBuildOnDebian(t *testing.T) {
	t.Parallel()
	needBuilds(t)
	up := testkit.NewRegistry(t, testkit.Open)
	p := oneProcess(t, common(t, []string{up.Host}, nil))
	base := up.Push(t, "base/debian:bookworm", debian(t))
	answer := p.order(recipe(
		"FROM "+base+" AS tools",
		"RUN rm -f /etc/apt/sources.list.d/* && echo 'deb [trusted=yes] "+aptSource(t)+" ./' > /etc/apt/sources.list",
		"RUN apt-get update && apt-get install -y greeting",
		"FROM "+up.Push(t, "base/busybox:1", busybox(t, true)),
		"COPY --from=tools /usr/bin/greeting /usr/bin/",
		`CMD ["/usr/bin/greeting"]`,
	))
	if s := p.finished(t, answer); s["succeeded"] != true {
		t.Fatalf("the build ended as %v", s)
	}
	if got := podman(t, text(answer, "targetImage")); got != "hello of the package\n" {
		t.Errorf("the container printed %q", got)
	}
}

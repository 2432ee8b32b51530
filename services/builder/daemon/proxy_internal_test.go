package daemon

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/upstream"
)

// through returns a client of a proxy that only reaches hosts below .test.
func through(t *testing.T, target *httptest.Server) *http.Client {
	t.Helper()
	p := httptest.NewServer(newProxy(func(ctx context.Context, network, address string) (net.Conn, error) {
		if host, _, _ := net.SplitHostPort(address); !strings.HasSuffix(host, ".test") {
			return nil, fault.Invalid.Newf("%s may not be reached", host)
		}
		return (&net.Dialer{}).DialContext(ctx, network, target.Listener.Addr().String())
	}))
	t.Cleanup(p.Close)
	u, _ := url.Parse(p.URL)
	c := target.Client()
	c.Transport.(*http.Transport).Proxy = http.ProxyURL(u)
	return c
}

func TestProxy(t *testing.T) {
	t.Parallel()
	echo := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, r.Host+r.URL.String()+r.Header.Get("Proxy-Authorization")+r.Header.Get("X-Forwarded-For"))
	})
	plain, secret := httptest.NewServer(echo), httptest.NewTLSServer(echo)
	defer plain.Close()
	defer secret.Close()
	get := func(c *http.Client, url string) (int, string) {
		resp, err := c.Get(url)
		if err != nil {
			return 0, err.Error()
		}
		defer resp.Body.Close()
		b, _ := io.ReadAll(resp.Body)
		return resp.StatusCode, string(b)
	}
	if code, body := get(through(t, plain), "http://a.test/x?y=1"); code != 200 || body != "a.test/x?y=1" {
		t.Errorf("plain: %d %q", code, body)
	}
	if code, body := get(through(t, plain), "http://10.0.0.1/"); code != http.StatusForbidden || !strings.Contains(body, "may not be reached") {
		t.Errorf("plain, refused: %d %q", code, body)
	}
	c := through(t, secret)
	c.Transport.(*http.Transport).TLSClientConfig.ServerName = "example.com" // as in the test certificate
	if code, body := get(c, "https://a.test/x"); code != 200 || body != "a.test/x" {
		t.Errorf("tunnel: %d %q", code, body)
	}
	if code, body := get(c, "https://10.0.0.1/"); code != 0 || !strings.HasSuffix(body, ": 10.0.0.1 may not be reached") {
		t.Errorf("tunnel, refused: %d %q", code, body)
	}
	p := httptest.NewServer(newProxy(nil))
	defer p.Close()
	if code, _ := get(p.Client(), p.URL+"/x"); code != http.StatusBadRequest {
		t.Errorf("a request that is for no proxy got %d", code)
	}
}

// TestReasonPhrase keeps text of callers on one line of the response.
func TestReasonPhrase(t *testing.T) {
	t.Parallel()
	if got := reasonPhrase("h\r\nX: 1\x00é is private"); got != "h??X: 1?? is private" {
		t.Errorf("got %q", got)
	}
	if got := reasonPhrase(strings.Repeat("x", 2*maxReason)); len(got) != maxReason {
		t.Errorf("got %d bytes", len(got))
	}
}

func TestConfiguration(t *testing.T) {
	t.Parallel()
	got := configuration{root: "/d/root", addresses: []string{"unix:///d/s.sock"}, wrapper: "/bin/runc", plain: []string{"127.0.0.1:5000", "docker.io"},
		mirrors: []upstream.Mirror{{Registry: "docker.io", Host: "127.0.0.1:5000", Path: "hub"}, {Registry: "quay.io", Host: "m.example"}, {Registry: "docker.io", Host: "m.example"}}}.String()
	for _, want := range []string{`root = "/d/root"`, `address = ["unix:///d/s.sock"]`, `binary = "/bin/runc"`, "[registry.\"127.0.0.1:5000\"]\n  http = true\n[",
		"[registry.\"docker.io\"]\n  http = true\n  mirrors = [\"127.0.0.1:5000/hub\", \"m.example\"]\n[registry.\"quay.io\"]\n  mirrors = [\"m.example\"]\n"} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is missing in\n%s", want, got)
		}
	}
}

func TestGrown(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	old := filepath.Join(dir, "old")
	if err := os.WriteFile(old, make([]byte, 1<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	since, young := changed(t, old), filepath.Join(dir, "new")
	for next := since; !next.After(since); next = changed(t, young) { // the kernel's clock is coarse
		if err := os.WriteFile(young, make([]byte, 3<<20), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if got := grown(dir, since); got < 3<<20 || got > 3<<20+64<<10 {
		t.Errorf("it grew by %d bytes", got)
	}
}

// changed returns the inode change time of a file.
func changed(t *testing.T, path string) time.Time {
	t.Helper()
	var st syscall.Stat_t
	if err := syscall.Stat(path, &st); err != nil {
		t.Fatal(err)
	}
	return time.Unix(st.Ctim.Unix())
}

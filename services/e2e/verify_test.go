package e2e

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"slipway.dev/services/internal/attest"
	"slipway.dev/services/internal/testkit"
)

// A tamperer is a registry between a client and a server that changes responses.
type tamperer struct {
	*httptest.Server
	// change changes the body of a response to a path; nil changes nothing.
	change atomic.Pointer[func(path string, body []byte) []byte]
}

func newTamperer(t testing.TB, server string) *tamperer {
	t.Helper()
	to, err := url.Parse(server)
	if err != nil {
		t.Fatal(err)
	}
	out := &tamperer{}
	proxy := httputil.NewSingleHostReverseProxy(to)
	director := proxy.Director
	proxy.Director = func(r *http.Request) { director(r); r.Host = to.Host }
	proxy.ModifyResponse = func(r *http.Response) error {
		change := out.change.Load()
		if change == nil || r.StatusCode != http.StatusOK || r.Request.Method != http.MethodGet {
			return nil
		}
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return err
		}
		body = (*change)(r.Request.URL.Path, body)
		r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
		r.Header.Set("Content-Length", strconv.Itoa(len(body)))
		return nil
	}
	out.Server = httptest.NewServer(proxy)
	t.Cleanup(out.Close)
	return out
}

// TestVerify verifies an image with the command line, directly and through a registry that changes
// it.
func TestVerify(t *testing.T) {
	t.Parallel()
	up := testkit.NewRegistry(t, testkit.Open)
	image := up.Push(t, "lib/tool:v1", testkit.Index(t, true, "amd64", "arm64"))
	p := oneProcess(t, common(t, []string{up.Host}, nil))
	target := p.submit(map[string]any{"containerImage": image, "containerConfig": map[string]any{"env": []string{"A=b"}, "layers": []any{dataLayer(t, "added.txt", "x")}}})
	if out, log, err := p.slipway("verify", target, "--layers"); err != nil || !strings.Contains(out, "the digests are correct") {
		t.Fatalf("%s%s%v", out, log, err)
	}
	base := v2(target)
	subject := sha(request(t, http.MethodGet, base+"/manifests/v1", nil).body)
	list := statementsOf(t, base, subject)
	layer := strings.TrimPrefix(digestOfLayer(t, base, subject), "sha256:")
	key := filepath.Join(t.TempDir(), "cosign.pub")
	if err := os.WriteFile(key, request(t, http.MethodGet, p.url+"/.well-known/slipway/cosign.pub", nil).body, 0o600); err != nil {
		t.Fatal(err)
	}
	middle := newTamperer(t, p.url)
	through := strings.Replace(target, strings.TrimPrefix(p.url, "http://"), strings.TrimPrefix(middle.URL, "http://"), 1)
	if out, log, err := p.slipway("verify", through, "--key", key, "--layers"); err != nil {
		t.Fatalf("unchanged: %s%s%v", out, log, err)
	}
	flip := func(body []byte) []byte {
		out := bytes.Clone(body)
		out[len(out)/2] ^= 1
		return out
	}
	for name, c := range map[string]struct {
		change func(path string, body []byte) []byte
		wants  []string
	}{
		"layer": {func(path string, body []byte) []byte {
			if strings.HasSuffix(path, layer) {
				return flip(body)
			}
			return body
		}, []string{"was changed"}},
		"manifest": {func(path string, body []byte) []byte {
			if strings.HasSuffix(path, "/manifests/v1") {
				return bytes.Replace(body, []byte("amd64"), []byte("AMD64"), 1)
			}
			return body
		}, []string{"is not verified"}},
		"bundle": {func(_ string, body []byte) []byte {
			if bytes.Equal(body, list[0].bundle) {
				return flip(body)
			}
			return body
		}, []string{"is not verified"}},
		"without signatures": {func(path string, body []byte) []byte {
			if strings.Contains(path, "/referrers/") {
				return []byte(`{"schemaVersion":2,"mediaType":"application/vnd.oci.image.index.v1+json","manifests":[]}`)
			}
			return body
		}, []string{"no signature"}},
	} {
		middle.change.Store(&c.change)
		out, log, err := p.slipway("verify", through, "--key", key, "--layers")
		if err == nil {
			t.Errorf("%s: accepted:\n%s", name, out)
		}
		for _, want := range c.wants {
			if !strings.Contains(log, want) {
				t.Errorf("%s: %s", name, log)
			}
		}
		t.Logf("%s: %s", name, log)
	}
	other, err := attest.NewKey()
	if err != nil {
		t.Fatal(err)
	}
	private, err := attest.ParseKey(other)
	if err != nil {
		t.Fatal(err)
	}
	public, err := attest.PublicPEM(&private.PublicKey)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(key, public, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, log, err := p.slipway("verify", target, "--key", key); err == nil || !strings.Contains(log, "another key") {
		t.Errorf("another key: %s%v", log, err)
	}
}

// TestVerifyBundle verifies an image of a bundle with the server's key, after the server and the
// registry have stopped.
func TestVerifyBundle(t *testing.T) {
	t.Parallel()
	up := testkit.NewRegistry(t, testkit.Open)
	image := up.Push(t, "lib/tool:v1", testkit.Image(t, "amd64", true))
	p := oneProcess(t, common(t, []string{up.Host}, nil))
	dir := t.TempDir()
	requests, bundle, key := filepath.Join(dir, "requests.jsonl"), filepath.Join(dir, "bundle.tar"), filepath.Join(dir, "cosign.pub")
	err := errors.Join(
		os.WriteFile(requests, encoded(t, map[string]any{"containerImage": image, "containerConfig": map[string]any{"env": []string{"A=b"}}}), 0o600),
		os.WriteFile(key, request(t, http.MethodGet, p.url+"/.well-known/slipway/cosign.pub", nil).body, 0o600),
	)
	if err != nil {
		t.Fatal(err)
	}
	if out, log, err := p.slipway("bundle", requests, "--to", bundle, "--lock", filepath.Join(dir, "slipway.lock")); err != nil {
		t.Fatalf("%s%s%v", out, log, err)
	}
	p.procs[0].kill()
	up.Stop()
	host, _ := serveBundle(t, bundle)
	out, log, err := p.slipway("verify", host+"/lib/tool:v1", "--key", key, "--layers")
	if err != nil || !strings.Contains(out, "Signature") || !strings.Contains(out, "the digests are correct") {
		t.Errorf("%s%s%v", out, log, err)
	}
}

// digestOfLayer returns the last layer of the first platform.
func digestOfLayer(t testing.TB, base, root string) string {
	t.Helper()
	var index struct{ Manifests []struct{ Digest string } }
	mustJSON(t, request(t, http.MethodGet, base+"/manifests/"+root, nil).body, &index)
	var m struct{ Layers []struct{ Digest string } }
	mustJSON(t, request(t, http.MethodGet, base+"/manifests/"+index.Manifests[0].Digest, nil).body, &m)
	return m.Layers[len(m.Layers)-1].Digest
}

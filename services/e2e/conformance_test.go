package e2e

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"slipway.dev/services/internal/testkit"
)

// TestConformance is the pull part of the OCI distribution conformance suite for /v2/wt/….
func TestConformance(t *testing.T) {
	t.Parallel()
	up := testkit.NewRegistry(t, testkit.Open)
	up.Push(t, "lib/tool:v1", testkit.Image(t, "amd64", true))
	eachShape(t, []string{up.Host}, signingKey(t), func(t *testing.T, p *program) {
		for name, c := range map[string]struct {
			config    any
			referrers int // the signature and the provenance
		}{
			"unchanged": {nil, 0},
			"augmented": {map[string]any{"env": []string{"A=b"}, "layers": []any{dataLayer(t, "f", "content")}}, 2},
		} {
			t.Run(name, func(t *testing.T) {
				conform(t, p, p.submit(map[string]any{"containerImage": up.Host + "/lib/tool:v1", "containerConfig": c.config}), c.referrers)
			})
		}
	})
}

func conform(t *testing.T, p *program, target string, referrers int) {
	base := v2(target)
	manifest := request(t, http.MethodGet, base+"/manifests/v1", nil)
	digest := sha(manifest.body)
	var m struct {
		Config struct{ Digest string }
		Layers []struct {
			Digest string
			Size   int
		}
	}
	mustJSON(t, manifest.body, &m)
	const missing = "sha256:0000000000000000000000000000000000000000000000000000000000000000"
	blob := base + "/blobs/" + m.Layers[0].Digest

	for _, c := range []struct {
		name, method, url string
		status            int
		check             func(*testing.T, reply)
	}{
		{"ping", "GET", "http://" + p.host + "/v2/", 200, nil},
		{"HEAD missing manifest by tag", "HEAD", base + "/manifests/nothere", 404, nil},
		{"HEAD missing manifest by digest", "HEAD", base + "/manifests/" + missing, 404, nil},
		{"GET missing manifest by digest", "GET", base + "/manifests/" + missing, 404, errorBody("MANIFEST_UNKNOWN")},
		{"GET missing manifest by tag", "GET", base + "/manifests/nothere", 404, errorBody("MANIFEST_UNKNOWN")},
		{"HEAD manifest by tag", "HEAD", base + "/manifests/v1", 200, contentDigest(digest)},
		{"GET manifest by tag", "GET", base + "/manifests/v1", 200, contentDigest(digest)},
		{"HEAD manifest by digest", "HEAD", base + "/manifests/" + digest, 200, contentDigest(digest)},
		{"GET manifest by digest", "GET", base + "/manifests/" + digest, 200, bytesOf(digest)},
		{"malformed digest of a manifest", "GET", base + "/manifests/sha256:totallywrong", 400, errorBody("DIGEST_INVALID")},
		{"HEAD missing blob", "HEAD", base + "/blobs/" + missing, 404, nil},
		{"GET missing blob", "GET", base + "/blobs/" + missing, 404, errorBody("BLOB_UNKNOWN")},
		{"malformed digest of a blob", "GET", base + "/blobs/sha256:totallywrong", 400, errorBody("DIGEST_INVALID")},
		{"HEAD config", "HEAD", base + "/blobs/" + m.Config.Digest, 200, contentDigest(m.Config.Digest)},
		{"GET config", "GET", base + "/blobs/" + m.Config.Digest, 200, bytesOf(m.Config.Digest)},
		{"HEAD blob", "HEAD", blob, 200, contentDigest(m.Layers[0].Digest)},
		{"GET blob", "GET", blob, 200, bytesOf(m.Layers[0].Digest)},
		{"tags", "GET", base + "/tags/list", 200, tagList("v1")},
		{"tags, at most 0", "GET", base + "/tags/list?n=0", 200, tagList()},
		{"tags after the last", "GET", base + "/tags/list?n=1&last=v1", 200, tagList()},
		{"referrers of an image", "GET", base + "/referrers/" + digest, 200, indexOf(referrers)},
		{"referrers of an unknown image", "GET", base + "/referrers/" + missing, 200, indexOf(0)},
		{"referrers of a malformed digest", "GET", base + "/referrers/sha256:wrong", 400, errorBody("DIGEST_INVALID")},
		{"no push", "PUT", base + "/manifests/v1", 405, errorBody("UNSUPPORTED")},
		{"no upload", "POST", base + "/blobs/uploads/", 405, errorBody("UNSUPPORTED")},
		{"no deletion", "DELETE", base + "/manifests/v1", 405, errorBody("UNSUPPORTED")},
		{"no catalog", "GET", "http://" + p.host + "/v2/_catalog", 404, errorBody("NAME_UNKNOWN")},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := request(t, c.method, c.url, nil)
			if r.status != c.status {
				t.Fatalf("%s %s returned %d, want %d: %s", c.method, c.url, r.status, c.status, r.body)
			}
			if c.method == http.MethodHead && len(r.body) > 0 {
				t.Errorf("HEAD has a body: %s", r.body)
			}
			if c.check != nil {
				c.check(t, r)
			}
		})
	}
	t.Run("conditional requests", func(t *testing.T) {
		for _, url := range []string{base + "/manifests/v1", base + "/blobs/" + m.Config.Digest} {
			tag := request(t, http.MethodGet, url, nil).header.Get("Etag")
			if r := request(t, http.MethodGet, url, nil, "If-None-Match", tag); r.status != http.StatusNotModified || len(r.body) > 0 {
				t.Errorf("%s with its own ETag %s returned %d", url, tag, r.status)
			}
		}
	})
	t.Run("ranges", func(t *testing.T) {
		for _, url := range []string{blob, base + "/blobs/" + m.Config.Digest, base + "/blobs/" + m.Layers[len(m.Layers)-1].Digest} {
			ranges(t, url)
		}
	})
}

func ranges(t *testing.T, url string) {
	t.Helper()
	whole := request(t, http.MethodGet, url, nil).body
	for rng, want := range map[string][]byte{"bytes=0-9": whole[:10], "bytes=5-": whole[5:], "bytes=-7": whole[len(whole)-7:]} {
		r := request(t, http.MethodGet, url, nil, "Range", rng)
		if r.status != http.StatusPartialContent || string(r.body) != string(want) {
			t.Errorf("%s of %s returned %d with %d bytes, want 206 with %d", rng, url, r.status, len(r.body), len(want))
		}
	}
	if r := request(t, http.MethodGet, url, nil, "Range", "bytes=99999999-"); r.status != http.StatusRequestedRangeNotSatisfiable {
		t.Errorf("a range behind the end of %s returned %d", url, r.status)
	}
}

func errorBody(code string) func(*testing.T, reply) {
	return func(t *testing.T, r reply) {
		t.Helper()
		var e struct {
			Errors []struct{ Code, Message string }
		}
		if err := json.Unmarshal(r.body, &e); err != nil || len(e.Errors) != 1 || e.Errors[0].Code != code || e.Errors[0].Message == "" {
			t.Errorf("no OCI error %s: %s", code, r.body)
		}
	}
}

func contentDigest(want string) func(*testing.T, reply) {
	return func(t *testing.T, r reply) {
		t.Helper()
		if got := r.header.Get("Docker-Content-Digest"); got != want {
			t.Errorf("Docker-Content-Digest %q, want %q", got, want)
		}
		if r.header.Get("Content-Length") == "" {
			t.Error("no Content-Length")
		}
	}
}

func bytesOf(digest string) func(*testing.T, reply) {
	return func(t *testing.T, r reply) {
		t.Helper()
		contentDigest(digest)(t, r)
		if sha(r.body) != digest {
			t.Error("the content does not have the digest")
		}
	}
}

func tagList(want ...string) func(*testing.T, reply) {
	return func(t *testing.T, r reply) {
		t.Helper()
		var l struct {
			Name string
			Tags []string
		}
		mustJSON(t, r.body, &l)
		if l.Tags == nil || strings.Join(l.Tags, ",") != strings.Join(want, ",") || !strings.HasPrefix(l.Name, "wt/") {
			t.Errorf("tags %s, want %v", r.body, want)
		}
	}
}

func indexOf(manifests int) func(*testing.T, reply) {
	return func(t *testing.T, r reply) {
		t.Helper()
		var x struct {
			SchemaVersion int
			MediaType     string
			Manifests     []any
		}
		mustJSON(t, r.body, &x)
		if x.SchemaVersion != 2 || x.MediaType != "application/vnd.oci.image.index.v1+json" || x.Manifests == nil || len(x.Manifests) != manifests {
			t.Errorf("no index of %d manifests: %s", manifests, r.body)
		}
		if ct := r.header.Get("Content-Type"); ct != x.MediaType {
			t.Errorf("Content-Type %q", ct)
		}
	}
}

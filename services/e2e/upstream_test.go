package e2e

import (
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/random"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"slipway.dev/services/internal/testkit"
)

// bigImage returns an image with an additional layer of n bytes.
func bigImage(t testing.TB, n int64) (v1.Image, v1.Layer) {
	t.Helper()
	layer, err := random.Layer(n, types.OCILayer)
	if err != nil {
		t.Fatal(err)
	}
	img, err := mutate.AppendLayers(testkit.Image(t, "amd64", true), layer)
	if err != nil {
		t.Fatal(err)
	}
	return img, layer
}

// content returns a layer's compressed bytes, and their path below a repository.
func content(t testing.TB, l v1.Layer) (raw []byte, path string) {
	t.Helper()
	d, err := l.Digest()
	if err != nil {
		t.Fatal(err)
	}
	rc, err := l.Compressed()
	if err != nil {
		t.Fatal(err)
	}
	defer rc.Close()
	if raw, err = io.ReadAll(rc); err != nil {
		t.Fatal(err)
	}
	return raw, "/blobs/" + d.String()
}

func TestUpstreamThatMisbehaves(t *testing.T) {
	t.Parallel()
	up := testkit.NewRegistry(t, testkit.Open)
	img, big := bigImage(t, 4<<20)
	blob, blobPath := content(t, big)
	image := up.Push(t, "lib/tool:v1", img)
	answer := func(code int, header ...string) func(http.ResponseWriter, *http.Request) bool {
		return func(w http.ResponseWriter, _ *http.Request) bool {
			for i := 0; i+1 < len(header); i += 2 {
				w.Header().Set(header[i], header[i+1])
			}
			w.WriteHeader(code)
			return true
		}
	}
	garbage := func(w http.ResponseWriter, r *http.Request) bool {
		if r.Method == http.MethodHead {
			return false
		}
		w.Header().Set("Content-Type", "application/vnd.oci.image.manifest.v1+json")
		w.Header().Set("Docker-Content-Digest", "sha256:"+strings.Repeat("0", 64))
		_, _ = w.Write([]byte(`{"schemaVersion":2,"config":{},"layers":[]}`))
		return true
	}
	eachShape(t, []string{up.Host}, nil, func(t *testing.T, p *program) {
		body := map[string]any{"containerImage": image}
		for _, c := range []struct {
			name           string
			fault          func(http.ResponseWriter, *http.Request) bool
			submit, pulled int
		}{
			{"500", answer(500), 400, 503},
			{"429", answer(429, "Retry-After", "30"), 400, 429},
			{"403", answer(403), 400, 403},
			{"401 without a challenge", answer(401), 400, 401},
			{"404", answer(404), 400, 404},
			{"wrong digest", garbage, 200, 503},
		} {
			t.Run(c.name, func(t *testing.T) {
				up.Intercept(nil)
				target := p.submit(body) // its manifest is not cached yet
				up.Intercept(c.fault)
				defer up.Intercept(nil)
				if r := p.call(http.MethodPost, "/v1alpha2/container", map[string]any{"containerImage": image + "-" + strconv.Itoa(c.submit) + strings.ReplaceAll(c.name, " ", "")}); c.name != "wrong digest" && r.status != c.submit {
					t.Errorf("submitting returned %d %s, want %d", r.status, r.body, c.submit)
				}
				r := request(t, http.MethodGet, v2(target)+"/manifests/v1", nil)
				if r.status != c.pulled {
					t.Errorf("pulling returned %d %s, want %d", r.status, r.body, c.pulled)
				}
				if (r.status == 503 || r.status == 429) && r.header.Get("Retry-After") == "" {
					t.Error("no Retry-After")
				}
				if strings.Contains(string(r.body), "127.0.0.1:") && strings.Contains(string(r.body), "dial") {
					t.Errorf("internals leak: %s", r.body)
				}
			})
		}
		t.Run("recovers", func(t *testing.T) {
			up.Intercept(nil)
			pull(t, p.submit(body), "amd64")
		})
		t.Run("connection cut three times within a blob", func(t *testing.T) {
			var cuts atomic.Int64
			up.Intercept(cutBlob(blob, blobPath, &cuts, 3))
			defer up.Intercept(nil)
			pull(t, p.submit(body), "amd64")
			if cuts.Load() < 3 {
				t.Errorf("the blob was only cut %d times", cuts.Load())
			}
		})
		t.Run("every connection cut within a blob", func(t *testing.T) {
			target := p.submit(body)
			request(t, http.MethodGet, v2(target)+"/manifests/v1", nil)
			var cuts atomic.Int64
			up.Intercept(cutBlob(blob, blobPath, &cuts, 1<<30))
			defer up.Intercept(nil)
			resp, err := http.Get(v2(target) + blobPath)
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			if n, err := io.Copy(io.Discard, resp.Body); err == nil {
				t.Errorf("the client got %d bytes as the complete blob", n)
			}
		})
	})
}

// cutBlob serves a tenth of the remaining bytes of a blob, then cuts the connection, at most
// times times.
func cutBlob(content []byte, path string, cuts *atomic.Int64, times int64) func(http.ResponseWriter, *http.Request) bool {
	return func(w http.ResponseWriter, r *http.Request) bool {
		if r.Method != http.MethodGet || !strings.HasSuffix(r.URL.Path, path) || cuts.Add(1) > times {
			return false
		}
		start := 0
		if rng := r.Header.Get("Range"); rng != "" {
			start, _ = strconv.Atoi(strings.SplitN(strings.TrimPrefix(rng, "bytes="), "-", 2)[0])
			w.Header().Set("Content-Range", "bytes "+strconv.Itoa(start)+"-"+strconv.Itoa(len(content)-1)+"/"+strconv.Itoa(len(content)))
		}
		w.Header().Set("Content-Length", strconv.Itoa(len(content)-start))
		if start > 0 {
			w.WriteHeader(http.StatusPartialContent)
		}
		_, _ = w.Write(content[start : start+(len(content)-start)/10])
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	}
}

func TestUpstreamMissing(t *testing.T) {
	t.Parallel()
	nowhere := "127.0.0.1:" + testkit.FreePort(t)
	eachShape(t, []string{nowhere}, nil, func(t *testing.T, p *program) {
		r := p.call(http.MethodPost, "/v1alpha2/container", map[string]any{"containerImage": nowhere + "/lib/tool:v1"})
		if r.status != http.StatusBadRequest {
			t.Errorf("got %d %s, want 400: clients try again for minutes after 503", r.status, r.body)
		}
		if s := string(r.body); strings.Contains(s, "dial") || !strings.Contains(s, "cannot be reached") {
			t.Errorf("the message is unclear or reveals internals: %s", s)
		}
	})
}

func TestRedirectsOfUpstreamArePassedOn(t *testing.T) {
	t.Parallel()
	up := testkit.NewRegistry(t, testkit.Bearer)
	img, big := bigImage(t, 1<<20)
	blob, blobPath := content(t, big)
	image := up.Push(t, "lib/tool:v1", img)
	var login atomic.Value
	login.Store("")
	cdn := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		login.Store(r.Header.Get("Authorization"))
		_, _ = w.Write(blob)
	}))
	t.Cleanup(cdn.Close)
	up.Intercept(func(w http.ResponseWriter, r *http.Request) bool {
		if !strings.HasSuffix(r.URL.Path, blobPath) {
			return false
		}
		http.Redirect(w, r, cdn.URL+"/signed?for=you", http.StatusTemporaryRedirect)
		return true
	})
	auth := settings{"registry_auth_file": dockerConfig(t, map[string]string{up.Host: testkit.User + ":" + testkit.Password})}
	eachShape(t, []string{up.Host}, auth, func(t *testing.T, p *program) {
		target := p.submit(map[string]any{"containerImage": image})
		url := v2(target) + blobPath
		r := request(t, http.MethodGet, url, nil)
		if r.status != http.StatusTemporaryRedirect || r.header.Get("Location") != cdn.URL+"/signed?for=you" {
			t.Errorf("got %d to %q, want upstream's redirect", r.status, r.header.Get("Location"))
		}
		if r := request(t, http.MethodHead, url, nil); r.status != http.StatusOK || r.header.Get("Content-Length") != strconv.Itoa(len(blob)) {
			t.Errorf("HEAD returned %d, length %s", r.status, r.header.Get("Content-Length"))
		}
		pull(t, target, "amd64")
		if login.Load() != "" {
			t.Error("the registry's login was sent to another host")
		}
	})
}

func TestConcurrentPullsShareOneFetch(t *testing.T) {
	t.Parallel()
	up := testkit.NewRegistry(t, testkit.Open)
	image := up.Push(t, "lib/tool:v1", testkit.Image(t, "amd64", true))
	p := oneProcess(t, common(t, []string{up.Host}, nil))
	target := p.submit(map[string]any{"containerImage": image, "containerConfig": map[string]any{"env": []string{"A=b"}}})
	up.Requests()
	done := make(chan int, 50)
	var sent sync.WaitGroup // upstream responds after all clients have sent their requests
	sent.Add(cap(done))
	up.Intercept(func(http.ResponseWriter, *http.Request) bool {
		sent.Wait()
		time.Sleep(300 * time.Millisecond) // and the server has received them
		return false
	})
	trace := &httptrace.ClientTrace{WroteRequest: func(httptrace.WroteRequestInfo) { sent.Done() }}
	for range cap(done) {
		go func() {
			req, err := http.NewRequestWithContext(httptrace.WithClientTrace(t.Context(), trace), http.MethodGet, v2(target)+"/manifests/v1", nil)
			if err != nil {
				t.Error(err)
			}
			resp, err := http.DefaultClient.Do(req)
			if err != nil {
				t.Error(err)
				done <- 0
				return
			}
			_ = resp.Body.Close()
			done <- resp.StatusCode
		}()
	}
	for range cap(done) {
		if status := <-done; status != http.StatusOK {
			t.Errorf("a pull returned %d", status)
		}
	}
	if n := len(up.Requests()); n > 4 {
		t.Errorf("50 concurrent pulls made %d upstream requests; want 2, for manifest and config", n)
	}
}

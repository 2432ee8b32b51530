package upstream_test

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"github.com/regclient/regclient/types/ref"

	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/limits"
	"slipway.dev/services/internal/testkit"
	"slipway.dev/services/internal/testkit/heap"
	"slipway.dev/services/internal/upstream"
)

// TestHostileBlobRedirects verifies that redirects to addresses are rejected if clients must
// not be redirected there.
func TestHostileBlobRedirects(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ name, target string }{
		{"a file", "file:///etc/passwd"},
		{"a script", "javascript:alert(1)"},
		{"data", "data:text/html,x"},
		{"ftp", "ftp://storage.test/x"},
		{"an unknown scheme", "vscode://storage.test/x"},
		{"metadata", "http://169.254.169.254/latest/meta-data/"},
		{"metadata, by https", "https://169.254.169.254/"},
		{"metadata, IPv6", "https://[fd00:ec2::254]/"},
		{"metadata, mapped", "https://[::ffff:169.254.169.254]/"},
		{"metadata, by name", "https://metadata.google.internal/"},
		{"Azure", "https://168.63.129.16/"},
		{"a private address", "https://10.0.0.1/"},
		{"loopback of IPv6", "https://[::1]/"},
		{"link-local with a zone", "https://[fe80::1%25eth0]/"},
		{"a short address", "https://127.1/"},
		{"an address as one number", "https://2130706433/"},
		{"an address in hexadecimal", "https://0x7f000001/"},
		{"an address in octal", "https://0177.0.0.1/"},
		{"an address with a dot at the end", "https://10.0.0.1./"},
		{"localhost", "https://localhost/"},
		{"below localhost", "https://a.localhost/"},
		{"a name without a dot", "https://intranet/"},
		{"multicast DNS", "https://printer.local/"},
		{"a login", "https://user:password@storage.test/x"},
		{"no host", "https:///x"},
		{"opaque", "https:storage.test"},
		{"another alphabet", "https://stor\u0430ge.test/"},
		{"too long", "https://storage.test/" + strings.Repeat("x", limits.RedirectURL)},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, testkit.Open)
			w.client = newClient(t, newEgress(t, w.Host), w.Host)
			w.instead("/blobs/", func(rw http.ResponseWriter, _ *http.Request) {
				rw.Header().Set("Location", tc.target)
				rw.WriteHeader(http.StatusTemporaryRedirect)
			})
			for _, method := range []string{http.MethodGet, http.MethodHead} {
				b, err := w.client.Blob(t.Context(), method, w.repo, w.config(t).Digest, anonymous, "")
				if !errors.Is(err, fault.Denied) {
					t.Errorf("%s: got %+v, %v; want fault.Denied", method, b, err)
				}
			}
			if b, err := w.client.ReadBlob(t.Context(), w.repo, w.config(t).Digest, anonymous, 0, 1); err == nil {
				t.Errorf("read %+v", b)
			}
		})
	}
}

// TestUsualBlobRedirects verifies that redirects as sent by public registries, and by
// registries in private networks that are allowed, are accepted.
func TestUsualBlobRedirects(t *testing.T) {
	t.Parallel()
	w := newWorld(t, testkit.Open)
	client := newClient(t, newEgress(t, "127.0.0.1", "10.7.0.0/16", "minio", "store.corp:9000"), w.Host)
	for _, tc := range []struct{ name, target, want string }{
		{"signed storage", "https://prod.s3.dualstack.us-east-1.amazonaws.com/a?X-Amz-Signature=1%2F2&x=y", ""},
		{"a public address", "https://93.184.216.34/x", ""},
		{"plain, of a plain registry", "http://storage.test/x", ""},
		{"an allowed network", "http://10.7.1.1:9000/x", ""},
		{"an allowed name", "http://minio:9000/x", ""},
		{"an allowed name and port", "http://store.corp:9000/x", ""},
		{"a fragment is left out", "https://storage.test/x#there", "https://storage.test/x"},
	} {
		w.redirect(tc.target)
		if tc.want == "" {
			tc.want = tc.target
		}
		b, err := client.Blob(t.Context(), http.MethodGet, w.repo, w.config(t).Digest, anonymous, "")
		if err != nil || b.Redirect.String() != tc.want {
			t.Errorf("%s: got %+v, %v", tc.name, b, err)
		}
	}
}

// TestHTTPSRegistryRedirectsToHTTP verifies that a redirect from https to http is rejected.
func TestHTTPSRegistryRedirectsToHTTP(t *testing.T) {
	t.Parallel()
	client, repo := serveTLS(t, http.RedirectHandler("http://storage.test/x", http.StatusFound))
	if b, err := client.Blob(t.Context(), http.MethodGet, repo, digest.FromString("x"), anonymous, ""); !errors.Is(err, fault.Denied) {
		t.Errorf("got %+v, %v; want fault.Denied", b, err)
	}
}

// many is an index of the maximum size with empty entries.
func many() []byte {
	return []byte(`{"schemaVersion":2,"mediaType":"` + ocispec.MediaTypeImageIndex + `","manifests":[` + strings.Repeat(`{},`, limits.Document/3-50) + `{}]}`)
}

// TestHostileResponses verifies that both clients reject responses that would use much
// memory, with memory proportional to their size.
func TestHostileResponses(t *testing.T) {
	w := newWorld(t, testkit.Open)
	raw := many()
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	_, err := z.Write(bytes.Repeat([]byte(" "), 64<<20))
	if err := errors.Join(err, z.Close()); err != nil {
		t.Fatal(err)
	}
	subject, err := ref.New(w.Host + "/team/app@" + w.digest(t).String())
	if err != nil {
		t.Fatal(err)
	}
	endless := func(rw http.ResponseWriter, r *http.Request) {
		for block := make([]byte, 64<<10); r.Context().Err() == nil; {
			if _, err := rw.Write(block); err != nil {
				return
			}
		}
	}
	for _, tc := range []struct {
		name  string
		serve http.HandlerFunc
	}{
		{"an index of empty entries", func(rw http.ResponseWriter, _ *http.Request) {
			rw.Header().Set("Content-Type", ocispec.MediaTypeImageIndex)
			_, _ = rw.Write(raw)
		}},
		{"without an end", endless},
		{"without an end, as an error", func(rw http.ResponseWriter, r *http.Request) { rw.WriteHeader(http.StatusBadRequest); endless(rw, r) }},
		{"a wrong length", func(rw http.ResponseWriter, _ *http.Request) {
			rw.Header().Set("Content-Length", "4000000000")
			_, _ = rw.Write([]byte("{}"))
		}},
		{"a body shorter than its length", func(rw http.ResponseWriter, _ *http.Request) {
			rw.Header().Set("Content-Length", fmt.Sprint(limits.Document))
			_, _ = rw.Write([]byte("{}"))
		}},
		{"a header of a MiB", func(rw http.ResponseWriter, _ *http.Request) {
			rw.Header().Set("Docker-Content-Digest", strings.Repeat("x", 1<<20))
		}},
		{"gzip that was not requested", func(rw http.ResponseWriter, _ *http.Request) {
			rw.Header().Set("Content-Encoding", "gzip")
			_, _ = rw.Write(packed.Bytes())
		}},
	} {
		w.Intercept(func(rw http.ResponseWriter, r *http.Request) bool { tc.serve(rw, r); return true })
		control := newControl(t, []string{"127.0.0.1"}, w.Host)
		control.ShortenPauses()
		heap.Within(t, 0, 64<<20, nil, func() {
			if doc, err := w.client.Manifest(t.Context(), w.repo, "1", anonymous); err == nil {
				t.Errorf("%s: the client read %s", tc.name, doc.Digest)
			}
			if m, err := control.For(anonymous, w.Host).ManifestGet(t.Context(), subject); err == nil {
				t.Errorf("%s: the control client read %v", tc.name, m.GetDescriptor())
			}
			list, err := control.For(anonymous, w.Host).ReferrerList(upstream.WithPages(t.Context()), subject)
			if err == nil && len(list.Descriptors) > 0 {
				t.Errorf("%s: the control client listed %d", tc.name, len(list.Descriptors))
			}
		})
	}
}

// TestPagesInACircle reads a list whose pages link to themselves.
func TestPagesInACircle(t *testing.T) {
	t.Parallel()
	w := newWorld(t, testkit.Open)
	var mu sync.Mutex
	pages := 0
	w.instead("/referrers/", func(rw http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		pages++
		rw.Header().Set("Content-Type", ocispec.MediaTypeImageIndex)
		rw.Header().Set("Link", "<"+r.URL.Path+">; rel=\"next\"")
		_, _ = fmt.Fprintf(rw, `{"schemaVersion":2,"mediaType":"%s","manifests":[{"mediaType":"%s","digest":"%s","size":1}]}`,
			ocispec.MediaTypeImageIndex, ocispec.MediaTypeImageManifest, digest.FromString(fmt.Sprint(pages)))
	})
	subject, err := ref.New(w.Host + "/team/app@" + w.digest(t).String())
	if err != nil {
		t.Fatal(err)
	}
	list, err := newControl(t, []string{"127.0.0.1"}, w.Host).For(anonymous, w.Host).ReferrerList(upstream.WithPages(t.Context()), subject)
	if err != nil || pages > limits.ReferrerPages || len(list.Descriptors) != pages {
		t.Errorf("read %d pages with %d entries, %v", pages, len(list.Descriptors), err)
	}
}

// TestHostileTokenServices verifies that invalid token services and responses are rejected.
func TestHostileTokenServices(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ name, realm, answer string }{
		{"a login in the address", "http://user:password@%s/token", `{"token":"x"}`},
		{"a file", "file:///etc/passwd", ""},
		{"no host", "https:///token", ""},
		{"a response of empty values", "http://%s/service", `{"x":[` + strings.Repeat("{},", 300_000) + `{}]}`},
		{"a token of two lines", "http://%s/service", `{"token":"a\r\nX-Evil: 1"}`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, testkit.Open)
			w.Intercept(func(rw http.ResponseWriter, r *http.Request) bool {
				if r.URL.Path == "/service" {
					_, _ = rw.Write([]byte(tc.answer))
					return true
				}
				rw.Header().Set("WWW-Authenticate", `Bearer realm="`+strings.ReplaceAll(tc.realm, "%s", w.Host)+`"`)
				rw.WriteHeader(http.StatusUnauthorized)
				return true
			})
			if _, err := w.client.Manifest(t.Context(), w.repo, "1", ada); err == nil {
				t.Error("a manifest was read")
			}
			if w.Tokens() != 0 {
				t.Error("the token service received a request")
			}
		})
	}
}

// FuzzRedirect verifies that addresses to which clients are redirected can be parsed in one
// way only.
func FuzzRedirect(f *testing.F) {
	for _, s := range []string{"https://a.example/x?y", "http://[::1%25a]:1/", "https://user@h/", "//h", "https://0x7f.1", "javascript:x", "https://a.example:99999/#x"} {
		f.Add(s)
	}
	client := newClient(f, newEgress(f, "minio"))
	f.Fuzz(func(t *testing.T, raw string) {
		u, err := url.Parse(raw)
		if err != nil {
			return
		}
		got, err := upstream.Passable(client, t.Context(), "registry.test", u)
		if err != nil {
			return
		}
		again, err := url.Parse(got.String())
		if err != nil || again.Scheme != "https" || again.User != nil || again.Host != u.Host || again.Fragment != "" {
			t.Errorf("%q was accepted as %q", raw, got)
		}
		if strings.ContainsFunc(got.String(), func(r rune) bool { return r < ' ' || r == 0x7f }) {
			t.Errorf("%q has control characters", got)
		}
	})
}

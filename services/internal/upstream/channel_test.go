package upstream_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/klauspost/compress/gzip"
	"github.com/prometheus/client_golang/prometheus"

	"slipway.dev/services/internal/testkit"
	"slipway.dev/services/internal/upstream"
)

const (
	repodataType = "application/vnd.conda.repodata.v1+json"
	packageType  = "application/vnd.conda.package.v2"
	oldType      = "application/vnd.conda.package.v1"
)

// channelClient returns a client that reads channels in a registry.
func channelClient(t *testing.T, host string, allow ...string) *http.Client {
	t.Helper()
	egress, err := upstream.NewEgress(allow)
	if err != nil {
		t.Fatal(err)
	}
	c := upstream.New(upstream.Options{Egress: egress, Plain: []string{host}, Metrics: prometheus.NewRegistry()})
	return &http.Client{Transport: upstream.NewChannelTransport(c, upstream.NewTransport(egress)), CheckRedirect: upstream.CheckRedirect}
}

func zipped(t *testing.T, text string) string {
	t.Helper()
	var buf bytes.Buffer
	z := gzip.NewWriter(&buf)
	if _, err := io.WriteString(z, text); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return buf.String()
}

// mirror pushes a channel to a registry.
func mirror(t *testing.T, r *testkit.Registry) {
	t.Helper()
	r.PushArtifact(t, "mirrors/lab/linux-64/repodata.json:latest", repodataType, "plain", repodataType+"+gzip", zipped(t, "unzipped"), repodataType+"+zst", "zst")
	r.PushArtifact(t, "mirrors/lab/noarch/repodata.json:latest", repodataType+"+gzip", zipped(t, "unzipped"))
	r.PushArtifact(t, "mirrors/lab/linux-64/zzz_a:1__e__2-0", packageType, "conda", oldType, "tarball")
	r.PushArtifact(t, "mirrors/lab/linux-64/b:1-0", oldType, "tarball")
}

// TestChannelTransport reads the files of a channel from registries with each kind of authentication.
func TestChannelTransport(t *testing.T) {
	t.Parallel()
	for _, auth := range []testkit.Auth{testkit.Open, testkit.Basic, testkit.Bearer} {
		r := testkit.NewRegistry(t, auth)
		mirror(t, r)
		c := channelClient(t, r.Host, "127.0.0.0/8")
		get := func(file, user, password, etag string) (int, string, http.Header) {
			t.Helper()
			req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "oci://"+r.Host+"/mirrors/lab/"+file, nil)
			if err != nil {
				t.Fatal(err)
			}
			if user != "" {
				req.SetBasicAuth(user, password)
			}
			if etag != "" {
				req.Header.Set("If-None-Match", etag)
			}
			resp, err := c.Do(req)
			if err != nil {
				t.Fatalf("%s: %v", file, err)
			}
			defer func() { _ = resp.Body.Close() }()
			text, err := io.ReadAll(resp.Body)
			if err != nil {
				t.Fatalf("%s: %v", file, err)
			}
			return resp.StatusCode, string(text), resp.Header
		}
		for file, want := range map[string]string{
			"linux-64/repodata.json.zst": "200 zst", "linux-64/repodata.json": "200 plain", "noarch/repodata.json": "200 unzipped", "noarch/repodata.json.zst": "404 ",
			"linux-64/repodata_shards.msgpack.zst": "404 ", "linux-aarch64/repodata.json": "404 ", "linux-64/_a-1!2-0.conda": "200 conda", "linux-64/_a-1!2-0.tar.bz2": "200 tarball",
			"linux-64/b-1-0.conda": "404 ", "linux-64/b-1-0.tar.bz2": "200 tarball", "linux-64/b-2-0.tar.bz2": "404 ",
		} {
			code, text, header := get(file, testkit.User, testkit.Password, "")
			if got := fmt.Sprintf("%d %s", code, text); got != want {
				t.Errorf("%d: %s is %q, want %q", auth, file, got, want)
			}
			if isList := strings.Contains(file, "/repodata"); code == http.StatusOK && (header.Get("Etag") != "") != isList {
				t.Errorf("%s has the ETag %q", file, header.Get("Etag"))
			}
		}
		r.Requests()
		head, err := http.NewRequestWithContext(t.Context(), http.MethodHead, "oci://"+r.Host+"/mirrors/lab/linux-64/repodata.json", nil)
		if err != nil {
			t.Fatal(err)
		}
		head.SetBasicAuth(testkit.User, testkit.Password)
		resp, err := c.Do(head)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if list := strings.Join(r.Requests(), " "); resp.StatusCode != http.StatusOK || strings.Contains(list, "/blobs/") {
			t.Errorf("HEAD is %d with %s", resp.StatusCode, list)
		}
		_, _, header := get("linux-64/repodata.json.zst", testkit.User, testkit.Password, "")
		r.Requests()
		if code, _, _ := get("linux-64/repodata.json.zst", testkit.User, testkit.Password, header.Get("Etag")); code != http.StatusNotModified {
			t.Errorf("an unchanged list is %d", code)
		}
		if list := strings.Join(r.Requests(), " "); strings.Contains(list, "/blobs/") {
			t.Errorf("an unchanged list is fetched: %s", list)
		}
		if auth == testkit.Open {
			continue
		}
		for _, login := range [][2]string{{"", ""}, {testkit.User, "wrong"}} {
			if code, text, _ := get("linux-64/repodata.json", login[0], login[1], ""); code != http.StatusUnauthorized && code != http.StatusForbidden || text != "" {
				t.Errorf("%d: with the login %q a private channel is %d %q", auth, login[0], code, text)
			}
		}
	}
}

// TestChannelTransportRefuses checks that content with another digest, unavailable registries,
// and addresses inside the network are errors.
func TestChannelTransportRefuses(t *testing.T) {
	t.Parallel()
	r := testkit.NewRegistry(t, testkit.Open)
	mirror(t, r)
	read := func(c *http.Client, address string) (int, string, error) {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address, nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := c.Do(req)
		if err != nil {
			return 0, "", err
		}
		defer func() { _ = resp.Body.Close() }()
		_, err = io.ReadAll(resp.Body)
		return resp.StatusCode, resp.Header.Get("Retry-After"), err
	}
	list := "oci://" + r.Host + "/mirrors/lab/linux-64/repodata.json"
	c := channelClient(t, r.Host, "127.0.0.0/8")
	r.Intercept(func(w http.ResponseWriter, req *http.Request) bool {
		if !strings.Contains(req.URL.Path, "/blobs/") {
			return false
		}
		_, _ = io.WriteString(w, "other")
		return true
	})
	for _, address := range []string{list, "oci://" + r.Host + "/mirrors/lab/noarch/repodata.json", "oci://" + r.Host + "/mirrors/lab/linux-64/b-1-0.tar.bz2"} {
		if code, _, err := read(c, address); err == nil && code == http.StatusOK {
			t.Errorf("%s: content with another digest is read without an error", address)
		}
	}
	for status, want := range map[int]int{http.StatusTooManyRequests: 429, http.StatusForbidden: 403, http.StatusServiceUnavailable: 503} {
		r.Intercept(func(w http.ResponseWriter, _ *http.Request) bool {
			w.Header().Set("Retry-After", "7")
			w.WriteHeader(status)
			return true
		})
		if code, after, err := read(c, list); err != nil || code != want || (status != http.StatusForbidden && after != "7") {
			t.Errorf("%d is %d after %q, %v", status, code, after, err)
		}
	}
	r.Intercept(nil)
	if code, _, err := read(channelClient(t, r.Host), list); err == nil || !strings.Contains(err.Error(), "not a public address") {
		t.Errorf("an address inside the network is %d, %v", code, err)
	}
	// Another server cannot redirect to a channel in a registry, since it could then cause
	// requests that only this client may send.
	web := httptest.NewServer(http.RedirectHandler(list, http.StatusFound))
	t.Cleanup(web.Close)
	if code, _, err := read(c, web.URL); err == nil || !strings.Contains(err.Error(), "not http(s)") {
		t.Errorf("a redirect to a registry is %d, %v", code, err)
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, list, strings.NewReader("x"))
	if err != nil {
		t.Fatal(err)
	}
	if resp, err := c.Do(req); err == nil {
		_ = resp.Body.Close()
		t.Errorf("POST is %d", resp.StatusCode)
	}
}

// TestChannelTransportKeepsLogins checks that the login at a registry is not sent to the host that stores its
// blobs.
func TestChannelTransportKeepsLogins(t *testing.T) {
	t.Parallel()
	r := testkit.NewRegistry(t, testkit.Basic)
	mirror(t, r)
	sent := make(chan http.Header, 1)
	bucket := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		sent <- req.Header
		_, _ = io.WriteString(w, "plain")
	}))
	t.Cleanup(bucket.Close)
	r.Intercept(func(w http.ResponseWriter, req *http.Request) bool {
		if !strings.Contains(req.URL.Path, "/blobs/") {
			return false
		}
		http.Redirect(w, req, bucket.URL+"/blob", http.StatusTemporaryRedirect)
		return true
	})
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "oci://"+r.Host+"/mirrors/lab/linux-64/repodata.json", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.SetBasicAuth(testkit.User, testkit.Password)
	resp, err := channelClient(t, r.Host, "127.0.0.0/8").Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	if text, err := io.ReadAll(resp.Body); err != nil || string(text) != "plain" {
		t.Errorf("the list is %q, %v", text, err)
	}
	if h := <-sent; h.Get("Authorization") != "" || h.Get("Cookie") != "" {
		t.Errorf("the host of the blobs got %v", h)
	}
}

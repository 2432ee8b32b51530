package store_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/opencontainers/go-digest"
)

// ask sends a request with the service's login.
func (s *served) ask(t testing.TB, method, path string, body io.Reader) *http.Response {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, "http://"+s.host+path, body)
	if err != nil {
		t.Fatal(err)
	}
	req.SetBasicAuth("slipway", "secret")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = resp.Body.Close() })
	return resp
}

// TestConcurrentRequests pushes, checks and pulls in one repository, for longer than the
// interval at which olareg checks index.json. It is meant for the race detector.
func TestConcurrentRequests(t *testing.T) {
	t.Parallel()
	s, base := newServedStore(t), layer(t, 1000)
	s.push(t, "builds:0", onTopOf(t, base))
	d, err := base.Digest()
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	until := time.Now().Add(1500 * time.Millisecond)
	for i := range 4 {
		all.Go(func() {
			for n := 0; time.Now().Before(until); n++ {
				s.push(t, fmt.Sprintf("builds:%d-%d", i, n), onTopOf(t, base))
				if err := s.isWhole(t, "builds:0"); err != nil {
					t.Error(err)
				}
				if r := s.ask(t, http.MethodHead, "/v2/builds/blobs/"+d.String(), nil); r.StatusCode != http.StatusOK {
					t.Errorf("checking an existing blob returned %d", r.StatusCode)
				}
			}
		})
	}
	all.Wait()
}

// TestMount verifies that a mounted blob of another repository exists immediately, uses no
// space, and remains when the other repository deletes it.
func TestMount(t *testing.T) {
	t.Parallel()
	s, base := newServedStore(t), layer(t, 100_000)
	s.push(t, "builds/one:1", onTopOf(t, base))
	d, err := base.Digest()
	if err != nil {
		t.Fatal(err)
	}
	before, err := s.Bytes()
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		name, to, query string
		want            int
	}{
		{"to a new repository", "builds/two", "mount=" + d.String() + "&from=builds/one", http.StatusCreated},
		{"once more", "builds/two", "mount=" + d.String() + "&from=builds/one", http.StatusCreated},
		{"from the repository itself", "builds/two", "mount=" + d.String(), http.StatusCreated},
		{"to a repository named manifests", "builds/manifests", "mount=" + d.String() + "&from=builds/one", http.StatusCreated},
		{"a missing blob", "builds/two", "mount=" + digest.FromString("x").String() + "&from=builds/one", http.StatusAccepted},
		{"from a missing repository", "builds/three", "mount=" + d.String() + "&from=builds/none", http.StatusAccepted},
		{"from outside of the store", "builds/three", "mount=" + d.String() + "&from=../images/builds/one", http.StatusAccepted},
		{"a malformed digest", "builds/two", "mount=sha256:../../x&from=builds/one", http.StatusBadRequest},
	} {
		if r := s.ask(t, http.MethodPost, "/v2/"+tc.to+"/blobs/uploads/?"+tc.query, nil); r.StatusCode != tc.want {
			t.Errorf("%s: returned %d, want %d", tc.name, r.StatusCode, tc.want)
		}
	}
	if after, err := s.Bytes(); err != nil || after-before > 2000 {
		t.Errorf("mounted blobs use %d bytes (%v)", after-before, err)
	}
	s.push(t, "builds/two:1", onTopOf(t, base))
	s.age(t, 25*time.Hour)
	if _, err := remote.Head(s.ref(t, "builds/two:1"), secret()); err != nil {
		t.Fatal(err)
	}
	if got := s.collect(t, keep()); len(got.Images) != 1 {
		t.Errorf("removed is %+v", got)
	}
	if _, err := os.Stat(filepath.Join(s.dir, "images/builds/one/blobs/sha256", d.Hex)); !os.IsNotExist(err) {
		t.Errorf("the first repository still has the blob: %v", err)
	}
	if err := s.isWhole(t, "builds/two:1"); err != nil {
		t.Error(err)
	}
}

// TestSlowPushDoesNotBlockOtherPushes sends the bodies of a manifest, and of a blob in a single
// request, slowly.
func TestSlowPushDoesNotBlockOtherPushes(t *testing.T) {
	t.Parallel()
	s := newServedStore(t)
	s.push(t, "builds:1", onTopOf(t, layer(t, 10)))
	d := digest.FromString("x").String()
	for _, tc := range []struct{ method, path string }{
		{http.MethodPut, "/v2/builds/manifests/2"},
		{http.MethodPut, "/v2/builds/manifests/" + d},
		{http.MethodPost, "/v2/builds/blobs/uploads/?digest=" + d},
	} {
		body, end := io.Pipe()
		var slow sync.WaitGroup
		slow.Go(func() { s.ask(t, tc.method, tc.path, body) })
		_, _ = end.Write([]byte("x")) // fails if the store has already responded
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		if _, err := remote.Head(s.ref(t, "builds:1"), secret(), remote.WithContext(ctx)); err != nil {
			t.Errorf("during %s %s: %v", tc.method, tc.path, err)
		}
		cancel()
		_ = end.Close()
		slow.Wait()
	}
}

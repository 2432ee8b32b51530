package store_test

import (
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/random"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"slipway.dev/services/internal/testkit"
	"slipway.dev/services/internal/upstream"
	"slipway.dev/services/registry/store"
)

// A served store is an image store with its address.
type served struct {
	*store.Store
	dir, host string
}

func newServedStore(t testing.TB) *served {
	t.Helper()
	s := &served{dir: t.TempDir()}
	s.Store = store.New(s.dir, upstream.Login{Username: "slipway", Password: "secret"}, testkit.Log(t))
	s.serve(t)
	return s
}

// serve starts a server of the store.
func (s *served) serve(t testing.TB) {
	t.Helper()
	server := httptest.NewServer(s.Store)
	t.Cleanup(server.Close)
	s.host = strings.TrimPrefix(server.URL, "http://")
}

func secret() remote.Option {
	return remote.WithAuth(&authn.Basic{Username: "slipway", Password: "secret"})
}

func (s *served) ref(t testing.TB, image string) name.Reference {
	t.Helper()
	ref, err := name.ParseReference(s.host+"/"+image, name.Insecure)
	if err != nil {
		t.Fatal(err)
	}
	return ref
}

// onTopOf returns an image with a layer of its own on top of a shared one.
func onTopOf(t testing.TB, base v1.Layer) v1.Image {
	t.Helper()
	img, err := random.Image(20_000, 1)
	if err == nil {
		img, err = mutate.AppendLayers(img, base)
	}
	if err != nil {
		t.Fatal(err)
	}
	return img
}

func layer(t testing.TB, size int64) v1.Layer {
	t.Helper()
	l, err := random.Layer(size, types.DockerLayer)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func (s *served) push(t testing.TB, image string, img v1.Image) {
	t.Helper()
	if err := remote.Write(s.ref(t, image), img, secret()); err != nil {
		t.Errorf("pushing %s: %v", image, err)
	}
}

// isWhole reads an image completely.
func (s *served) isWhole(t testing.TB, image string) error {
	t.Helper()
	img, err := remote.Image(s.ref(t, image), secret())
	if err != nil {
		return err
	}
	layers, err := img.Layers()
	if err == nil {
		_, err = img.RawConfigFile()
	}
	for _, l := range layers {
		if err != nil {
			return err
		}
		var body io.ReadCloser
		if body, err = l.Compressed(); err == nil {
			_, err = io.Copy(io.Discard, body)
			_ = body.Close()
		}
	}
	return err
}

// age makes all content look unused for a duration.
func (s *served) age(t testing.TB, d time.Duration) {
	t.Helper()
	then := time.Now().Add(-d)
	err := filepath.WalkDir(s.dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		return os.Chtimes(path, then, then)
	})
	if err != nil {
		t.Fatal(err)
	}
}

func (s *served) size(t testing.TB) (sum int64) {
	t.Helper()
	_ = filepath.WalkDir(s.dir, func(_ string, e fs.DirEntry, err error) error {
		if err == nil && !e.IsDir() {
			if info, err := e.Info(); err == nil {
				sum += info.Size()
			}
		}
		return nil
	})
	return sum
}

func (s *served) collect(t testing.TB, k store.Retention) store.Collected {
	t.Helper()
	out, err := s.Collect(t.Context(), k, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// keep is the policy of most tests.
func keep() store.Retention {
	return store.Retention{Kept: "builds/kept", Idle: 24 * time.Hour, Lease: time.Hour, Unnamed: time.Hour}
}

// TestAttackStoreGrows verifies that unused images are deleted with their blobs, as are
// blobs without an image and abandoned uploads. Images in use remain complete, with their
// referrers.
func TestAttackStoreGrows(t *testing.T) {
	t.Parallel()
	s, base := newServedStore(t), layer(t, 50_000)
	s.push(t, "builds:used", onTopOf(t, base))
	for i := range 5 {
		s.push(t, fmt.Sprintf("builds:old%d", i), onTopOf(t, base))
	}
	s.push(t, "builds/kept:old", onTopOf(t, base))
	s.push(t, "builds/tool:old", onTopOf(t, layer(t, 100_000)))
	s.push(t, "builds:moved", onTopOf(t, base))
	s.push(t, "builds:moved", onTopOf(t, base)) // the first has no name any more
	if err := remote.WriteLayer(s.ref(t, "builds:x").Context(), layer(t, 300_000), secret()); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(s.dir, "images", "builds", "_uploads", "upload.1"), make([]byte, 100_000), 0o600); err != nil {
		if err := os.MkdirAll(filepath.Join(s.dir, "images", "builds", "_uploads"), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(s.dir, "images", "builds", "_uploads", "upload.1"), make([]byte, 100_000), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if got := s.collect(t, keep()); len(got.Images) != 0 || got.Freed != 0 {
		t.Errorf("new images were deleted: %v", got)
	}
	s.age(t, 25*time.Hour)
	for _, used := range []string{"builds:used", "builds:moved"} {
		if _, err := remote.Head(s.ref(t, used), secret()); err != nil {
			t.Fatal(err)
		}
	}
	if expired, err := s.Expired(keep(), time.Now()); err != nil || len(expired) != 6 {
		t.Errorf("Expired returned %v (%v)", expired, err)
	}
	got := s.collect(t, keep())
	if len(got.Images) != 6 || got.Freed < 600_000 || got.Left != s.size(t) {
		t.Errorf("Collect returned %+v; %d bytes are left", got, s.size(t))
	}
	if left := s.size(t); left > 190_000 {
		t.Errorf("%d bytes are left", left)
	}
	for _, used := range []string{"builds:used", "builds:moved"} {
		if err := s.isWhole(t, used); err != nil {
			t.Errorf("reading %s, which is in use: %v", used, err)
		}
	}
	if err := s.isWhole(t, "builds/kept:old"); err != nil {
		t.Errorf("reading an image that is kept: %v", err)
	}
	if err := s.isWhole(t, "builds:old1"); err == nil {
		t.Error("a deleted image can be pulled")
	}
	again := onTopOf(t, base)
	s.push(t, "builds:old1", again)
	if err := s.isWhole(t, "builds:old1"); err != nil {
		t.Errorf("pushed again under the same name: %v", err)
	}
	images, err := s.Images()
	if err != nil || len(images) != 4 {
		t.Errorf("the store lists %v (%v)", images, err)
	}
}

// TestAttackStoreFillsTheDisk verifies that the least recently used images are deleted if
// the size is exceeded, except those that a valid name may need.
func TestAttackStoreFillsTheDisk(t *testing.T) {
	t.Parallel()
	s := newServedStore(t)
	for i := range 4 {
		s.push(t, fmt.Sprintf("builds:%d", i), onTopOf(t, layer(t, 100_000)))
		s.age(t, 2*time.Hour)
	}
	for i := range 4 { // in the order of their numbers
		then := time.Now().Add(time.Duration(i-10) * time.Hour)
		d, err := remote.Head(s.ref(t, fmt.Sprintf("builds:%d", i)), secret())
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(filepath.Join(s.dir, "images/builds/blobs/sha256", d.Digest.Hex), then, then); err != nil {
			t.Fatal(err)
		}
	}
	k := keep()
	k.Size = 300_000
	got := s.collect(t, k)
	if len(got.Images) != 2 || got.Images[0].Tag != "0" || got.Images[1].Tag != "1" || got.Left > k.Size {
		t.Errorf("removed is %+v", got)
	}
	k.Size, k.Lease = 1, 100*time.Hour
	if got := s.collect(t, k); len(got.Images) != 0 {
		t.Errorf("images within their lease were deleted: %+v", got)
	}
}

// TestCollectDuringPushes pushes images with a layer of old images, which are deleted at
// the same time.
func TestCollectDuringPushes(t *testing.T) {
	t.Parallel()
	s, base := newServedStore(t), layer(t, 50_000)
	for i := range 10 {
		s.push(t, fmt.Sprintf("builds:old%d", i), onTopOf(t, base))
	}
	s.age(t, 25*time.Hour)
	done := make(chan struct{})
	var collectors sync.WaitGroup
	collectors.Go(func() {
		for {
			select {
			case <-done:
				return
			default:
				if _, err := s.Collect(t.Context(), keep(), time.Now()); err != nil {
					t.Error(err)
				}
			}
		}
	})
	var pushers sync.WaitGroup
	for i := range 8 {
		pushers.Go(func() {
			image := fmt.Sprintf("builds:new%d", i)
			s.push(t, image, onTopOf(t, base))
			if err := s.isWhole(t, image); err != nil {
				t.Errorf("%s: %v", image, err)
			}
		})
	}
	pushers.Wait()
	close(done)
	collectors.Wait()
	for i := range 8 {
		if err := s.isWhole(t, fmt.Sprintf("builds:new%d", i)); err != nil {
			t.Error(err)
		}
	}
	if images, err := s.Images(); err != nil || len(images) != 8 {
		t.Errorf("the store lists %v (%v)", images, err)
	}
}

// TestDeleteIsRejected verifies that no login permits to delete an image.
func TestDeleteIsRejected(t *testing.T) {
	t.Parallel()
	s := newServedStore(t)
	s.push(t, "builds:1", onTopOf(t, layer(t, 10)))
	r := httptest.NewRequest(http.MethodDelete, "/v2/builds/manifests/1", nil)
	r.SetBasicAuth("slipway", "secret")
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	if w.Code != http.StatusMethodNotAllowed || w.Header().Get("Allow") == "" {
		t.Errorf("DELETE returned %d", w.Code)
	}
	if err := s.isWhole(t, "builds:1"); err != nil {
		t.Error(err)
	}
}

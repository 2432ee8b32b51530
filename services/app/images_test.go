package app

import (
	"encoding/json"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/prometheus/client_golang/prometheus"

	"slipway.dev/services/internal/config"
	"slipway.dev/services/internal/testkit"
	"slipway.dev/services/internal/upstream"
	"slipway.dev/services/registry/store"
)

// TestImagesOfTheStore checks that the admin port lists images, reports what it would
// remove, and removes it, for this machine only.
func TestImagesOfTheStore(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	images := store.New(dir, upstream.Login{Username: "slipway", Password: "secret"}, testkit.Log(t))
	push(t, images, "builds:old")
	then := time.Now().Add(-3 * time.Hour)
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		return os.Chtimes(path, then, then)
	})
	if err != nil {
		t.Fatal(err)
	}
	push(t, images, "builds:new")
	a := &App{env: &env{
		images: &imageStore{Store: images}, reg: &collected{Registry: prometheus.NewRegistry()}, cfg: config.Config{StoreKeep: 2 * time.Hour, TokenTTL: time.Minute},
	}}
	admin := a.adminHandler()
	ask := func(peer, method, path string, into any) int {
		t.Helper()
		r := httptest.NewRequest(method, "http://127.0.0.1:9099"+path, nil)
		r.RemoteAddr = peer
		w := httptest.NewRecorder()
		admin.ServeHTTP(w, r)
		if w.Code == http.StatusOK {
			if err := json.Unmarshal(w.Body.Bytes(), into); err != nil {
				t.Fatalf("%s %s is answered %s: %v", method, path, w.Body, err)
			}
		}
		return w.Code
	}
	tags := func(images []store.Image) string {
		var all []string
		for _, i := range images {
			all = append(all, i.Repository+":"+i.Tag)
		}
		return strings.Join(all, " ")
	}
	const here = "127.0.0.1:5"
	listed := func(want ...string) {
		t.Helper()
		var got []store.Image
		code := ask(here, http.MethodGet, "/images", &got)
		if all := tags(got); code != http.StatusOK || len(got) != len(want) || !strings.Contains(all, strings.Join(want, "")) && len(want) == 1 {
			t.Errorf("the list is answered %d: %s, want %v", code, all, want)
		}
	}
	listed("builds:new", "builds:old")
	for _, c := range []struct{ method, path string }{{http.MethodGet, "/images"}, {http.MethodPost, "/images/prune"}, {http.MethodPost, "/images/prune?dry_run=true"}} {
		if code := ask("10.0.0.7:5", c.method, c.path, nil); code != http.StatusForbidden {
			t.Errorf("%s %s from elsewhere is answered %d", c.method, c.path, code)
		}
	}
	if code := ask(here, http.MethodGet, "/images/prune", nil); code != http.StatusMethodNotAllowed {
		t.Errorf("reading /images/prune is answered %d", code)
	}
	if code := ask(here, http.MethodPost, "/images/prune?unused_for=soon", nil); code != http.StatusBadRequest {
		t.Errorf("a time that is none is answered %d", code)
	}
	listed("builds:new", "builds:old")

	var would, did store.Collected
	if code := ask(here, http.MethodPost, "/images/prune?dry_run=true", &would); code != http.StatusOK || tags(would.Images) != "builds:old" || would.Freed != 0 {
		t.Errorf("the dry run is answered %d: %+v", code, would)
	}
	listed("builds:new", "builds:old")
	if code := ask(here, http.MethodPost, "/images/prune", &did); code != http.StatusOK || tags(did.Images) != tags(would.Images) || did.Freed <= 0 {
		t.Errorf("the prune is answered %d: %+v", code, did)
	}
	listed("builds:new")

	a.images = nil
	if code := ask(here, http.MethodGet, "/images", nil); code != http.StatusNotFound {
		t.Errorf("without a store the list is answered %d", code)
	}
}

// push pushes a new image into the store.
func push(t *testing.T, images http.Handler, image string) {
	t.Helper()
	server := httptest.NewServer(images)
	defer server.Close()
	ref, err := name.ParseReference(strings.TrimPrefix(server.URL, "http://")+"/"+image, name.Insecure)
	if err == nil {
		err = remote.Write(ref, testkit.Image(t, "amd64", true), remote.WithAuth(&authn.Basic{Username: "slipway", Password: "secret"}))
	}
	if err != nil {
		t.Fatal(err)
	}
}

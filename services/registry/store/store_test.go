package store_test

import (
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/remote"

	"slipway.dev/services/internal/testkit"
	"slipway.dev/services/internal/upstream"
	"slipway.dev/services/registry/store"
)

func TestImageStoreStoresImagesAndRejectsClients(t *testing.T) {
	t.Parallel()
	dir, img := t.TempDir(), testkit.Image(t, "amd64", true)
	want, err := img.Digest()
	if err != nil {
		t.Fatal(err)
	}
	login := remote.WithAuth(&authn.Basic{Username: "slipway", Password: "secret"})
	for _, restarted := range []bool{false, true} {
		images := store.New(dir, upstream.Login{Username: "slipway", Password: "secret"}, testkit.Log(t))
		server := httptest.NewServer(images)
		ref, err := name.ParseReference(strings.TrimPrefix(server.URL, "http://")+"/builds/tool:1", name.Insecure)
		if err != nil {
			t.Fatal(err)
		}
		if !restarted {
			if err := remote.Write(ref, img); err == nil {
				t.Error("a push without a login succeeded")
			}
			if err := remote.Write(ref, img, login); err != nil {
				t.Fatalf("pushing: %v", err)
			}
		}
		if _, err := remote.Head(ref); err == nil {
			t.Error("a pull without a login succeeded")
		}
		if _, err := remote.Head(ref.Context().Registry.Repo("builds", "never-pushed").Tag("1"), login); err == nil {
			t.Error("an image exists that was not pushed")
		}
		if got, err := remote.Head(ref, login); err != nil || got.Digest != want {
			t.Errorf("restarted=%v: %v, %v", restarted, got, err)
		}
		server.Close()
	}
}

func TestImageStoreWithoutLoginRejectsClients(t *testing.T) {
	t.Parallel()
	images := store.New(t.TempDir(), upstream.Login{}, testkit.Log(t))
	w := httptest.NewRecorder()
	images.ServeHTTP(w, httptest.NewRequest("GET", "/v2/x/manifests/1", nil))
	if w.Code != 401 {
		t.Errorf("answered %d", w.Code)
	}
}

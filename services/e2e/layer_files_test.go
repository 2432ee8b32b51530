package e2e

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"slipway.dev/services/internal/testkit"
)

// TestFilesOfLayers lists the files of a private image's layers: by the image's own name, which
// only its user may do, and by an issued name, including the layer that the request added.
func TestFilesOfLayers(t *testing.T) {
	t.Parallel()
	up := testkit.NewRegistry(t, testkit.Bearer)
	auth := settings{"admin_registry_auth_file": dockerConfig(t, map[string]string{up.Host: testkit.User + ":" + testkit.Password})}
	eachShape(t, []string{up.Host}, auth, func(t *testing.T, p *program) {
		img := testkit.Image(t, "amd64", true)
		base, added := digestsOf(t, img)[0], dataLayer(t, "opt/tool/run", "#!/bin/sh")
		image := up.Push(t, "team/tool:1", img)
		name := p.submit(map[string]any{"containerImage": image, "platformAccessToken": p.token, "containerConfig": map[string]any{"layers": []any{added}}})
		user := []string{"Authorization", "Bearer " + p.token}
		for _, c := range []struct {
			what, image, layer string
			header             []string
			status             int
			holds              string
		}{
			{"a layer of the user's registry", image, base, user, http.StatusOK, `"random_file_`},
			{"a layer of the user's registry, without the login", image, base, nil, http.StatusUnauthorized, "requires credentials"},
			{"a layer of the user's registry, by the issued name", name, base, nil, http.StatusOK, `"random_file_`},
			{"the layer that the request added", name, text(added, "gzipDigest"), nil, http.StatusOK, `"opt/tool/run"`},
			{"the layer that the request added, by the name of the original image", image, text(added, "gzipDigest"), user, http.StatusNotFound, "has no layer"},
		} {
			r := p.call(http.MethodPost, "/v1alpha1/inspect/files?layer="+url.QueryEscape(c.layer), map[string]any{"containerImage": c.image}, c.header...)
			if r.status != c.status || !strings.Contains(string(r.body), c.holds) {
				t.Errorf("%s got %d %s", c.what, r.status, r.body)
			}
		}
	})
}

// digestsOf returns the digests of an image's layers, lowest first.
func digestsOf(t *testing.T, img v1.Image) []string {
	t.Helper()
	layers, err := img.Layers()
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, l := range layers {
		d, err := l.Digest()
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, d.String())
	}
	return out
}

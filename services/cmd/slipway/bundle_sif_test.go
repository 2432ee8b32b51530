package main

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"slipway.dev/services/internal/testkit"
)

// sifOf returns a Singularity image as registries have it.
func sifOf(t *testing.T, content string) v1.Image {
	t.Helper()
	image, err := mutate.Append(mutate.MediaType(empty.Image, types.OCIManifestSchema1), mutate.Addendum{
		Layer: static.NewLayer([]byte(content), "application/vnd.sylabs.sif.layer.v1.sif"),
	})
	must(t, err)
	return mutate.ConfigMediaType(image, "application/vnd.sylabs.sif.config.v1+json")
}

// converting is a server that has a Singularity image of each image, whose name it prints with a token.
func converting(t *testing.T, up *testkit.Registry) http.HandlerFunc {
	t.Helper()
	return func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/v1alpha2/containers" {
			_, _ = io.WriteString(w, `{}`)
			return
		}
		var body struct {
			Requests []struct{ ContainerImage, Format string }
		}
		if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		for i, one := range body.Requests {
			target := one.ContainerImage
			if one.Format == "sif" {
				tag := "sif-" + target[strings.LastIndex(target, ":")+1:]
				target = "oras://" + up.Push(t, "wt/abcdefghijkl/builds:"+tag, sifOf(t, tag))
			}
			fmt.Fprintf(w, `{"index":%d,"response":{"requestId":"r%d","containerToken":"t%d","targetImage":"%s","containerImage":"%s","succeeded":true}}`+"\n", i, i, i, target, one.ContainerImage)
		}
	}
}

func pulledSif(t *testing.T, image string) string {
	t.Helper()
	ref, err := name.ParseReference(image, name.Insecure)
	must(t, err)
	img, err := remote.Image(ref)
	if err != nil {
		t.Fatalf("%s: %v", image, err)
	}
	layers, err := img.Layers()
	must(t, err)
	f, err := layers[0].Compressed()
	must(t, err)
	defer f.Close()
	raw, err := io.ReadAll(f)
	must(t, err)
	return string(raw)
}

// TestBundleSif bundles Singularity images beside the images that they are made of.
func TestBundleSif(t *testing.T) {
	t.Parallel()
	b := newBundled(t)
	b.url = serve(t, converting(t, b.up))
	existing := b.up.Push(t, "lab/existing:1", sifOf(t, "existing"))
	in := strings.Replace(b.inspected(), "]}", `,{"name":"EXISTING","container":"oras://`+existing+`"}]}`, 1)
	got := b.bundle(t, in, "-", "--sif")
	if got.code != 0 || !strings.Contains(got.errs, "7 of 7 images") || !strings.Contains(got.out, "oras://"+b.names[0]+".sif") || strings.Contains(got.out+got.errs, "abcdefghijkl") {
		t.Fatalf("got %+v", got)
	}
	if got := b.bundle(t, in, "-", "--sif"); got.code != 0 || !strings.Contains(got.errs, "0 B copied") {
		t.Errorf("the second run: %+v", got)
	}
	list := slipway(t.Context(), nil, "bundle", "list", b.folder, "--verify")
	for _, want := range []string{"oras://" + b.names[0] + ".sif", "oras://" + b.up.Host + "/builds:sif-1", "oras://" + existing} {
		if list.code != 0 || !strings.Contains(list.out, want) {
			t.Errorf("list lacks %s: %+v", want, list)
		}
	}
	b.up.Empty(t)
	host := served(t, b.folder)
	for image, want := range map[string]string{"/lab/one:1.sif": "sif-1", "/builds:sif-v1": "sif-v1", "/wt/other-token/builds:sif-2": "sif-2", "/lab/existing:1": "existing"} {
		if got := pulledSif(t, host+image); got != want {
			t.Errorf("%s is %q, want %q", image, got, want)
		}
	}
	to := testkit.NewRegistry(t, testkit.Open)
	config := filepath.Join(t.TempDir(), "x.config")
	for engine, want := range map[string]string{
		"docker":      "withName: 'MAIN:STEP_0' { container = '" + to.Host + "/mirror/lab/one:1' }",
		"singularity": "withName: 'MAIN:STEP_0' { container = 'oras://" + to.Host + "/mirror/lab/one:1.sif' }",
		"apptainer":   "withName: 'EXISTING' { container = 'oras://" + to.Host + "/mirror/lab/existing:1' }",
	} {
		got := slipway(t.Context(), nil, "bundle", "load", b.folder, "--to", to.Host+"/mirror", "--nextflow-config", config, "--engine", engine)
		raw, err := os.ReadFile(config)
		if got.code != 0 || err != nil || !strings.Contains(string(raw), want) || !strings.Contains(got.out, "oras://"+to.Host+"/mirror/lab/one:1.sif\n") {
			t.Errorf("%s: %+v, and the configuration is %s, %v", engine, got, raw, err)
		}
		if engine == "docker" && strings.Contains(string(raw), "oras:") {
			t.Errorf("Docker cannot run all of %s", raw)
		}
	}
	if got := pulledSif(t, to.Host+"/mirror/lab/one:1.sif"); got != "sif-1" {
		t.Errorf("the copy is %q", got)
	}
}

// TestBundleSifUsage checks options that cannot be combined.
func TestBundleSifUsage(t *testing.T) {
	t.Parallel()
	b := newBundled(t)
	for want, args := range map[string][]string{
		"a Singularity image is for one platform": {"bundle", b.names[0], "--server", b.url, "--lock", "", "--to", b.folder, "--sif", "--platform", "linux/amd64,linux/arm64"},
		"--engine must be one of docker, podman":  {"bundle", "load", b.folder, "--to", "localhost:5000", "--engine", "runc", "--nextflow-config", "-"},
		"give --nextflow-config, too":             {"bundle", "serve", b.folder, "--engine", "apptainer"},
	} {
		if got := slipway(t.Context(), nil, args...); got.code != 2 || !strings.Contains(got.errs, want) {
			t.Errorf("%q: %+v, want %q", args, got, want)
		}
	}
	if got := b.bundle(t, `{"processes":[{"name":"X","container":"oras://`+b.names[0]+`"}]}`, "-", "--env", "A=b"); got.code != 1 || !strings.Contains(got.errs, "nothing can be added to a Singularity image") {
		t.Errorf("got %+v", got)
	}
}

// TestBatchBothFormats checks that a lock file records an image and the Singularity image of one
// container, and that a bundle has both.
func TestBatchBothFormats(t *testing.T) {
	t.Parallel()
	b := newBundled(t)
	image, sif := testkit.Image(t, "amd64", true), sifOf(t, "both")
	built, made := b.up.Push(t, "builds:tool", image), b.up.Push(t, "builds:tool-sif", sif)
	sent := make(chan string, 100)
	url := serve(t, func(w http.ResponseWriter, r *http.Request) {
		raw, _ := io.ReadAll(r.Body)
		switch {
		case strings.HasSuffix(r.URL.Path, "/lock"):
			_, _ = io.WriteString(w, batchLock)
		case r.URL.Path == "/v1alpha1/builds/sif_1":
			fmt.Fprintf(w, `{"digest":"%s"}`, digestOf(t, sif))
		case r.URL.Path == "/v1alpha1/builds/oci_1":
			fmt.Fprintf(w, `{"digest":"%s"}`, digestOf(t, image))
		case r.URL.Path != "/v1alpha2/containers":
			_, _ = io.WriteString(w, `{}`)
		default:
			var body struct{ Requests []map[string]any }
			must(t, json.Unmarshal(raw, &body))
			for i, one := range body.Requests {
				kind, target := "oci", built
				if one["format"] == "sif" {
					kind, target = "sif", "oras://"+made
				}
				sent <- kind
				fmt.Fprintf(w, `{"index":%d,"response":{"requestId":"r","containerToken":"t","targetImage":"%s","containerImage":"%s","buildId":"%s_1","succeeded":true}}`+"\n", i, target, target, kind)
			}
		}
	})
	dir := t.TempDir()
	environment, lock := filepath.Join(dir, "a.yml"), filepath.Join(dir, "slipway.lock")
	must(t, os.WriteFile(environment, []byte("dependencies: [bwa]\n"), 0o600))
	for _, args := range [][]string{{}, {"--sif"}} {
		if got := slipway(t.Context(), nil, append([]string{"batch", environment, "--server", url, "--lock", lock, "--await"}, args...)...); got.code != 0 {
			t.Fatalf("batch: %+v", got)
		}
	}
	raw, err := os.ReadFile(lock)
	must(t, err)
	if !strings.Contains(string(raw), built) || !strings.Contains(string(raw), made) || strings.Count(string(raw), `"format": "sif"`) != 1 {
		t.Fatalf("the lock file is %s", raw)
	}
	host := strings.TrimPrefix(url, "http://")
	for name, text := range map[string]string{"as it is": string(raw), "of this server": strings.ReplaceAll(string(raw), b.up.Host, host)} {
		b.folder = filepath.Join(t.TempDir(), "bundle")
		for len(sent) > 0 {
			<-sent
		}
		got := slipwayWith(t.Context(), text, nil, "bundle", "-", "--server", url, "--lock", "", "--to", b.folder, "--sif")
		if name == "as it is" { // images of another registry, which are requested by digest
			if got.code != 0 {
				t.Errorf("%s: %+v", name, got)
			}
			continue
		}
		if got.code != 0 || !strings.Contains(got.errs, "2 of 2 images") || len(sent) != 2 {
			t.Errorf("%s: %+v, requests: %d", name, got, len(sent))
		}
		if list := slipway(t.Context(), nil, "bundle", "list", b.folder); !strings.Contains(list.out, "builds:tool.sif") {
			t.Errorf("%s: %+v", name, list)
		}
	}
	// A Singularity image with the packages of an earlier run is not that of the image.
	sum := func(text string) string {
		d := sha256.Sum256([]byte(text))
		return "sha256:" + hex.EncodeToString(d[:])
	}
	var doc struct {
		Version    int               `json:"version"`
		Containers []map[string]any  `json:"containers"`
		Locks      map[string]string `json:"locks"`
	}
	must(t, json.Unmarshal(raw, &doc))
	doc.Locks[sum(batchLock+"\n")] = batchLock + "\n"
	for _, one := range doc.Containers {
		if one["format"] == "sif" {
			one["lock"] = sum(batchLock + "\n")
		}
	}
	stale, err := json.Marshal(doc)
	must(t, err)
	b.folder = filepath.Join(t.TempDir(), "bundle")
	if got := slipwayWith(t.Context(), strings.ReplaceAll(string(stale), b.up.Host, host), nil, "bundle", "-", "--server", url, "--lock", "", "--to", b.folder, "--sif"); got.code != 0 || !strings.Contains(got.errs, "3 of 3 images") {
		t.Errorf("a stale Singularity image: %+v", got)
	}
	// Earlier versions recorded no format.
	must(t, os.WriteFile(lock, []byte(strings.ReplaceAll(strings.ReplaceAll(string(raw), `"format": "sif",`, ""), "oras://", "")), 0o600))
	if got := slipway(t.Context(), nil, "batch", environment, "--server", url, "--lock", lock, "--await", "--sif"); got.code != 0 {
		t.Fatalf("batch: %+v", got)
	}
	if now, err := os.ReadFile(lock); err != nil || strings.Count(string(now), `"name":`) != 2 || !strings.Contains(string(now), `"format": "sif"`) {
		t.Errorf("the lock file is %s, %v", now, err)
	}
	// A changed digest of the Singularity image is noticed, and so is one in the lock file of the inputs.
	wrong := strings.ReplaceAll(string(raw), digestOf(t, sif), "sha256:"+strings.Repeat("1", 64))
	must(t, os.WriteFile(lock, []byte(wrong), 0o600))
	b.folder = filepath.Join(t.TempDir(), "bundle")
	if got := slipway(t.Context(), nil, "bundle", environment, "--server", url, "--lock", lock, "--to", b.folder, "--sif"); got.code != 0 || !strings.Contains(got.errs, "instead of sha256:111") {
		t.Errorf("got %+v", got)
	}
}

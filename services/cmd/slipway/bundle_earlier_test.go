package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"slipway.dev/services/internal/testkit"
)

// readIndex returns the index.json of a bundle.
func (b *bundled) readIndex(t *testing.T) (out ocispec.Index) {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(b.folder, "index.json"))
	must(t, err)
	must(t, json.Unmarshal(raw, &out))
	return out
}

// TestBundleWithoutToken checks that a bundle, which people hand on, does not have the token of a name
// that a server issued.
func TestBundleWithoutToken(t *testing.T) {
	t.Parallel()
	b := newBundled(t)
	const secret = "abcdefghijklmnop"
	image := b.up.Push(t, "wt/"+secret+"/lab/tool:1", testkit.Image(t, "amd64", true))
	for _, in := range []string{`{"processes":[{"name":"MAIN:STEP","container":"` + image + `"}]}`, image + "\n"} {
		got := b.bundle(t, in, "-")
		if in == image+"\n" {
			got = b.bundle(t, "", image)
		}
		if got.code != 0 || strings.Contains(got.out+got.errs, secret) {
			t.Errorf("got %+v", got)
		}
	}
	must(t, filepath.WalkDir(b.folder, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		raw, err := os.ReadFile(path)
		if bytes.Contains(raw, []byte(secret)) {
			t.Errorf("%s has the token", path)
		}
		return err
	}))
	host := served(t, b.folder)
	pulledDigest(t, host+"/lab/tool:1")
	pulledDigest(t, host+"/wt/another-token/lab/tool:1")
}

// TestBundleMovedTag checks that an image of an earlier run keeps a name if its tag moves.
func TestBundleMovedTag(t *testing.T) {
	t.Parallel()
	b := newBundled(t)
	if got := b.bundle(t, b.inspected(), "-"); got.code != 0 {
		t.Fatalf("got %+v", got)
	}
	before := pulledDigest(t, b.names[0])
	b.up.Push(t, "lab/one:1", testkit.Image(t, "arm64", true))
	after := pulledDigest(t, b.names[0])
	if got := b.bundle(t, `{"processes":[{"name":"OTHER","container":"`+b.names[0]+`"}]}`, "-"); got.code != 0 || before == after {
		t.Fatalf("got %+v", got)
	}
	host := served(t, b.folder)
	if got := pulledDigest(t, host+"/lab/one:1"); got != after {
		t.Errorf("the tag is %s, want %s", got, after)
	}
	if got := pulledDigest(t, host+"/lab/one@"+before); got != before {
		t.Errorf("the earlier image is %s, want %s", got, before)
	}
	config := filepath.Join(t.TempDir(), "offline.config")
	to := testkit.NewRegistry(t, testkit.Open)
	if got := slipway(t.Context(), nil, "bundle", "load", b.folder, "--to", to.Host, "--nextflow-config", config); got.code != 0 {
		t.Fatalf("load: %+v", got)
	}
	text, err := os.ReadFile(config)
	must(t, err)
	for process, want := range map[string]string{"MAIN:STEP_0": "lab/one@" + before, "OTHER": "lab/one:1"} {
		line := slices.IndexFunc(strings.Split(string(text), "\n"), func(s string) bool { return strings.Contains(s, process) && strings.Contains(s, want) })
		if line < 0 {
			t.Errorf("%s does not have %s:\n%s", process, want, text)
		}
	}
}

// TestBundleRepairs checks that the same command replaces a damaged manifest.
func TestBundleRepairs(t *testing.T) {
	t.Parallel()
	b := newBundled(t)
	if got := b.bundle(t, b.inspected(), "-"); got.code != 0 {
		t.Fatalf("got %+v", got)
	}
	entries := b.readIndex(t).Manifests
	i := slices.IndexFunc(entries, func(d ocispec.Descriptor) bool {
		return d.Annotations[ocispec.AnnotationRefName] == b.names[0]
	})
	damage(t, filepath.Join(b.folder, "blobs", "sha256", entries[i].Digest.Encoded()))
	added := b.up.Push(t, "lab/three:3", testkit.Image(t, "amd64", true))
	if got := b.bundle(t, `{"processes":[{"name":"NEW","container":"`+added+`"}]}`, "-"); got.code != 1 || !strings.Contains(got.errs, b.names[0]+" cannot be used; request it again") {
		t.Errorf("another image: %+v", got)
	}
	if got := b.bundle(t, b.inspected(), "-"); got.code != 0 {
		t.Errorf("the same images: %+v", got)
	}
	if got := slipway(t.Context(), nil, "bundle", "list", b.folder, "--verify"); got.code != 0 || !strings.Contains(got.out, added) {
		t.Errorf("list: %+v", got)
	}
}

// damage changes a byte of a file.
func damage(t *testing.T, path string) {
	t.Helper()
	raw, err := os.ReadFile(path)
	must(t, err)
	raw[len(raw)/2] ^= 1
	must(t, os.WriteFile(path, raw, 0o600))
}

// TestBundleFalseRecord checks that an entry of the index that only claims to be the record of an earlier
// run does not make the next run delete an image.
func TestBundleFalseRecord(t *testing.T) {
	t.Parallel()
	b := newBundled(t)
	if got := b.bundle(t, b.inspected(), "-"); got.code != 0 {
		t.Fatalf("got %+v", got)
	}
	index := b.readIndex(t)
	i := slices.IndexFunc(index.Manifests, func(d ocispec.Descriptor) bool {
		return d.Annotations[ocispec.AnnotationRefName] == b.names[0]
	})
	claimed := index.Manifests[i]
	claimed.ArtifactType, claimed.Annotations = "slipway.dev/bundle/v1+json", nil
	index.Manifests = append(index.Manifests, claimed)
	raw, err := json.Marshal(index)
	must(t, err)
	must(t, os.WriteFile(filepath.Join(b.folder, "index.json"), raw, 0o600))
	if got := b.bundle(t, b.inspected(), "-"); got.code != 1 || !strings.Contains(got.errs, "is not a record of a bundle") {
		t.Errorf("got %+v", got)
	}
	if got := slipway(t.Context(), nil, "bundle", "list", b.folder, "--verify"); got.code != 0 {
		t.Errorf("list: %+v", got)
	}
}

// TestBundleOfNothing checks that a mistyped input leaves no folder.
func TestBundleOfNothing(t *testing.T) {
	t.Parallel()
	b := newBundled(t)
	if got := b.bundle(t, "", filepath.Join(t.TempDir(), "no-such.yml")); got.code == 0 {
		t.Errorf("got %+v", got)
	}
	if _, err := os.Stat(b.folder); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the folder: %v", err)
	}
}

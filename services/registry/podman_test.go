package registry_test

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/partial"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/klauspost/compress/zstd"
	"github.com/opencontainers/go-digest"

	"slipway.dev/services/internal/chunked"
	"slipway.dev/services/internal/httprecord"
	"slipway.dev/services/internal/testkit"
	"slipway.dev/services/registry"
)

// A packedLayer is a layer whose files can be fetched one by one.
type packedLayer struct {
	content   []byte
	mediaType types.MediaType
}

func (l packedLayer) Digest() (v1.Hash, error) {
	return v1.NewHash(digest.FromBytes(l.content).String())
}

func (l packedLayer) Compressed() (io.ReadCloser, error) {
	return io.NopCloser(bytes.NewReader(l.content)), nil
}

func (l packedLayer) Size() (int64, error) { return int64(len(l.content)), nil }

func (l packedLayer) MediaType() (types.MediaType, error) { return l.mediaType, nil }

// chunkedFiles is the number of files of a layer.
const chunkedFiles = 24

// chunkedFile returns a file of a version: every second file is the same in all versions.
func chunkedFile(i, version byte) (name string, content []byte) {
	seed, content := [32]byte{i, version * (i % 2)}, make([]byte, 200<<10)
	_, _ = rand.NewChaCha8(seed).Read(content)
	return fmt.Sprintf("file%02d", i), content
}

// chunkedLayer returns a layer with the files of a version, and its annotations.
func chunkedLayer(t *testing.T, format chunked.Format, version byte) (packedLayer, map[string]string) {
	t.Helper()
	level, mediaType := 6, types.OCILayer
	if format == chunked.Zstd {
		level, mediaType = int(zstd.SpeedDefault), types.OCILayerZStd
	}
	var packed bytes.Buffer
	w, err := chunked.NewWriter(&packed, format, level)
	if err != nil {
		t.Fatal(err)
	}
	archive := tar.NewWriter(w)
	for i := range byte(chunkedFiles) {
		name, content := chunkedFile(i, version)
		h := &tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o644, Size: int64(len(content))}
		err := archive.WriteHeader(h)
		if err == nil {
			err = w.Header(h)
		}
		if err == nil {
			_, err = archive.Write(content)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(archive.Close(), w.Close()); err != nil {
		t.Fatal(err)
	}
	notes := w.Annotations()
	for key, value := range w.Annotations() { // podman 4.3 only knows the earlier names
		notes[strings.Replace(key, "io.github.containers.", "io.containers.", 1)] = value
	}
	return packedLayer{packed.Bytes(), mediaType}, notes
}

// chunkedImage returns an image with a chunkedLayer.
func chunkedImage(t *testing.T, format chunked.Format, version byte) v1.ImageIndex {
	t.Helper()
	content, notes := chunkedLayer(t, format, version)
	layer, err := partial.CompressedToLayer(content)
	if err != nil {
		t.Fatal(err)
	}
	img, err := mutate.Append(mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON), mutate.Addendum{
		Layer: layer, MediaType: content.mediaType, Annotations: notes,
	})
	if err != nil {
		t.Fatal(err)
	}
	return indexOf(t, img)
}

// podmanPull is a script that pulls an image and prints the digests of its files. Folders that podman modifies are
// replaced by empty ones, so that other programs are not affected.
const podmanPull = `for place in /run /dev/shm /var/lib; do mount -t tmpfs tmpfs $place; done
podman pull --tls-verify=false "$1" >&2 && cd "$(podman image mount "$1")" && sha256sum *`

// TestPodmanFetchesMissingFiles pulls two versions of an image with podman, which fetches only the files that
// it does not have, in one request for several ranges.
func TestPodmanFetchesMissingFiles(t *testing.T) {
	t.Parallel()
	podman, err := exec.LookPath("podman")
	if err != nil || !testkit.Real() || os.Getuid() != 0 {
		t.Skip("without podman and root")
	}
	for name, format := range map[string]chunked.Format{"estargz": chunked.Estargz, "zstd:chunked": chunked.Zstd} {
		t.Run(name, func(t *testing.T) {
			home := t.TempDir()
			conf := filepath.Join(home, "storage.conf")
			text := fmt.Sprintf("[storage]\ndriver = \"overlay\"\ngraphroot = \"%[1]s/images\"\nrunroot = \"%[1]s/run\"\n[storage.options]\npull_options = {enable_partial_images = \"true\"}\n", home)
			if err := os.WriteFile(conf, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			for version := range byte(2) {
				up := testkit.NewRegistry(t, testkit.Open)
				up.Push(t, "lib/tool:v1", chunkedImage(t, format, version))
				f := newFrontOf(t, up, 1000, func(*registry.Deps) {})
				f.look(t)
				web := &blobCounter{front: f}
				server := httptest.NewServer(web)
				t.Cleanup(server.Close)
				image := strings.TrimPrefix(server.URL, "http://") + strings.TrimPrefix(f.name, "/v2") + ":v1"
				ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
				defer cancel()
				cmd := exec.CommandContext(ctx, "unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "sh", "-ec", podmanPull, "sh", image)
				cmd.WaitDelay = 5 * time.Second
				cmd.Env = []string{"PATH=" + filepath.Dir(podman) + ":/usr/sbin:/usr/bin:/sbin:/bin", "HOME=" + home, "TMPDIR=" + home, "CONTAINERS_STORAGE_CONF=" + conf}
				var errs bytes.Buffer
				cmd.Stderr = &errs
				got, err := cmd.Output()
				if err != nil {
					t.Fatalf("%v\n%s", err, errs.String())
				}
				var want strings.Builder
				for i := range byte(chunkedFiles) {
					name, content := chunkedFile(i, version)
					fmt.Fprintf(&want, "%s  %s\n", digest.FromBytes(content).Encoded(), name)
				}
				if diff := cmp.Diff(want.String(), string(got)); diff != "" {
					t.Errorf("the files of version %d differ (-want +got):\n%s", version, diff)
				}
				missing := chunkedFiles / (1 + int(version)) // it may request adjacent files as one range
				if ranges, sent := web.counts(); ranges > missing || version == 1 && (ranges != missing || sent > f.size*55/100) {
					t.Errorf("version %d: %d ranges, and %d bytes of %d", version, ranges, sent, f.size)
				}
			}
		})
	}
}

// A blobCounter serves a front, and counts the ranges and bytes of its layer.
type blobCounter struct {
	*front
	mu     sync.Mutex
	ranges int // of one request
	sent   int64
}

func (c *blobCounter) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	counted := &httprecord.Writer{ResponseWriter: w}
	c.front.ServeHTTP(counted, r)
	if strings.HasSuffix(r.URL.Path, c.layer) {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.ranges, c.sent = max(c.ranges, strings.Count(r.Header.Get("Range"), "-")), c.sent+counted.Bytes
	}
}

func (c *blobCounter) counts() (ranges int, sent int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.ranges, c.sent
}

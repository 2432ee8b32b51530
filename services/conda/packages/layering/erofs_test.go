package layering_test

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/zstd"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"slipway.dev/services/conda/packages/layering"
	"slipway.dev/services/internal/erofslayer"
	"slipway.dev/services/internal/oci"
	"slipway.dev/services/internal/testkit"
)

// listed returns the entries of a tar by name.
func listed(t *testing.T, in io.Reader) map[string]string {
	t.Helper()
	out := map[string]string{}
	for r := tar.NewReader(in); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return out
		}
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		out[h.Name] = fmt.Sprintf("%c %o %d:%d %d %q %s", h.Typeflag, h.Mode, h.Uid, h.Gid, h.ModTime.Unix(), h.Linkname, digest.FromBytes(content))
	}
}

// TestErofs checks that EROFS layers have the files of the tar, that their diff ID is the digest of the
// image before compression, and that they have the same bytes again.
func TestErofs(t *testing.T) {
	t.Parallel()
	for _, file := range []string{"_openmp_mutex-4.5-2_gnu.tar.bz2", "libcurl-8.4.0-h4e8248e_0.conda", "cffi-1.16.0-py310hce94938_0.conda", "requests-2.31.0-pyhd8ed1ab_0.conda"} {
		plain, gz := lay(t, file, layering.Gzip)
		want := listed(t, bytes.NewReader(untared(t, plain, gz)))
		for c, mediaType := range map[layering.Compression]string{layering.Erofs: oci.TypeErofsLayer, layering.ErofsZstd: oci.TypeErofsLayerZstd, layering.ErofsZstd.At(19): oci.TypeErofsLayerZstd} {
			p, blob := lay(t, file, c)
			again, _ := lay(t, file, c)
			if p.MediaType != mediaType || p.Digest != digest.FromBytes(blob) || p.Size != int64(len(blob)) || p.Digest != again.Digest || p.DiffID != again.DiffID {
				t.Errorf("%s as %s: it is %+v, then %s of %s", file, c, p.Layer, again.Digest, again.DiffID)
			}
			image := blob
			if mediaType == oci.TypeErofsLayerZstd {
				d, err := zstd.NewReader(nil)
				if err != nil {
					t.Fatal(err)
				}
				if image, err = d.DecodeAll(blob, nil); err != nil {
					t.Fatal(err)
				}
			}
			if d := digest.FromBytes(image); d != p.DiffID {
				t.Errorf("%s as %s: the image is %s instead of %s", file, c, d, p.DiffID)
			}
			in := erofslayer.Tar(bytes.NewReader(image), func(name string) bool {
				_, is := p.HardLinks[name[min(len(name), len("opt/conda/")):]]
				return !is
			})
			if diff := cmp.Diff(want, listed(t, in)); diff != "" {
				t.Errorf("%s as %s: %s", file, c, diff)
			}
			if diff := cmp.Diff(plain.Paths, p.Paths); diff != "" {
				t.Error(diff)
			}
		}
	}
}

// TestErofsImage checks that an image with EROFS layers states that engines need EROFS.
func TestErofsImage(t *testing.T) {
	t.Parallel()
	base := bases(t, testkit.NewRegistry(t, testkit.Open), true)["amd64"]
	for c, want := range map[layering.Compression][]string{layering.Gzip: nil, layering.Erofs: {"erofs"}, layering.ErofsZstd: {"erofs"}} {
		image, err := layering.Environment{Base: base, Platform: oci.DefaultPlatform, Compression: c, Scratch: t.TempDir()}.Image(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		var config struct {
			Features []string `json:"os.features"`
			RootFS   ocispec.RootFS
		}
		if err := json.Unmarshal(image.Config.Bytes, &config); err != nil {
			t.Fatal(err)
		}
		ids := config.RootFS.DiffIDs
		if !cmp.Equal(config.Features, want) || len(ids) == 0 || ids[len(ids)-1] != image.Own.DiffID {
			t.Errorf("%s: the config is %s", c, image.Config.Bytes)
		}
		index, err := layering.Index([]layering.Image{image})
		if err != nil {
			t.Fatal(err)
		}
		x, err := oci.ParseIndex(index)
		if err != nil || !cmp.Equal(x.Manifests[0].Platform.OSFeatures, want) {
			t.Errorf("%s: the index is %s: %v", c, index.Bytes, err)
		}
		if got := oci.Matching(x, oci.DefaultPlatform); len(got) != 1 {
			t.Errorf("%s: the image matches no platform", c)
		}
	}
}

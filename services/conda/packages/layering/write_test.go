package layering_test

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"slipway.dev/services/conda/packages/artifact"
	"slipway.dev/services/conda/packages/layering"
	"slipway.dev/services/conda/spec"
)

// packages are the real packages of package artifact.
const packages = "../artifact/testdata/packages"

// recordOf returns a channel's record of an artifact.
func recordOf(t *testing.T, file string) spec.Record {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(packages, file))
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(raw)
	a, err := artifact.Open(context.Background(), bytes.NewReader(raw), int64(len(raw)), file)
	if err != nil {
		t.Fatal(err)
	}
	rec := spec.Record{
		Name: a.Name(), Version: a.Version(), Build: a.Build(), Depends: []string{}, FileName: file, Size: int64(len(raw)), SHA256: hex.EncodeToString(sum[:]),
		Channel: "conda-forge", Subdir: "linux-64", URL: "https://conda.anaconda.org/conda-forge/linux-64/" + file, Timestamp: 1700000000123,
	}
	if a.Python() {
		rec.NoArch, rec.Subdir = "python", "noarch"
	}
	return rec
}

// lay returns the layer of a package for Python 3.10.
func lay(t *testing.T, file string, c layering.Compression) (layering.Package, []byte) {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(packages, file))
	if err != nil {
		t.Fatal(err)
	}
	a, err := artifact.Open(context.Background(), bytes.NewReader(raw), int64(len(raw)), file)
	if err != nil {
		t.Fatal(err)
	}
	at := artifact.Place{Prefix: spec.Prefix, Python: spec.Python{Minor: "3.10", SitePackages: "lib/python3.10/site-packages"}, Scratch: t.TempDir()}
	var out bytes.Buffer
	p, err := layering.WriteLayer(context.Background(), a, recordOf(t, file), at, c, &out)
	if err != nil {
		t.Fatal(err)
	}
	return p, out.Bytes()
}

// pin prints the digests for TestPinned.
var pin = flag.Bool("pin", false, "show the digests of layers instead of comparing them")

// TestPinned compares the bytes of ten layers. If it fails after a change here or in a
// library, every layer in every registry would be built and sent again. Then
// conda.LayerVersion must be incremented, so that the layers get new keys.
func TestPinned(t *testing.T) {
	t.Parallel()
	for _, c := range pinned() {
		t.Run(c.file, func(t *testing.T) {
			t.Parallel()
			p, blob := lay(t, c.file, c.compression)
			if *pin {
				fmt.Printf("\t\t{%q, layering.Compression(%q), %q, %q},\n", c.file, c.compression, p.Digest.Encoded(), p.DiffID.Encoded())
				return
			}
			if p.Digest.Encoded() != c.digest || p.DiffID.Encoded() != c.diffID {
				t.Errorf("the layer is %s of %s", p.Digest, p.DiffID)
			}
			if d := digest.FromBytes(blob); d != p.Digest || int64(len(blob)) != p.Size {
				t.Errorf("it is said to be %s, %d bytes; it is %s, %d", p.Digest, p.Size, d, len(blob))
			}
			if d := digest.FromBytes(untared(t, p, blob)); d != p.DiffID {
				t.Errorf("its tar is said to be %s, and is %s", p.DiffID, d)
			}
		})
	}
}

// TestLevels checks that the tar is the same at every level, and that the bytes of a layer
// do not change between runs.
func TestLevels(t *testing.T) {
	t.Parallel()
	const file = "libzlib-1.2.13-h31becfc_5.conda"
	plain, _ := lay(t, file, layering.Gzip)
	sizes := map[layering.Compression]int64{}
	for _, c := range []layering.Compression{
		layering.Gzip.At(0), layering.Gzip.At(1), layering.Gzip.At(6), layering.Gzip.At(9),
		layering.Zstd, layering.Zstd.At(1), layering.Zstd.At(19), layering.Zstd.At(22),
	} {
		p, blob := lay(t, file, c)
		again, _ := lay(t, file, c)
		if p.Digest != again.Digest || p.DiffID != plain.DiffID || digest.FromBytes(untared(t, p, blob)) != plain.DiffID {
			t.Errorf("%s: it is %s of %s, then %s; the tar is %s", c, p.Digest, p.DiffID, again.Digest, plain.DiffID)
		}
		if isZstd := p.MediaType == ocispec.MediaTypeImageLayerZstd; isZstd != strings.HasPrefix(string(c), "zstd") {
			t.Errorf("%s: it is %s", c, p.MediaType)
		}
		sizes[c] = p.Size
	}
	if sizes[layering.Gzip.At(6)] != plain.Size || sizes[layering.Gzip.At(0)] <= sizes[layering.Gzip.At(1)] || sizes[layering.Gzip.At(1)] <= sizes[layering.Gzip.At(9)] ||
		sizes[layering.Zstd.At(1)] <= sizes[layering.Zstd.At(19)] {
		t.Errorf("usual is %d bytes; %v", plain.Size, sizes)
	}
}

// untared returns the tar of a layer.
func untared(t *testing.T, p layering.Package, blob []byte) []byte {
	t.Helper()
	var in io.Reader
	var err error
	if p.MediaType == ocispec.MediaTypeImageLayerZstd {
		in, err = zstd.NewReader(bytes.NewReader(blob))
	} else {
		in, err = gzip.NewReader(bytes.NewReader(blob))
	}
	if err != nil {
		t.Fatal(err)
	}
	raw, err := io.ReadAll(in)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// entries returns the entries of a layer in order, with the content of files.
func entries(t *testing.T, p layering.Package, blob []byte) ([]*tar.Header, map[string]string) {
	t.Helper()
	var out []*tar.Header
	texts := map[string]string{}
	for r := tar.NewReader(bytes.NewReader(untared(t, p, blob))); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return out, texts
		}
		if err != nil {
			t.Fatal(err)
		}
		raw, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, h)
		texts[h.Name] = string(raw)
	}
}

// TestLayer checks the content of a layer: files below the prefix that belong to root, each
// folder once and before its content, and the package's record at the end.
func TestLayer(t *testing.T) {
	t.Parallel()
	const file = "jsonpointer-2.4-py310h4c7bcd0_3.conda"
	p, blob := lay(t, file, layering.Gzip)
	list, texts := entries(t, p, blob)
	seen := map[string]bool{"./": true}
	var names []string
	for _, h := range list {
		if h.Uid != 0 || h.Gid != 0 || h.Uname != "" || seen[h.Name] || !seen[filepath.Dir(strings.TrimSuffix(h.Name, "/"))+"/"] {
			t.Errorf("%+v is not root's, occurs twice, or before its folder", h)
		}
		seen[h.Name] = true
		if h.Typeflag == tar.TypeDir {
			if h.Mode != 0o755 || h.ModTime.Unix() != 0 {
				t.Errorf("the folder %s is not as everywhere", h.Name)
			}
			continue
		}
		names = append(names, strings.TrimPrefix(h.Name, "opt/conda/"))
	}
	if diff := cmp.Diff(p.Paths, names); diff != "" {
		t.Errorf("paths (-said +there):\n%s", diff)
	}
	last := "opt/conda/conda-meta/jsonpointer-2.4-py310h4c7bcd0_3.json"
	if list[len(list)-1].Name != last || list[len(list)-1].ModTime.Unix() != 1700000000 {
		t.Errorf("the last is %+v", list[len(list)-1])
	}
	var rec struct {
		spec.Record
		Files []string
	}
	if err := json.Unmarshal([]byte(texts[last]), &rec); err != nil {
		t.Fatal(err)
	}
	want := recordOf(t, file)
	want.Channel = "https://conda.anaconda.org/conda-forge"
	if diff := cmp.Diff(want, rec.Record); diff != "" || len(rec.Files) != len(names)-1 {
		t.Errorf("the record has %d files (-channel +layer):\n%s", len(rec.Files), diff)
	}
	if !strings.HasPrefix(texts["opt/conda/bin/jsonpointer"], "#!/opt/conda/bin/python") {
		t.Errorf("the prefix was not replaced: %.80q", texts["opt/conda/bin/jsonpointer"])
	}
}

// TestMislisted checks that an artifact which is another package than its record states is
// rejected.
func TestMislisted(t *testing.T) {
	t.Parallel()
	const file = "python_abi-3.10-4_cp310.conda"
	raw, err := os.ReadFile(filepath.Join(packages, file))
	if err != nil {
		t.Fatal(err)
	}
	a, err := artifact.Open(context.Background(), bytes.NewReader(raw), int64(len(raw)), file)
	if err != nil {
		t.Fatal(err)
	}
	rec := recordOf(t, file)
	rec.Name = "openssl"
	_, err = layering.WriteLayer(context.Background(), a, rec, artifact.Place{Prefix: spec.Prefix}, layering.Gzip, io.Discard)
	if err == nil || !strings.Contains(err.Error(), "not what the channel lists it as") {
		t.Errorf("it ended with %v", err)
	}
}

package artifact_test

import (
	"archive/tar"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"flag"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/zstd"

	"slipway.dev/services/conda/packages/artifact"
	"slipway.dev/services/conda/spec"
)

// artifacts can be set to a folder with all packages of the golden list; the repository has
// only a few.
var artifacts = flag.String("artifacts", "testdata/packages", "the folder of the packages that are compared with the golden list")

// state holds the compared facts about one installed file.
type state struct {
	SHA256 string `json:"sha256,omitempty"`
	X      bool   `json:"x,omitempty"`
	Link   string `json:"link,omitempty"`
}

// tree is a Sink that records states, and the entries in their order.
type tree struct {
	states  map[string]state
	entries map[string]artifact.Entry
	order   []string
	texts   map[string]string
}

func newTree() *tree {
	return &tree{states: map[string]state{}, entries: map[string]artifact.Entry{}, texts: map[string]string{}}
}

func (t *tree) Put(e artifact.Entry, content io.Reader) error {
	s := state{X: e.Mode&0o111 != 0}
	switch e.Type {
	case tar.TypeReg:
		h := sha256.New()
		n, err := io.Copy(h, io.TeeReader(content, &capture{t, e.Path}))
		if err != nil {
			return err
		}
		if n != e.Size {
			return io.ErrShortWrite
		}
		s.SHA256 = hex.EncodeToString(h.Sum(nil))
	case tar.TypeLink:
		s = t.states[e.Target]
	case tar.TypeSymlink:
		s = state{Link: e.Target}
	}
	if e.Type != tar.TypeDir {
		t.states[e.Path] = s
	}
	t.entries[e.Path] = e
	t.order = append(t.order, e.Path)
	return nil
}

// capture stores the beginning of a file.
type capture struct {
	tree *tree
	path string
}

func (c *capture) Write(p []byte) (int, error) {
	if have := c.tree.texts[c.path]; len(have) < 1<<16 || strings.HasSuffix(c.path, "/RECORD") {
		c.tree.texts[c.path] = have + string(p)
	}
	return len(p), nil
}

// open opens an artifact.
func open(t *testing.T, file string) *artifact.Artifact {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	info, err := f.Stat()
	if err != nil {
		t.Fatal(err)
	}
	a, err := artifact.Open(context.Background(), f, info.Size(), filepath.Base(file))
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// install installs an artifact.
func install(t *testing.T, file string, at artifact.Place) (*artifact.Installed, *tree) {
	t.Helper()
	out := newTree()
	in, err := open(t, file).Install(context.Background(), at, out)
	if err != nil {
		t.Fatal(err)
	}
	return in, out
}

func place(t *testing.T) artifact.Place {
	return artifact.Place{Prefix: "/opt/conda", Python: python(t, "3.10.13"), Scratch: t.TempDir()}
}

func python(t *testing.T, version string) spec.Python {
	t.Helper()
	p, err := spec.PythonOf([]spec.Record{{Name: "python", Version: version}})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// unpacked decodes a JSON document that is compressed with zstd.
func unpacked(t *testing.T, file string, v any) {
	t.Helper()
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	d, err := zstd.NewReader(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	if raw, err = d.DecodeAll(raw, nil); err == nil {
		err = json.Unmarshal(raw, v)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// TestGolden compares every file of real packages with the files that conda and mamba
// installed from them: content, executable bit, and link target.
func TestGolden(t *testing.T) {
	t.Parallel()
	var golden struct {
		Prefix, Python string
		Packages       map[string]map[string]state
	}
	unpacked(t, "testdata/installed-prefix.json.zst", &golden)
	at := artifact.Place{Prefix: golden.Prefix, Python: python(t, golden.Python), Scratch: t.TempDir()}
	files, compared := 0, 0
	for name, want := range golden.Packages {
		file := filepath.Join(*artifacts, name)
		if _, err := os.Stat(file); err != nil {
			continue
		}
		compared++
		_, got := install(t, file, at)
		for path, w := range want {
			if g, ok := got.states[path]; !ok && strings.HasSuffix(path, ".pyc") {
				continue // compiled during the installation
			} else if diff := cmp.Diff(w, g); diff != "" {
				t.Errorf("%s: %s (-installed +ours):\n%s", name, path, diff)
			}
			files++
		}
	}
	if compared < 20 {
		t.Errorf("only %d packages are there to compare", compared)
	}
	t.Logf("%d files of %d packages compared", files, compared)
}

package artifact_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"slipway.dev/services/conda/packages/artifact"
	"slipway.dev/services/conda/spec"
)

// installedState is the record that testdata/install.py writes for one file.
type installedState struct {
	state
	MTime int64 `json:"mtime"`
}

type pathData struct {
	Path           string `json:"_path"`
	Kind           string `json:"path_type"`
	Mode           string `json:"file_mode"`
	NoLink         bool   `json:"no_link"`
	SHA256         string `json:"sha256"`
	SHA256InPrefix string `json:"sha256_in_prefix"`
	Size           int64  `json:"size_in_bytes"`
}

// entryPoint is the path type in conda-meta of programs that an installer writes.
const entryPoint = "unix_python_entry_point"

// TestRattler compares files, times and records with those of another installer, for the
// same artifacts and for those of TestWriteArtifacts.
func TestRattler(t *testing.T) {
	t.Parallel()
	var golden struct {
		Prefix, Python string
		Packages       map[string]struct {
			Error  string
			Files  map[string]installedState
			Listed []string
			Paths  []pathData `json:"paths_data"`
		}
	}
	unpacked(t, "testdata/rattler.json.zst", &golden)
	at := artifact.Place{Prefix: golden.Prefix, Python: python(t, golden.Python), Scratch: t.TempDir()}
	made := makeAll(t, t.TempDir())
	compared := 0
	for name, want := range golden.Packages {
		file := filepath.Join(*artifacts, name)
		if f, ok := made[name]; ok {
			file = f
		}
		if _, err := os.Stat(file); err != nil || want.Error != "" {
			continue
		}
		compared++
		in, got := install(t, file, at)
		rewritten, kinds := map[string]bool{}, map[string]string{}
		for _, p := range want.Paths {
			rewritten[p.Path], kinds[p.Path] = p.Mode != "", p.Kind
		}
		files := map[string]installedState{}
		for path, s := range got.states {
			files[path] = installedState{s, got.entries[path].ModTime.Unix()}
		}
		for path, w := range want.Files {
			g := files[path]
			// Headers have two times. The other installer uses the rounded one, and the
			// current time for files that it writes itself.
			if kinds[path] == entryPoint { // compared by TestGolden
				w.SHA256 = g.SHA256
			}
			if w.MTime == g.MTime+1 || w.MTime > golden2026 || w.Link != "" || rewritten[path] {
				w.MTime, g.MTime = 0, 0
			}
			if diff := cmp.Diff(w, g, cmp.AllowUnexported(installedState{})); diff != "" && path != "CACHEDIR.TAG" {
				t.Errorf("%s: %s (-installed +ours):\n%s", name, path, diff)
			}
			delete(files, path)
		}
		for path := range files {
			t.Errorf("%s: nobody else installs %s", name, path)
		}
		compareRecord(t, name, in, want.Listed, want.Paths)
	}
	t.Logf("%d packages compared", compared)
}

// golden2026 is a time before testdata/rattler.json.zst was created, and after all packages
// were built.
const golden2026 = 1767225600

func compareRecord(t *testing.T, name string, in *artifact.Installed, listed []string, paths []pathData) {
	t.Helper()
	var b bytes.Buffer
	if err := in.WriteRecord(&b, spec.Record{Name: "n"}); err != nil {
		t.Fatal(err)
	}
	var got struct {
		Files []string
		Data  struct {
			Paths []pathData
		} `json:"paths_data"`
	}
	if err := json.Unmarshal(b.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	if len(paths) != len(got.Data.Paths) {
		t.Errorf("%s: there are %d paths, not %d", name, len(got.Data.Paths), len(paths))
		return
	}
	slices.Sort(listed)
	slices.Sort(got.Files)
	byPath := func(a, b pathData) int { return strings.Compare(a.Path, b.Path) }
	slices.SortFunc(paths, byPath)
	slices.SortFunc(got.Data.Paths, byPath)
	for i, p := range paths {
		g := &got.Data.Paths[i]
		// The other installer records a digest only for files with a changed prefix, and
		// for a link the digest of its target's name. Like conda, we record the digest of
		// the linked file.
		if p.SHA256InPrefix == "" || p.Kind == "softlink" {
			p.SHA256InPrefix, g.SHA256InPrefix = "", ""
			paths[i] = p
		}
		if p.Kind == entryPoint { // compared by TestGolden
			g.SHA256, g.Size = p.SHA256, p.Size
		}
		if p.Mode == "text" || p.Kind == "softlink" { // the other installer records the new length, conda the packed length
			g.Size = p.Size
		}
	}
	if diff := cmp.Diff(listed, got.Files); diff != "" {
		t.Errorf("%s: files (-installed +ours):\n%s", name, diff)
	}
	if diff := cmp.Diff(paths, got.Data.Paths); diff != "" {
		t.Errorf("%s: paths_data (-installed +ours):\n%s", name, diff)
	}
}

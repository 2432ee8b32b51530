package conda

import (
	"archive/tar"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/klauspost/compress/zstd"

	"slipway.dev/services/bench/internal/figure"
	"slipway.dev/services/bench/internal/must"
	"slipway.dev/services/bench/internal/world"
	"slipway.dev/services/conda/packages/artifact"
	"slipway.dev/services/conda/spec"
)

// goldenDir holds real packages with the files that conda and mamba installed from them.
const goldenDir = "services/conda/packages/artifact/testdata"

// installed describes a file that conda or mamba installed.
type installed struct {
	SHA256 string `json:"sha256"`
	X      bool   `json:"x"`
	Link   string `json:"link"`
}

// measureInstalled counts the files of real packages whose content, executable bit or link
// target differs from those that conda and mamba installed.
func measureInstalled(w *world.World, s *figure.Sheet) {
	var golden struct {
		Prefix, Python string
		Packages       map[string]map[string]installed
	}
	d := must.Get(zstd.NewReader(nil))
	defer d.Close()
	must.Do(json.Unmarshal(must.Get(d.DecodeAll(must.Get(os.ReadFile(filepath.Join(goldenDir, "installed-prefix.json.zst"))), nil)), &golden))
	place := artifact.Place{Prefix: golden.Prefix, Python: must.Get(spec.PythonOf([]spec.Record{{Name: "python", Version: golden.Python}})), Scratch: w.Dir}
	compared, different := 0, 0
	for name, want := range golden.Packages {
		got := becomes(w.Ctx, name, place)
		for path, file := range want {
			ours, ok := got[path]
			if got == nil || !ok && strings.HasSuffix(path, ".pyc") {
				continue // goldenDir does not have the package, or the file is compiled during installation
			}
			if compared++; ours != file {
				different++
			}
		}
	}
	s.Remark = "of real packages, compared with conda and mamba"
	s.Record("files compared", float64(compared), "")
	s.Check("files that differ", float64(different), "", figure.AtMost(0))
	s.Remark = ""
}

// becomes returns the files of an installed package; nil if goldenDir does not have the package.
func becomes(ctx context.Context, name string, place artifact.Place) sink {
	file, err := os.Open(filepath.Join(goldenDir, "packages", name))
	if err != nil {
		return nil
	}
	defer file.Close()
	info := must.Get(file.Stat())
	out := sink{}
	must.Get(must.Get(artifact.Open(ctx, file, info.Size(), name)).Install(ctx, place, out))
	return out
}

// A sink records files by path.
type sink map[string]installed

// Put implements artifact.Sink.
func (s sink) Put(e artifact.Entry, content io.Reader) error {
	file := installed{X: e.Mode&0o111 != 0}
	switch e.Type {
	case tar.TypeDir:
		return nil
	case tar.TypeSymlink:
		file = installed{Link: e.Target}
	case tar.TypeLink:
		file = s[e.Target]
	default:
		sum := sha256.New()
		if _, err := io.Copy(sum, content); err != nil {
			return err
		}
		file.SHA256 = hex.EncodeToString(sum.Sum(nil))
	}
	s[e.Path] = file
	return nil
}

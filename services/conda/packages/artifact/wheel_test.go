package artifact_test

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/csv"
	"encoding/json"
	"flag"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"slipway.dev/services/conda/packages/artifact"
	"slipway.dev/services/conda/spec"
	"slipway.dev/services/internal/fault"
)

// wheels and wheelTrees can be set to more wheels and their trees; the repository has one
// genuine wheel.
var (
	wheels     = flag.String("wheels", "testdata/wheels", "the folder of the wheels that are compared with installer")
	wheelTrees = flag.String("wheel-trees", "testdata/wheels.json", "their trees, written by services/tools/oracle/install_wheels.py")
)

// A wheelFile is a file of a generated wheel.
type wheelFile struct {
	name, content string
	mode          fs.FileMode
}

// zipped returns a zip of files.
func zipped(t testing.TB, files []wheelFile) []byte {
	t.Helper()
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	for _, f := range files {
		h := &zip.FileHeader{Name: f.name, Method: zip.Deflate, Modified: builtAt}
		if f.mode == 0 {
			f.mode = 0o644
		}
		h.SetMode(f.mode)
		w, err := z.CreateHeader(h)
		if err == nil {
			_, err = io.WriteString(w, f.content)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

const (
	wheelInfo = "Demo_Pkg-1.0.dist-info/"
	wheelName = "Demo_Pkg-1.0-py3-none-any.whl"
)

// aWheel returns the files of a wheel, after those of more.
func aWheel(more ...wheelFile) []wheelFile {
	return append(more,
		wheelFile{name: wheelInfo + "METADATA", content: "Metadata-Version: 2.1\nName: demo.pkg\nVersion: 1.0\n\nName: another\n"},
		wheelFile{name: wheelInfo + "WHEEL", content: "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"},
		wheelFile{name: wheelInfo + "RECORD", content: "demo/__init__.py,,\n"},
	)
}

func python311(t testing.TB) artifact.Place {
	t.Helper()
	return artifact.Place{Prefix: "/opt/conda", Python: spec.Python{Minor: "3.11", SitePackages: "lib/python3.11/site-packages"}, Scratch: t.TempDir()}
}

// installWheel installs a wheel and returns its files by path.
func installWheel(t *testing.T, raw []byte, name string) (*tree, error) {
	t.Helper()
	w, err := artifact.OpenWheel(t.Context(), bytes.NewReader(raw), int64(len(raw)), name)
	if err != nil {
		return nil, err
	}
	out := newTree()
	_, err = w.Install(t.Context(), python311(t), out)
	return out, err
}

// everything returns a wheel with every kind of file.
func everything() []wheelFile {
	data := "Demo_Pkg-1.0.data/"
	return []wheelFile{
		{name: "demo/__init__.py", content: "def main():\n    print('hello')\n"},
		{name: "demo/tool.sh", content: "#!/bin/sh\n", mode: 0o755},
		{name: "demo/with, comma \"and\" quotes.txt", content: "x"},
		{name: "demo/", mode: fs.ModeDir | 0o755},
		{name: data + "purelib/demo_pure.py", content: "pure = 1\n"},
		{name: data + "platlib/demo_plat.py", content: "plat = 1\n"},
		{name: data + "scripts/demo-script", content: "#!python -u\nprint('script')\n", mode: 0o755},
		{name: data + "scripts/demo-gui", content: "#!pythonw\nprint('gui')\n", mode: 0o755},
		{name: data + "scripts/demo-shell", content: "#!/bin/sh\necho shell\n", mode: 0o755},
		{name: data + "scripts/demo-binary", content: "\x7fELF\x00\x01", mode: 0o755},
		{name: data + "headers/demo.h", content: "#define DEMO 1\n"},
		{name: data + "data/share/man/man1/demo.1", content: ".TH demo 1\n"},
		{name: data + "data/etc/conda/activate.d/demo.sh", content: "export DEMO=1\n"},
		{name: wheelInfo + "licenses/LICENSE", content: "MIT\n"},
		{name: wheelInfo + "entry_points.txt", content: "# programs\n[console_scripts]\ndemo = demo:main\ndemo.run = demo.sub:Class.run [extra]\n\n[gui_scripts]\ndemo-window=demo:main\n[other]\nx = y\n"},
		{name: wheelInfo + "METADATA", content: "Metadata-Version: 2.1\nName: demo.pkg\nVersion: 1.0\n"},
		{name: wheelInfo + "WHEEL", content: "Wheel-Version: 1.0\nGenerator: slipway\nRoot-Is-Purelib: true\nTag: py3-none-any\n"},
		{name: wheelInfo + "RECORD.jws", content: "{}"},
	}
}

// listedIn appends the RECORD of a wheel to its files.
func listedIn(t testing.TB, files []wheelFile) []wheelFile {
	t.Helper()
	var b bytes.Buffer
	w := csv.NewWriter(&b)
	for _, f := range files {
		if strings.HasSuffix(f.name, "/") {
			continue
		}
		sum := sha256.Sum256([]byte(f.content))
		if err := w.Write([]string{f.name, "sha256=" + base64.RawURLEncoding.EncodeToString(sum[:]), strconv.Itoa(len(f.content))}); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Write([]string{wheelInfo + "RECORD", "", ""}); err != nil {
		t.Fatal(err)
	}
	w.Flush()
	return append(files, wheelFile{name: wheelInfo + "RECORD", content: b.String()})
}

// wheelTree is the tree that PyPA's installer creates from a wheel.
type wheelTree struct {
	Files    map[string]state
	Record   map[string][]string
	Programs []string
}

// TestWheelsLikeInstaller compares installed wheels with the trees of PyPA's installer, which
// services/tools/oracle/install_wheels.py wrote. The programs of entry points have a text of
// their own.
func TestWheelsLikeInstaller(t *testing.T) {
	t.Parallel()
	var want map[string]wheelTree
	raw, err := os.ReadFile(*wheelTrees)
	if err == nil {
		err = json.Unmarshal(raw, &want)
	}
	if err != nil || len(want) < 2 {
		t.Fatalf("%d trees, %v", len(want), err)
	}
	made := zipped(t, listedIn(t, everything()))
	if *keep != "" {
		if err := os.WriteFile(filepath.Join(*keep, wheelName), made, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for name, tree := range want {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			raw := made
			if name != wheelName {
				var err error
				if raw, err = os.ReadFile(filepath.Join(*wheels, name)); err != nil {
					t.Fatal(err)
				}
			}
			got, err := installWheel(t, raw, name)
			if err != nil {
				t.Fatal(err)
			}
			tree.compare(t, got)
		})
	}
}

// compare compares an installed wheel with the tree.
func (w wheelTree) compare(t *testing.T, got *tree) {
	t.Helper()
	files, record := maps.Clone(got.states), map[string][]string{}
	for name, s := range files {
		isRecord := strings.HasSuffix(name, ".dist-info/RECORD")
		if isRecord {
			rows, err := csv.NewReader(strings.NewReader(got.texts[name])).ReadAll()
			if err != nil {
				t.Fatal(err)
			}
			for _, row := range rows {
				record[row[0]] = row[1:]
			}
		}
		if isRecord || slices.Contains(w.Programs, name) {
			s.SHA256 = ""
			files[name] = s
		}
	}
	for _, name := range w.Programs {
		s := w.Files[name]
		s.SHA256 = ""
		w.Files[name] = s
		row := "../../../" + name
		if len(record[row]) != 2 || len(w.Record[row]) != 2 {
			t.Errorf("RECORD lists %s as %q, want like %q", row, record[row], w.Record[row])
		}
		delete(record, row)
		delete(w.Record, row)
	}
	if diff := cmp.Diff(w.Files, files); diff != "" {
		t.Errorf("files (-installer +slipway):\n%s", diff)
	}
	if diff := cmp.Diff(w.Record, record); diff != "" {
		t.Errorf("RECORD (-installer +slipway):\n%s", diff)
	}
}

// TestWheelProgram checks the program of an entry point, and that Python runs it.
func TestWheelProgram(t *testing.T) {
	t.Parallel()
	got, err := installWheel(t, zipped(t, listedIn(t, everything())), wheelName)
	if err != nil {
		t.Fatal(err)
	}
	const want = "#!/opt/conda/bin/python3.11\nimport sys\n\nfrom demo.sub import Class\n\nif __name__ == \"__main__\":\n    sys.argv[0] = sys.argv[0].removesuffix(\".exe\")\n    sys.exit(Class.run())\n"
	if text := got.texts["bin/demo.run"]; text != want {
		t.Errorf("the program is\n%s", text)
	}
	if e := got.entries["bin/demo"]; e.Mode != 0o755 || e.ModTime != builtAt.Truncate(time.Second) {
		t.Errorf("the program is %+v", e)
	}
	again, err := installWheel(t, zipped(t, listedIn(t, everything())), wheelName)
	if err != nil || !cmp.Equal(got.order, again.order) || !cmp.Equal(got.states, again.states) {
		t.Errorf("a second installation differs: %v", err)
	}
}

// TestWheelRefused checks wheels that cannot be installed, and the reasons.
func TestWheelRefused(t *testing.T) {
	t.Parallel()
	info := func(name, content string) wheelFile { return wheelFile{name: wheelInfo + name, content: content} }
	metadata, version, record := aWheel()[0], aWheel()[1], aWheel()[2]
	for want, files := range map[string][]wheelFile{
		"leads out":          aWheel(wheelFile{name: "demo/../../x"}),
		"leads out of":       aWheel(wheelFile{name: "/etc/passwd"}),
		"has a backslash":    aWheel(wheelFile{name: `demo\x`}),
		"not a regular file": aWheel(wheelFile{name: "demo/link", content: "/etc", mode: fs.ModeSymlink | 0o777}),
		"occurs twice":       aWheel(wheelFile{name: "a"}, wheelFile{name: "./a"}),
		`"lib/python3.11/site-packages/a" occurs twice`:                 aWheel(wheelFile{name: "a"}, wheelFile{name: "Demo_Pkg-1.0.data/purelib/a"}),
		"where conda lists":                                             aWheel(wheelFile{name: "Demo_Pkg-1.0.data/data/conda-meta/x.json"}),
		"is an unknown folder":                                          aWheel(wheelFile{name: "Demo_Pkg-1.0.data/stdlib/os.py"}),
		"is in no folder of":                                            aWheel(wheelFile{name: "Demo_Pkg-1.0.data/os.py"}),
		"leads out of the package":                                      aWheel(wheelFile{name: "Demo_Pkg-1.0.data/data/../../x"}),
		"two folders of metadata":                                       aWheel(wheelFile{name: "demo_pkg-1.0.dist-info/x"}),
		"belongs to another package":                                    {wheelFile{name: "other-1.0.dist-info/x"}},
		"no folder .dist-info":                                          {wheelFile{name: "demo/x"}},
		"METADATA: it is that of \"x\"":                                 {info("METADATA", "Name: x\nVersion: 1.0\n"), version, record},
		"METADATA: it is that of \"demo\"":                              {info("METADATA", "Name: demo\nVersion: 1.0\n"), version, record},
		`it has no "Demo_Pkg-1.0.dist-info/WHEEL"`:                      {metadata, record},
		"format version \"2.0\"":                                        {metadata, info("WHEEL", "Wheel-Version: 2.0\n"), record},
		"RECORD: it is malformed":                                       {metadata, version, info("RECORD", "a,b\n")},
		"RECORD: the digest of \"demo/__init__.py\" is of the kind md5": {metadata, version, info("RECORD", "demo/__init__.py,md5=0,1\n")},
		"RECORD: the digest of \"a\" is malformed":                      {metadata, version, info("RECORD", "a,sha256=0,1\n")},
		"does not have the digest":                                      {wheelFile{name: "a", content: "b"}, metadata, version, info("RECORD", "a,sha256=47DEQpj8HBSa-_TImW-5JCeuQeRkm5NMpJWZG3hSuFU,0\n")},
		"the entry point \"../x = a:b\"":                                aWheel(info("entry_points.txt", "[console_scripts]\n../x = a:b\n")),
		"the entry point \"" + strings.Repeat("x", 80):                  aWheel(info("entry_points.txt", "[console_scripts]\n"+strings.Repeat("x", 201)+" = a:b\n")),
		"the entry point \"x = a\"":                                     aWheel(info("entry_points.txt", "[console_scripts]\nx = a\n")),
		"the entry point \"x = a:b;c\"":                                 aWheel(info("entry_points.txt", "[console_scripts]\nx = a:b;c\n")),
		"two programs \"x\"":                                            aWheel(info("entry_points.txt", "[console_scripts]\nx = a:b\n[gui_scripts]\nx = a:c\n")),
		`"bin/x" occurs twice`:                                          aWheel(wheelFile{name: "Demo_Pkg-1.0.data/scripts/x"}, info("entry_points.txt", "[console_scripts]\nx = a:b\n")),
		"more than 200 times as long":                                   aWheel(wheelFile{name: "zeros", content: strings.Repeat("\x00", 65<<20)}),
	} {
		_, err := installWheel(t, zipped(t, files), wheelName)
		f, ok := fault.As(err)
		if !ok || !strings.Contains(f.Public, want) || !strings.HasPrefix(f.Public, `"`+wheelName+`" cannot be installed: `) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	if _, err := installWheel(t, []byte("no zip"), wheelName); err == nil || !strings.Contains(err.Error(), "no zip archive") {
		t.Errorf("nonsense: %v", err)
	}
	w, err := artifact.OpenWheel(t.Context(), bytes.NewReader(zipped(t, aWheel())), int64(len(zipped(t, aWheel()))), wheelName)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Install(t.Context(), artifact.Place{Prefix: "/opt/conda"}, newTree()); err == nil || !strings.Contains(err.Error(), "the environment lacks") {
		t.Errorf("without Python: %v", err)
	}
}

// FuzzWheel installs arbitrary bytes.
func FuzzWheel(f *testing.F) {
	f.Add(zipped(f, listedIn(f, everything())))
	f.Add(zipped(f, aWheel(wheelFile{name: "demo/../../x"})))
	raw, err := os.ReadFile("testdata/wheels/MarkupSafe-3.0.2-cp311-cp311-manylinux_2_17_x86_64.manylinux2014_x86_64.whl")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(raw)
	f.Fuzz(func(t *testing.T, raw []byte) {
		for _, name := range []string{wheelName, "MarkupSafe-3.0.2-cp311-cp311-manylinux_2_17_x86_64.whl"} {
			w, err := artifact.OpenWheel(t.Context(), bytes.NewReader(raw), int64(len(raw)), name)
			if err != nil {
				continue
			}
			_, _ = w.Install(t.Context(), python311(t), inside{t})
		}
	})
}

// inside is a Sink that checks that no path leads out of the prefix.
type inside struct{ t *testing.T }

func (s inside) Put(e artifact.Entry, content io.Reader) error {
	if !fs.ValidPath(e.Path) || e.Path == "." || e.Type != tar.TypeReg {
		s.t.Errorf("%+v is installed", e)
	}
	n, err := io.Copy(io.Discard, content)
	if err == nil && n != e.Size {
		s.t.Errorf("%q has %d bytes instead of %d", e.Path, n, e.Size)
	}
	return err
}

package artifact

import (
	"bytes"
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"

	"slipway.dev/services/conda/spec"
)

// discard is a Sink that reads installed files and discards them.
type discard struct{ f *testing.T }

func (n discard) Put(e Entry, content io.Reader) error {
	if _, err := local(e.Path); err != nil {
		n.f.Errorf("%q leads out: %v", e.Path, err)
	}
	if content == nil {
		return nil
	}
	_, err := io.Copy(io.Discard, content)
	return err
}

// FuzzArtifact installs arbitrary bytes.
func FuzzArtifact(f *testing.F) {
	for _, pattern := range []string{"*symlink*", "clobber-pynoarch-1*", "link-scripts*", "zip64*", "dotslash*"} {
		files, err := filepath.Glob("testdata/packages/" + pattern)
		if err != nil || len(files) == 0 {
			f.Fatal(pattern, err)
		}
		for _, file := range files {
			raw, err := os.ReadFile(file)
			if err != nil {
				f.Fatal(err)
			}
			f.Add(raw, strings.HasSuffix(file, ".conda"))
		}
	}
	f.Fuzz(func(t *testing.T, raw []byte, isConda bool) {
		name := "f-1-0.tar.bz2"
		if isConda {
			name = "f-1-0.conda"
		}
		a, err := Open(context.Background(), bytes.NewReader(raw), int64(len(raw)), name)
		if err != nil {
			return
		}
		in, err := a.Install(context.Background(), Place{Prefix: "/opt/conda", Python: spec.Python{Minor: "3.12", SitePackages: "lib/python3.12/site-packages"}, Scratch: t.TempDir()}, discard{t})
		if err == nil && filepath.Dir(in.RecordName()) != "conda-meta" {
			t.Errorf("the record is %q", in.RecordName())
		}
	})
}

// FuzzPaths parses info/paths.json.
func FuzzPaths(f *testing.F) {
	f.Add(`{"paths":[{"_path":"a","path_type":"hardlink","prefix_placeholder":"/p","file_mode":"binary"}],"paths_version":1}`)
	f.Add(`{"paths":[{"_path":"a/../b"}]}`)
	f.Fuzz(func(t *testing.T, text string) {
		p, err := readPaths(strings.NewReader(text))
		if err != nil {
			return
		}
		for i := range p.list {
			if again, err := local(p.list[i].Path); err != nil || again != p.list[i].Path {
				t.Errorf("%q is listed", p.list[i].Path)
			}
		}
	})
}

// FuzzHasPrefix parses info/has_prefix.
func FuzzHasPrefix(f *testing.F) {
	f.Add("bin/a\n\"/opt/p q\" text bin/b\n/p binary 'bin/c d'\n")
	f.Fuzz(func(t *testing.T, text string) {
		list, err := readHasPrefix(strings.NewReader(text))
		for _, h := range list {
			if err == nil && (h.placeholder == "" || h.mode != "text" && h.mode != modeBinary) {
				t.Errorf("read %+v", h)
			}
		}
	})
}

// FuzzEntryPoint checks that the script of an entry point has the expected number of lines,
// so that nothing can be injected.
func FuzzEntryPoint(f *testing.F) {
	f.Add("pip = pip._internal.cli.main:main")
	f.Add("a=b : C.d")
	f.Fuzz(func(t *testing.T, point string) {
		name, text, err := script(spec.Python{Minor: "3.12"}, "/opt/conda", point)
		if err != nil {
			return
		}
		if filepath.Dir(name) != "bin" || strings.Count(text, "\n") != 10 {
			t.Errorf("%q became %q with\n%s", point, name, text)
		}
	})
}

// FuzzReplace compares the streaming replacement with one in memory.
func FuzzReplace(f *testing.F) {
	f.Add([]byte("a/long/p/lib\x00b"), "/long/p", "/p", true, uint16(3))
	f.Add([]byte("#!/long/p/bin/x\n/long/p/long/p"), "/long/p", "/opt/conda", false, uint16(64))
	f.Add(bytes.Repeat([]byte("/pp/p\x00pp"), 30_000), "/pp", "/o", true, uint16(0))
	f.Fuzz(func(t *testing.T, raw []byte, old, prefix string, isBinary bool, at uint16) {
		if old == "" || len(old) > 4096 || strings.ContainsRune(old+prefix, 0) {
			return
		}
		raw = append(bytes.Repeat([]byte("x"), int(at)), raw...)
		mode := "text"
		if isBinary {
			mode = modeBinary
		}
		r, err := newReplacer(iotest.HalfReader(bytes.NewReader(raw)), old, prefix, mode)
		if err != nil {
			if !isBinary || len(prefix) <= len(old) {
				t.Fatal(err)
			}
			return
		}
		got, err := io.ReadAll(r)
		if want := replaced(raw, old, prefix, isBinary); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%d bytes became %d, not %d: %v", len(raw), len(got), len(want), err)
		}
	})
}

// replaced is the reference implementation.
func replaced(raw []byte, old, prefix string, isBinary bool) []byte {
	if !isBinary {
		return bytes.ReplaceAll(raw, []byte(old), []byte(prefix))
	}
	var out []byte
	for i, s := range bytes.Split(raw, []byte{0}) {
		if i > 0 {
			out = append(out, 0)
		}
		n := bytes.ReplaceAll(s, []byte(old), []byte(prefix))
		out = append(append(out, n...), make([]byte, len(s)-len(n))...)
	}
	return out
}

package artifact_test

import (
	"archive/tar"
	"encoding/binary"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"slipway.dev/services/builder/artifact"
)

func write(t *testing.T, p packed) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), p.name+"-1.0-0.conda")
	if err := os.WriteFile(file, p.conda(t), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// TestHardLinks holds names of one file: the same where it is installed the same,
// and files of their own where the prefix is replaced in one only, or it is not
// installed itself.
func TestHardLinks(t *testing.T) {
	t.Parallel()
	link := func(name, to string) member { return member{name: name, link: to, typeflag: tar.TypeLink} }
	_, got := install(t, write(t, packed{name: "n", files: []member{
		{name: "a", content: "see " + placeholder, mode: 0o755}, link("same", "a"), link("again", "same"), link("other", "a"),
		{name: "hidden", content: "h", mode: 0o600}, link("shown", "hidden"),
	}, info: map[string]any{"paths.json": listing("a:text", "same:text", "again:text", "other", "shown")}}), place(t))
	for path, want := range map[string]artifact.Entry{
		"a": {Type: tar.TypeReg, Size: 14, Mode: 0o755}, "same": {Type: tar.TypeLink, Target: "a"}, "again": {Type: tar.TypeLink, Target: "a"},
		"other": {Type: tar.TypeReg, Size: 4 + int64(len(placeholder)), Mode: 0o755}, "shown": {Type: tar.TypeReg, Size: 1, Mode: 0o600},
	} {
		g := got.entries[path]
		if g.Type != want.Type || g.Target != want.Target || g.Size != want.Size || want.Mode != 0 && g.Mode != want.Mode {
			t.Errorf("%s is %+v, want %+v", path, g, want)
		}
	}
	if _, ok := got.entries["hidden"]; ok {
		t.Error("what is not listed was installed")
	}
}

// TestCompiled holds the time and length in what Python compiled against its
// source, as Python does when it loads it: in real packages, none is stale.
func TestCompiled(t *testing.T) {
	t.Parallel()
	pairs := 0
	for _, name := range []string{"cffi-1.16.0-py310hce94938_0.conda", "jsonpointer-2.4-py310h4c7bcd0_3.conda", "mock-2.0.0-py37_1000.conda"} {
		_, got := install(t, filepath.Join("testdata/packages", name), place(t))
		for path, head := range got.texts {
			dir, file, ok := strings.Cut(path, "__pycache__/")
			if !ok || len(head) < 16 {
				continue
			}
			source, ok := got.entries[dir+file[:strings.IndexByte(file, '.')]+".py"]
			if flags := binary.LittleEndian.Uint32([]byte(head[4:])); !ok || flags != 0 {
				continue // checked by its hash, or never
			}
			pairs++
			if at := binary.LittleEndian.Uint32([]byte(head[8:])); int64(at) != source.ModTime.Unix() {
				t.Errorf("%s: %s is stale: it is of a source of %d, not %d", name, path, at, source.ModTime.Unix())
			}
		}
	}
	if pairs < 10 {
		t.Errorf("only %d files were compared", pairs)
	}
	t.Logf("%d compiled files are fresh", pairs)
}

// TestScripts holds what is kept of scripts, beside being installed.
func TestScripts(t *testing.T) {
	t.Parallel()
	in, got := install(t, "testdata/packages/link-scripts-0.1.0-h4616a5c_0.conda", place(t))
	if len(in.LinkScripts) != 1 || in.LinkScripts[0].Path != "bin/.link-scripts-post-link.sh" || in.LinkScripts[0].SHA256() != got.states["bin/.link-scripts-post-link.sh"].SHA256 {
		t.Errorf("link scripts: %+v", in.LinkScripts)
	}
	in, _ = install(t, "testdata/packages/noarch__small-executable-1.0-0.conda", place(t))
	if len(in.Activation) != 1 || in.Activation[0].Path != "etc/conda/activate.d/small_executable.sh" || in.Activation[0].Text == "" {
		t.Errorf("activation scripts: %+v", in.Activation)
	}
}

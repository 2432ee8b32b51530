package artifact_test

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"slipway.dev/services/conda/packages/artifact"
	"slipway.dev/services/conda/spec"
)

func write(t *testing.T, p packed) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), p.name+"-1.0-0.conda")
	if err := os.WriteFile(file, p.conda(t), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// TestHardLinks checks that names of one file stay hard links if they are installed alike.
// They become separate files if the prefix is replaced in only one of them, or if the
// linked file is not installed.
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

// TestLinks checks that links are kept, wherever they point: ocl-icd-system has one to a
// folder of the machine.
func TestLinks(t *testing.T) {
	t.Parallel()
	links := map[string]string{
		"etc/OpenCL/vendors": "/etc/OpenCL/vendors", "lib/up": "../../../etc/passwd", "lib/own": place(t).Prefix + "/lib/a", "lib/near": "a",
	}
	files, listed := []member{{name: "lib/a", content: "x", mode: 0o644}}, []string{"lib/a"}
	for name, target := range links {
		files, listed = append(files, member{name: name, link: target, typeflag: tar.TypeSymlink}), append(listed, name+"@")
	}
	in, got := install(t, write(t, packed{name: "n", files: files, info: map[string]any{"paths.json": listing(listed...)}}), place(t))
	for name, target := range links {
		if e := got.entries[name]; e.Type != tar.TypeSymlink || e.Target != target {
			t.Errorf("%s is %+v, want a link to %s", name, e, target)
		}
	}
	var out bytes.Buffer
	if err := in.WriteRecord(&out, spec.Record{Name: "n", Version: "1.0", Build: "0"}); err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256([]byte("x"))
	if n := strings.Count(out.String(), `"sha256_in_prefix":"`+hex.EncodeToString(sum[:])); n != 3 {
		t.Errorf("%d paths have the digest of lib/a, want the file and the two links to it:\n%s", n, &out)
	}
}

// TestRecordChannel checks that conda-meta has the channel's address, whatever its name.
func TestRecordChannel(t *testing.T) {
	t.Parallel()
	in, _ := install(t, write(t, packed{name: "n", info: map[string]any{"paths.json": listing()}}), place(t))
	for _, c := range []struct{ url, want string }{
		{"https://conda.anaconda.org/conda-forge/linux-64/n-1.0-0.conda", "https://conda.anaconda.org/conda-forge"}, {"", "conda-forge"},
	} {
		var out bytes.Buffer
		rec := spec.Record{Name: "n", Version: "1.0", Build: "0", Channel: "conda-forge", Subdir: "linux-64", FileName: "n-1.0-0.conda", URL: c.url}
		if err := in.WriteRecord(&out, rec); err != nil || !strings.Contains(out.String(), `"channel":"`+c.want+`"`) {
			t.Errorf("the record of %q is %v %s", c.url, err, &out)
		}
	}
}

// TestRecordOfSparseLock checks that values missing in an explicit list are read from the
// artifact, and that the channel's values are kept.
func TestRecordOfSparseLock(t *testing.T) {
	t.Parallel()
	in, _ := install(t, "testdata/packages/jsonpointer-2.4-py310h4c7bcd0_3.conda", place(t))
	of := func(rec spec.Record) (back spec.Record) {
		var out bytes.Buffer
		if err := in.WriteRecord(&out, rec); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(out.Bytes(), &back); err != nil {
			t.Fatal(err)
		}
		return back
	}
	sparse := spec.Record{Name: "jsonpointer", Version: "2.4", Build: "py310h4c7bcd0_3"}
	if got := of(sparse); len(got.Depends) != 3 || got.BuildNumber != 3 || got.License != "BSD-3-Clause" || got.Timestamp == 0 {
		t.Errorf("the record is %+v", got)
	}
	patched := sparse
	patched.Size, patched.Depends = 1, []string{"python"}
	if got := of(patched); len(got.Depends) != 1 || got.License != "" {
		t.Errorf("the channel's record became %+v", got)
	}
}

// TestCompiled checks the time and size in compiled Python against its source, as Python
// does when it loads it. In real packages none is stale.
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
				continue // checked by hash, or never
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

// TestScripts checks the recorded scripts.
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

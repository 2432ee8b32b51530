package artifact_test

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"
)

// keep is set to create testdata/rattler.json.zst.
var keep = flag.String("keep", "", "a folder to leave the artifacts in that the tests make")

// A member is an entry of a generated artifact.
type member struct {
	name, content, link string
	typeflag            byte
	mode                int64
}

// packed is a generated artifact.
type packed struct {
	name  string
	index map[string]any
	// info are the files of the info folder except index.json.
	info  map[string]any
	files []member
	// members is the number of additional zip members.
	members int
}

const placeholder = "/home/builder/feedstock/_h_env_placehold_placehold_placehold_placehold_placehold_placehold_placehold"

var builtAt = time.Date(2024, 5, 6, 7, 8, 9, 999_000_000, time.UTC)

// makeAll writes the artifacts of the cases to a folder, and returns their paths.
func makeAll(t *testing.T, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, p := range cases() {
		file := p.name + "-1.0-0.conda"
		raw := p.conda(t)
		out[file] = filepath.Join(dir, file)
		if err := os.WriteFile(out[file], raw, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return out
}

// TestWriteArtifacts writes the generated artifacts to the folder -keep, where another installer
// installs them for TestRattler.
func TestWriteArtifacts(t *testing.T) {
	t.Parallel()
	if *keep == "" {
		t.Skip("there is no -keep folder")
	}
	makeAll(t, *keep)
}

func cases() []packed {
	binary := "\x7fELF" + placeholder + "/lib:" + placeholder + "/lib64\x00next\x00" + strings.Repeat("x", 70_000) + placeholder + "\x00\x00" + placeholder
	long := "#!" + placeholder + "/bin/" + strings.Repeat("very", 40) + "/perl -w\nprint 1\n"
	return []packed{
		{name: "text", files: []member{
			{name: "bin/tool", content: "#!" + placeholder + "/bin/python -E\nprint('" + placeholder + "')\n", mode: 0o755},
			{name: "bin/long", content: long, mode: 0o755},
			{name: "etc/conf", content: strings.Repeat("root="+placeholder+"\n", 2000), mode: 0o640},
			{name: "etc/plain", content: "plain", mode: 0o644},
		}, info: map[string]any{"paths.json": listing("bin/tool:text", "bin/long:text", "etc/conf:text", "etc/plain")}},
		{name: "binary", files: []member{
			{name: "bin/elf", content: binary, mode: 0o755},
			{name: "lib/libx.so.1", content: "so", mode: 0o755},
			{name: "lib/libx.so", link: "libx.so.1", typeflag: tar.TypeSymlink},
			{name: "lib/libhard.so", link: "lib/libx.so.1", typeflag: tar.TypeLink},
			{name: "share/ünïcode/" + strings.Repeat("long", 40) + ".txt", content: "u", mode: 0o644},
		}, info: map[string]any{"paths.json": listing("bin/elf:binary", "lib/libx.so.1", "lib/libx.so@", "lib/libhard.so", "share/ünïcode/"+strings.Repeat("long", 40)+".txt")}},
		{name: "old", files: []member{
			{name: "bin/one", content: "#!/opt/anaconda1anaconda2anaconda3/bin/sh\n", mode: 0o755},
			{name: "bin/two", content: placeholder, mode: 0o755},
			{name: "bin/three", content: "\x00" + placeholder + "\x00", mode: 0o755},
			{name: "unlisted", content: "x", mode: 0o644},
		}, info: map[string]any{
			"files": "bin/one\nbin/two\nbin/three\n", "no_link": "bin/two\n",
			"has_prefix": "bin/one\n\"" + placeholder + "\" text bin/two\n" + placeholder + " binary bin/three\n",
		}},
		{name: "pure", index: map[string]any{"noarch": "python", "subdir": "noarch"}, files: []member{
			{name: "site-packages/pure/__init__.py", content: "def main(): pass\n", mode: 0o644},
			{name: "python-scripts/pure-tool", content: "#!" + placeholder + "/bin/python\n", mode: 0o755},
		}, info: map[string]any{
			"paths.json": listing("site-packages/pure/__init__.py", "python-scripts/pure-tool:text"),
			"link.json": map[string]any{"package_metadata_version": 1, "noarch": map[string]any{
				"type": "python", "entry_points": []string{"pure = pure:main", "pure-sub=pure.sub : Class.main"},
			}},
		}},
	}
}

// listing returns an info/paths.json. Its syntax is "path", "path:mode" with the
// placeholder, "path@" for a link, and "path/" for a folder.
func listing(paths ...string) map[string]any {
	list := []map[string]any{}
	for _, p := range paths {
		path, mode, _ := strings.Cut(p, ":")
		e := map[string]any{"_path": strings.TrimRight(path, "@/"), "path_type": "hardlink"}
		if mode != "" {
			e["file_mode"], e["prefix_placeholder"] = mode, placeholder
		}
		if strings.HasSuffix(path, "@") {
			e["path_type"] = "softlink"
		}
		if strings.HasSuffix(path, "/") {
			e["path_type"] = "directory"
		}
		list = append(list, e)
	}
	return map[string]any{"paths": list, "paths_version": 1}
}

// conda returns the artifact as a .conda.
func (p packed) conda(t *testing.T) []byte {
	t.Helper()
	index := map[string]any{"name": p.name, "version": "1.0", "build": "0", "build_number": 0, "depends": []string{}, "subdir": "linux-64", "timestamp": builtAt.UnixMilli()}
	for k, v := range p.index {
		index[k] = v
	}
	info := []member{{name: "info/index.json", content: text(t, index), mode: 0o644}}
	for _, name := range []string{"paths.json", "files", "has_prefix", "no_link", "link.json"} {
		if v, ok := p.info[name]; ok {
			info = append(info, member{name: "info/" + name, content: text(t, v), mode: 0o644})
		}
	}
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	stored(t, z, "metadata.json", []byte(`{"conda_pkg_format_version":2}`))
	stored(t, z, "pkg-"+p.name+"-1.0-0.tar.zst", zstandard(t, tarred(t, p.files)))
	stored(t, z, "info-"+p.name+"-1.0-0.tar.zst", zstandard(t, tarred(t, info)))
	for i := range p.members {
		stored(t, z, fmt.Sprintf("more-%d", i), nil)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func text(t *testing.T, v any) string {
	t.Helper()
	if s, ok := v.(string); ok {
		return s
	}
	raw, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

func stored(t *testing.T, z *zip.Writer, name string, content []byte) {
	t.Helper()
	n := uint64(len(content))
	w, err := z.CreateRaw(&zip.FileHeader{Name: name, Method: zip.Store, CRC32: crc32.ChecksumIEEE(content), CompressedSize64: n, UncompressedSize64: n})
	if err == nil {
		_, err = w.Write(content)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func tarred(t *testing.T, members []member) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, m := range members {
		h := &tar.Header{Name: m.name, Typeflag: m.typeflag, Linkname: m.link, Mode: m.mode, Size: int64(len(m.content)), ModTime: builtAt, Format: tar.FormatPAX}
		if h.Typeflag == 0 {
			h.Typeflag = tar.TypeReg
		}
		if err := w.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write([]byte(m.content)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func zstandard(t *testing.T, raw []byte) []byte {
	t.Helper()
	w, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	return w.EncodeAll(raw, nil)
}

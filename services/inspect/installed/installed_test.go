package installed

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"path"
	"slices"
	"strings"
	"testing"

	"context"

	"slipway.dev/services/conda/spec"
	"slipway.dev/services/internal/layertar"
	"slipway.dev/services/internal/limits"
)

// An entry is an entry of a layer: a folder if name ends in a slash, a symbolic link if link begins
// with "->", a hard link for any other link, otherwise a file.
type entry struct{ name, link, text string }

func layerOf(t testing.TB, name string, entries ...entry) layertar.Layer {
	t.Helper()
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	for _, e := range entries {
		h := &tar.Header{Name: e.name, Mode: 0o644, Size: int64(len(e.text)), Typeflag: tar.TypeReg}
		switch target, symbolic := strings.CutPrefix(e.link, "->"); {
		case strings.HasSuffix(e.name, "/"):
			h.Typeflag = tar.TypeDir
		case symbolic:
			h.Typeflag, h.Linkname = tar.TypeSymlink, target
		case e.link != "":
			h.Typeflag, h.Linkname = tar.TypeLink, e.link
		}
		_, err := w.Write(nil)
		if err = errors.Join(err, w.WriteHeader(h)); err == nil {
			_, err = io.WriteString(w, e.text)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return layertar.Layer{Name: name, Size: int64(buf.Len()), Open: func(context.Context) (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(buf.Bytes())), nil
	}}
}

func record(name, version string) string {
	return fmt.Sprintf(`{"name":%q,"version":%q,"build":"0","files":["bin/x"]}`, name, version)
}

func found(t testing.TB, layers ...layertar.Layer) (list, unreadable []string) {
	t.Helper()
	m := NewImage(NewBudget(), CondaManager())
	for _, l := range layers {
		if err := m.AddLayer(t.Context(), l); err != nil {
			t.Fatal(err)
		}
	}
	packages, unreadable := m.Packages()
	for _, p := range packages {
		list = append(list, p.Prefix()+" "+p.Name+" "+p.Version+" "+p.Layer)
	}
	return list, unreadable
}

// TestLayers checks which packages are installed after layers override and remove paths of lower ones.
func TestLayers(t *testing.T) {
	t.Parallel()
	const meta = "opt/conda/conda-meta/"
	base := layerOf(t, "base", entry{name: "opt/"}, entry{name: "./" + meta + "a-1-0.json", text: record("a", "1")}, entry{name: meta + "b-1-0.json", text: record("b", "1")},
		entry{name: "/usr/local/conda-meta/c-1-0.json", text: record("c", "1")}, entry{name: meta + "history"}, entry{name: "opt/conda/x.json", text: record("x", "1")},
		entry{name: "opt/conda/conda-meta/deep/y.json", text: record("y", "1")})
	all := []string{"/opt/conda a 1 base", "/opt/conda b 1 base", "/usr/local c 1 base"}
	for name, tc := range map[string]struct {
		upper []entry
		want  []string
	}{
		"an empty layer":                        {nil, all},
		"a newer version":                       {[]entry{{name: meta + ".wh.a-1-0.json"}, {name: meta + "a-2-0.json", text: record("a", "2")}}, []string{"/opt/conda a 2 upper", "/opt/conda b 1 base", "/usr/local c 1 base"}},
		"an overridden record":                  {[]entry{{name: meta + "a-1-0.json", text: record("a", "1")}}, []string{"/opt/conda a 1 upper", "/opt/conda b 1 base", "/usr/local c 1 base"}},
		"a removed environment":                 {[]entry{{name: "opt/.wh.conda"}}, all[2:]},
		"an opaque folder":                      {[]entry{{name: meta + "d-1-0.json", text: record("d", "1")}, {name: meta + ".wh..wh..opq"}}, []string{"/opt/conda d 1 upper", "/usr/local c 1 base"}},
		"an opaque root":                        {[]entry{{name: ".wh..wh..opq"}}, nil},
		"a record and its whiteout":             {[]entry{{name: meta + "a-1-0.json", text: record("a", "1")}, {name: meta + ".wh.a-1-0.json"}}, []string{"/opt/conda a 1 upper", "/opt/conda b 1 base", "/usr/local c 1 base"}},
		"a file replaces a folder":              {[]entry{{name: "opt/conda", text: "x"}}, all[2:]},
		"a link replaces a folder":              {[]entry{{name: "opt", link: "->/usr/local"}}, all[2:]},
		"an existing folder":                    {[]entry{{name: "opt/conda/"}, {name: "opt/conda/conda-meta/"}}, all},
		"a folder replaces a record":            {[]entry{{name: meta + "a-1-0.json/"}}, all[1:]},
		"a record twice in a layer":             {[]entry{{name: meta + "a-1-0.json", text: record("a", "7")}, {name: meta + "a-1-0.json", text: record("a", "8")}}, []string{"/opt/conda a 8 upper", "/opt/conda b 1 base", "/usr/local c 1 base"}},
		"a hard link":                           {[]entry{{name: "x/conda-meta/e.json", text: record("e", "1")}, {name: "y/conda-meta/e.json", link: "x/conda-meta/e.json"}}, append(slices.Clone(all), "/x e 1 upper", "/y e 1 upper")},
		"a path above the root":                 {[]entry{{name: "../../conda-meta/f.json", text: record("f", "1")}}, append([]string{"/ f 1 upper"}, all...)},
		"below the maximum depth":               {[]entry{{name: strings.Repeat("d/", limits.ImageRecordDepth) + "conda-meta/f.json", text: record("f", "1")}}, all},
		"at the maximum depth":                  {[]entry{{name: strings.Repeat("d/", limits.ImageRecordDepth-1) + "conda-meta/f.json", text: record("f", "1")}}, slices.Insert(slices.Clone(all), 0, "/"+strings.Repeat("d/", limits.ImageRecordDepth-2)+"d f 1 upper")},
		"an opaque folder above an environment": {[]entry{{name: "usr/.wh..wh..opq"}}, all[:2]},
		"a whiteout of a missing folder":        {[]entry{{name: "opt/mamba/.wh.conda-meta"}}, all},
	} {
		got, unreadable := found(t, base, layerOf(t, "upper", tc.upper...))
		if !slices.Equal(got, tc.want) || len(unreadable) != 0 {
			t.Errorf("%s: %q, %q, want %q", name, got, unreadable, tc.want)
		}
	}
}

// TestUnreadable checks that records that cannot be read are listed, and do not hide the others.
func TestUnreadable(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", limits.ImageRecordField+1)
	got, unreadable := found(t, layerOf(t, "l", entry{name: "c/conda-meta/a.json", text: record("a", "1")}, entry{name: "c/conda-meta/b.json", text: `{"name":"b"`},
		entry{name: "c/conda-meta/c.json", text: `{"name":"c"}`}, entry{name: "c/conda-meta/d.json", text: record("d", long)}, entry{name: "c/conda-meta/e.json", link: "->a.json"},
		entry{name: "c/conda-meta/f.json", link: "c/elsewhere.json"}, entry{name: "c/conda-meta/g.json", text: strings.Repeat(" ", limits.ImageRecord+1)},
		entry{name: "c/conda-meta/\xff.json", text: "[]"}))
	want := []string{"/c/conda-meta/b.json", "/c/conda-meta/c.json", "/c/conda-meta/d.json", "/c/conda-meta/e.json", "/c/conda-meta/f.json", "/c/conda-meta/g.json", "/c/conda-meta/\uFFFD.json"}
	if !slices.Equal(got, []string{"/c a 1 l"}) || !slices.Equal(unreadable, want) {
		t.Errorf("%q, %q", got, unreadable)
	}
}

// TestBounds checks the limits that the images of one budget share, and those of a single entry.
func TestBounds(t *testing.T) {
	t.Parallel()
	b := NewBudget()
	var half []entry
	for i := range limits.ImageRecords / 2 {
		half = append(half, entry{name: fmt.Sprintf("c/conda-meta/p%d.json", i), text: record(fmt.Sprint("p", i), "1")})
	}
	for range 2 {
		m := NewImage(b, CondaManager())
		if err := m.AddLayer(t.Context(), layerOf(t, "l", half...)); err != nil {
			t.Fatal(err)
		}
		if list, _ := m.Packages(); len(list) != len(half) {
			t.Errorf("%d packages, want %d", len(list), len(half))
		}
	}
	for name, tc := range map[string]struct {
		budget  *Budget
		entries []entry
		want    string
	}{
		"records": {b, half[:1], "records of installed packages"},
		"names": {NewBudget(), func() (list []entry) {
			text := fmt.Sprintf(`{"name":%q,"version":"1"}`, strings.Repeat("n", limits.ImageRecordField))
			for i := range limits.ImageLocks/limits.ImageRecordField + 1 {
				list = append(list, entry{name: fmt.Sprintf("c/conda-meta/p%d.json", i), text: text})
			}
			return list
		}(), "names and addresses"},
		"a path":                  {NewBudget(), []entry{{name: strings.Repeat("p", limits.ListedPath+1)}}, "path or a link"},
		"a whiteout without name": {NewBudget(), []entry{{name: "c/.wh."}}, "whiteout without a name"},
	} {
		err := NewImage(tc.budget, CondaManager()).AddLayer(t.Context(), layerOf(t, "l", tc.entries...))
		if refusal, ok := errors.AsType[*layertar.LayerError](err); !ok || !strings.Contains(refusal.Reason, tc.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestModel compares the tree with a plain list of paths, for random layers.
func TestModel(t *testing.T) {
	t.Parallel()
	for seed := range uint64(300) {
		random := rand.New(rand.NewPCG(seed, 1))
		dirs := []string{"", "a/", "a/b/", "a/conda-meta/", "conda-meta/", "a/b/conda-meta/"}
		model := map[string]string{}
		m := NewImage(NewBudget(), CondaManager())
		for layer := range 4 {
			var entries []entry
			var above = map[string]string{}
			lower := maps.Clone(model)
			under := func(files map[string]string, at string, itself bool) {
				maps.DeleteFunc(files, func(name, _ string) bool { return itself && name == at || strings.HasPrefix(name, at+"/") || at == "" })
			}
			for range 1 + random.IntN(6) {
				dir := dirs[random.IntN(len(dirs))]
				file := dir + []string{"x.json", "y.json", "b", "conda-meta"}[random.IntN(4)]
				version := fmt.Sprint(layer, ".", random.IntN(1000))
				switch random.IntN(4) {
				case 0, 1:
					entries = append(entries, entry{name: file, text: record("p", version)})
					under(lower, file, true)
					under(above, file, true)
					for d := path.Dir(file); d != "."; d = path.Dir(d) { // a file that is now a folder
						delete(above, d)
						delete(lower, d)
					}
					if conda().isRecord(file) {
						above[file] = version
					}
				case 2:
					entries = append(entries, entry{name: path.Dir(file) + "/.wh." + path.Base(file)})
					under(lower, file, true)
				case 3:
					entries = append(entries, entry{name: dir + ".wh..wh..opq"})
					under(lower, strings.TrimSuffix(dir, "/"), false)
				}
			}
			if err := m.AddLayer(t.Context(), layerOf(t, fmt.Sprint(layer), entries...)); err != nil {
				t.Fatal(err)
			}
			model = lower
			maps.Copy(model, above)
		}
		got := map[string]string{}
		m.root.walk("", func(name string, f *file) { got[name[1:]] = f.records[0].Version })
		if !maps.Equal(got, model) {
			t.Fatalf("seed %d: %v, want %v", seed, got, model)
		}
	}
}

// TestParse checks the members of a record, and that logins are removed.
func TestParse(t *testing.T) {
	t.Parallel()
	got := parseConda([]byte(`{"build":"h1_0","build_number":0,"channel":"https://ada:pw@example.org/t/tk-1/lab","license":"MIT","md5":"aa","name":"a","sha256":"bb","size":5,
		"subdir":"noarch","url":"https://example.org/t/tk-1/lab/noarch/a-1-h1_0.conda?sig=s#f","version":"1","files":[],"paths_data":{"paths":[]},"timestamp":1.5}`))
	want := Record{Name: "a", Version: "1", Build: "h1_0", Channel: "https://example.org/lab", Subdir: "noarch", License: "MIT", URL: "https://example.org/lab/noarch/a-1-h1_0.conda", MD5: "aa", SHA256: "bb", Size: 5}
	if got != want {
		t.Errorf("%+v", got)
	}
	if got := parseConda([]byte(`{"name":"a","version":"1","build_string":"0","channel":null,"license":null,"size":-1}`)); got != (Record{Name: "a", Version: "1", Build: "0"}) {
		t.Errorf("an old record: %+v", got)
	}
	for in, want := range map[string]string{
		"conda-forge": "conda-forge", "pkgs/main": "pkgs/main", "": "", "conda.anaconda.org/t/tk/lab": "conda.anaconda.org/lab", "https://conda.anaconda.org": "https://conda.anaconda.org",
		"https://h/a/t/tk/t/tk2/b": "https://h/a/b", "https://u@h/x": "https://h/x", "https://u:p@q@h/x": "https://h/x", "file:///home/a": "file:///home/a", "oci://ghcr.io/m/x": "oci://ghcr.io/m/x",
		"https://h:x/y": "", "https://u:p@h\\@e/x": "",
	} {
		if got := spec.WithoutLogin(in); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
}

// FuzzParse checks that a record is within its bounds and has no login, or is unreadable.
func FuzzParse(f *testing.F) {
	f.Add([]byte(record("a", "1")))
	f.Add([]byte(`{"name":"a","version":"1","url":"https://u:secret@h/t/secret/x?secret"}`))
	f.Add([]byte(`{"name":"a","version":"1","channel":"https://h/t/secret/x","size":1e3}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		r := parseConda(raw)
		if r.Size < 0 {
			t.Errorf("%+v", r)
		}
		for _, s := range []string{r.URL, r.Channel} {
			if scheme, rest, is := strings.Cut(s, "://"); is && (strings.Contains(strings.SplitN(rest, "/", 2)[0], "@") || strings.Contains(s, "?") || strings.Contains(rest, "/t/") && !strings.HasSuffix(rest, "/t/")) {
				t.Errorf("%q of %s", s, scheme)
			}
		}
	})
}

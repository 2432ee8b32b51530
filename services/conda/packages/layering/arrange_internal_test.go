package layering

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"slipway.dev/services/conda/packages/artifact"
	"slipway.dev/services/conda/spec"
	"slipway.dev/services/internal/fault"
)

func sized(size int64, paths ...string) Package {
	return Package{Layer: Layer{Size: size}, Paths: paths}
}

func namesOf(n int) []string {
	var out []string
	for i := range n {
		out = append(out, fmt.Sprintf("p%d", i))
	}
	return out
}

// TestArrange checks the order of layers, lowest first.
func TestArrange(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name     string
		packages []Package
		want     []int
	}{
		{"by size", []Package{sized(1, "a"), sized(3, "b"), sized(2, "c")}, []int{1, 2, 0}},
		{"equal sizes in the order of the lock", []Package{sized(1, "a"), sized(1, "b")}, []int{0, 1}},
		{"the winner of a path is above", []Package{sized(1, "a", "x"), sized(9, "x"), sized(5, "b")}, []int{2, 0, 1}},
		{"a chain of shared paths", []Package{sized(1, "x"), sized(2, "x", "y"), sized(3, "y")}, []int{0, 1, 2}},
		{"folders are shared", []Package{sized(1, "lib/a", "lib/sub/"), sized(2, "lib/b", "lib/sub/c")}, []int{1, 0}},
	} {
		p, err := arrange(namesOf(len(c.packages)), c.packages)
		if diff := cmp.Diff(c.want, p.alone); diff != "" || err != nil || p.rest != nil {
			t.Errorf("%s: %+v, %v", c.name, p, err)
		}
	}
}

// TestArrangeMany checks which packages share a layer if there are many.
func TestArrangeMany(t *testing.T) {
	t.Parallel()
	var packages []Package
	for i := range 150 {
		packages = append(packages, sized(int64(1000-i), fmt.Sprint(i)))
	}
	packages[149].Paths = []string{"149", "x"} // small, and a large package takes its path
	last := sized(5000, "x")
	packages = append(packages, last)
	p, err := arrange(namesOf(151), packages)
	if err != nil || len(p.alone) != 99 || len(p.rest) != 52 || !slices.IsSorted(p.rest) {
		t.Fatalf("%d alone, %d together: %v", len(p.alone), len(p.rest), err)
	}
	if slices.Index(p.alone, 149) < 0 || slices.Index(p.alone, 150) < slices.Index(p.alone, 149) {
		t.Errorf("the loser of a path is not below the winner: %v", p.alone)
	}
	for i := range packages { // all packages have the same path
		packages[i].Paths = append(packages[i].Paths, "tests/__init__.py")
	}
	if p, err = arrange(namesOf(151), packages); err != nil || p.alone[0] != 0 || p.rest[0] != 99 || p.rest[51] != 150 {
		t.Errorf("with a path of all, the lock's order decides: %+v, %v", p, err)
	}
}

// TestArrangeRefuses checks that a folder and a file with the same path are rejected.
func TestArrangeRefuses(t *testing.T) {
	t.Parallel()
	for _, c := range [][]Package{
		{sized(1, "lib/x"), sized(1, "lib/x/y")}, {sized(1, "lib/x/y"), sized(1, "lib/x")}, {sized(1, "lib/x/"), sized(1, "lib/x")},
	} {
		_, err := arrange([]string{"one", "two"}, c)
		if !errors.Is(err, fault.Invalid) || !strings.Contains(err.Error(), "one") || !strings.Contains(err.Error(), "two") {
			t.Errorf("%v ended with %v", c, err)
		}
	}
}

// layer writes a layer of the given files: "path=content", or "path>target" for a hard
// link.
func layer(t *testing.T, store Store, key string, c Compression, files ...string) Package {
	t.Helper()
	p, err := store.Keep(context.Background(), spec.LayerKey(key), func(out io.Writer) (Package, error) {
		b, err := newTarball(out, spec.Prefix, c.encoding(false, ""))
		if err != nil {
			return Package{}, err
		}
		for _, f := range files {
			name, target, link := strings.Cut(f, ">")
			e := artifact.Entry{Path: name, Type: tar.TypeLink, Target: target}
			name, text, _ := strings.Cut(f, "=")
			if !link {
				e = artifact.Entry{Path: name, Type: tar.TypeReg, Size: int64(len(text)), Mode: 0o644}
			}
			if err := b.Put(e, strings.NewReader(text)); err != nil {
				return Package{}, err
			}
		}
		return b.close()
	})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// TestMerge compares one layer with the three layers that it merges.
func TestMerge(t *testing.T) {
	t.Parallel()
	store, err := NewFolder(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []Compression{Gzip, Zstd, Estargz, ZstdChunked, Erofs, ErofsZstd} {
		members := []Package{
			layer(t, store, "1"+string(c), c, "lib/a=one", "lib/b>lib/a", "lib/c>lib/a", "bin/x=one"),
			layer(t, store, "2"+string(c), c, "lib/a=two", "bin/y=two", "lib/d=gone", "lib/e>lib/d"),
			layer(t, store, "3"+string(c), c, "lib/d=three", "lib/e=three", "bin/x=three"),
		}
		var out bytes.Buffer
		merged, _, err := merge(context.Background(), store, members, c.encoding(false, ""), &out)
		if err != nil {
			t.Fatal(err)
		}
		got := map[string]string{}
		raw, done, err := merged.unpacked(&out)
		if err != nil {
			t.Fatal(err)
		}
		defer done()
		for r := tar.NewReader(raw); ; {
			h, err := r.Next()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			text, _ := io.ReadAll(r)
			name := strings.TrimPrefix(h.Name, "opt/conda/")
			if _, twice := got[name]; twice {
				t.Errorf("%s occurs twice", name)
			}
			got[name] = string(text)
			if h.Typeflag == tar.TypeLink {
				got[name] = got[strings.TrimPrefix(h.Linkname, "opt/conda/")]
			}
		}
		want := map[string]string{
			"opt/": "", "opt/conda/": "", "lib/": "", "bin/": "", "lib/a": "two", "lib/b": "one", "lib/c": "one", "bin/x": "three", "bin/y": "two", "lib/d": "three", "lib/e": "three",
		}
		delete(got, "")
		want["opt/"] = got["opt/"]
		delete(want, "opt/conda/")
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c, diff)
		}
	}
}

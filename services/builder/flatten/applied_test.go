package flatten

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Names with a special meaning (layer.md, "Whiteouts").
const (
	whiteout = ".wh."
	opaque   = ".wh..wh..opq"
)

// applied is an image that was unpacked layer by layer. It is the simplest correct
// implementation, for comparison.
type applied map[string]*content

type content struct {
	*inode
	layer, touched int
}

type inode struct {
	kind    byte
	mode    int64
	content string
}

var errNotApplied = errors.New("no such layer")

func (a applied) below(path string) []string {
	return slices.DeleteFunc(slices.Collect(maps.Keys(a)), func(p string) bool { return !strings.HasPrefix(p, path+"/") && path != "" })
}

func (a applied) put(path string, h *content) {
	if old := a[path]; h.kind != tar.TypeDir || old == nil || old.kind != tar.TypeDir {
		for _, p := range a.below(path) {
			delete(a, p)
		}
	}
	a[path] = h
}

func (a applied) remove(layer int, paths ...string) {
	for _, p := range paths {
		switch h := a[p]; {
		case h == nil:
		case h.touched < layer:
			delete(a, p)
		case h.layer < layer: // but lower layers have entries below it
			h.inode = &inode{tar.TypeDir, 0o755, ""}
		}
	}
}

func (a applied) apply(layer int, h *tar.Header) error {
	path := strings.TrimSuffix(h.Name, "/")
	parts := strings.Split(path, "/")
	dir, base := strings.Join(parts[:len(parts)-1], "/"), parts[len(parts)-1]
	if base == opaque {
		a.remove(layer, a.below(dir)...)
		return nil
	}
	if name, ok := strings.CutPrefix(base, whiteout); ok {
		path = strings.TrimPrefix(dir+"/"+name, "/")
		a.remove(layer, append(a.below(path), path)...)
		return nil
	}
	made := &content{&inode{h.Typeflag, h.Mode, h.Uname + h.Linkname}, layer, layer}
	if h.Typeflag == tar.TypeLink {
		target := a[h.Linkname]
		if target == nil || target.kind == tar.TypeDir {
			return errNotApplied
		}
		made.inode = target.inode
	}
	for i := range parts[:len(parts)-1] {
		p := strings.Join(parts[:i+1], "/")
		switch up := a[p]; {
		case up == nil || up.kind != tar.TypeDir && up.layer < layer:
			a.put(p, &content{&inode{tar.TypeDir, 0o755, ""}, -1, layer})
		case up.kind != tar.TypeDir:
			return errNotApplied
		}
		a[p].touched = layer
	}
	if old := a[path]; h.Typeflag != tar.TypeLink || h.Linkname != path || old == nil {
		a.put(path, made)
	}
	return nil
}

// shown returns a line for each name, and marks names of the same file.
func (a applied) shown() []string {
	var out []string
	for path, h := range a {
		if isDevice(h.kind) {
			continue
		}
		var same []string
		for other, o := range a {
			if o.inode == h.inode {
				same = append(same, other)
			}
		}
		slices.Sort(same)
		out = append(out, fmt.Sprintf("%s %c %o %s %v", path, h.kind, h.mode, h.content, same))
	}
	slices.Sort(out)
	return out
}

// read returns the content of a tar as an image that was unpacked.
func read(t testing.TB, in io.Reader) applied {
	t.Helper()
	out := applied{}
	for r := tar.NewReader(in); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return out
		}
		if err != nil {
			t.Fatal(err)
		}
		made := &inode{h.Typeflag, h.Mode, h.Linkname}
		if text, err := io.ReadAll(r); err != nil || h.Typeflag == tar.TypeReg {
			made.content = string(text)
		}
		if h.Typeflag == tar.TypeLink {
			made = out[h.Linkname].inode
		}
		out[strings.TrimSuffix(h.Name, "/")] = &content{inode: made}
	}
}

// invent derives layers of a few names in all combinations from bytes.
func invent(choice []byte) [][]*tar.Header {
	layers := [][]*tar.Header{nil}
	next := func(n int) int {
		if len(choice) == 0 {
			return 0
		}
		c := int(choice[0]) % n
		choice = choice[1:]
		return c
	}
	path := func() string {
		p := string("ab"[next(2)])
		for range next(3) {
			p += "/" + string("cd"[next(2)])
		}
		return p
	}
	var files []string
	for k := 0; len(choice) > 0 && k < 40; k++ {
		l := &layers[len(layers)-1]
		p := path()
		up, base := split(p)
		if up != "" {
			up += "/"
		}
		switch next(9) {
		case 0, 1:
			h := dir(p)
			h.Mode = int64(0o700 + next(8))
			*l = append(*l, h)
		case 2, 3:
			*l = append(*l, file(p, fmt.Sprint("text", k)))
			files = append(files, p)
		case 4:
			if len(files) > 0 {
				*l = append(*l, hard(p, files[len(files)-1-next(len(files))]))
			}
		case 5:
			*l = append(*l, soft(p, fmt.Sprint("to", k)))
		case 6:
			*l = append(*l, gone(up+whiteout+base))
		case 7:
			*l = append(*l, gone(p+"/"+opaque))
		case 8:
			*l = append(*l, &tar.Header{Typeflag: tar.TypeChar, Name: p})
		}
		if next(3) == 0 {
			layers = append(layers, nil)
		}
	}
	return layers
}

// same compares both ways to write with the unpacked layers. It reports whether one pass
// was enough.
func same(t testing.TB, choice []byte) bool {
	t.Helper()
	layers := invent(choice)
	want := applied{}
	var raw [][]byte
	var wrong error
	for i, l := range layers {
		for _, h := range l {
			if wrong == nil {
				wrong = want.apply(i, h)
			}
		}
		raw = append(raw, archive(t, l...))
	}
	var once, twice bytes.Buffer
	two, errTwice := writeTwice(t.Context(), &twice, layersOf(raw...), Limits{})
	one, errOnce := writeOnce(t.Context(), &once, layersOf(raw...), Limits{})
	if (errTwice == nil) != (wrong == nil) {
		t.Fatalf("%v: read twice %v, want %v", layers, errTwice, wrong)
	}
	if wrong != nil {
		return false
	}
	if d := cmp.Diff(want.shown(), read(t, &twice).shown()); d != "" {
		t.Fatalf("%v, read twice: %s", layers, d)
	}
	if errors.Is(errOnce, ErrTwice) {
		return false
	}
	if d := cmp.Diff(want.shown(), read(t, &once).shown()); d != "" || errOnce != nil || one != two {
		t.Fatalf("%v, read once: %s, %v; %+v and %+v", layers, d, errOnce, one, two)
	}
	return true
}

// TestWriteAsApplied tries many images.
func TestWriteAsApplied(t *testing.T) {
	t.Parallel()
	random := rand.NewChaCha8([32]byte{7})
	enough := 0
	for range 1500 {
		choice := make([]byte, 5+random.Uint64()%60)
		_, _ = random.Read(choice)
		if same(t, choice) {
			enough++
		}
	}
	t.Logf("one reading was enough for %d", enough)
	if enough < 300 {
		t.Errorf("one reading was enough for %d of 1500", enough)
	}
}

// FuzzWriteAsApplied searches for an image that is written differently than it is unpacked.
func FuzzWriteAsApplied(f *testing.F) {
	f.Add([]byte("some layers"))
	f.Fuzz(func(t *testing.T, choice []byte) { same(t, choice) })
}

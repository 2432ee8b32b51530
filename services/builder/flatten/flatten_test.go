package flatten

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/zstd"
)

// Short constructors of entries.
func dir(name string) *tar.Header {
	return &tar.Header{Typeflag: tar.TypeDir, Name: name + "/", Mode: 0o750}
}
func hard(name, to string) *tar.Header {
	return &tar.Header{Typeflag: tar.TypeLink, Name: name, Linkname: to}
}
func soft(name, to string) *tar.Header {
	return &tar.Header{Typeflag: tar.TypeSymlink, Name: name, Linkname: to, Mode: 0o777}
}
func gone(name string) *tar.Header { return &tar.Header{Typeflag: tar.TypeReg, Name: name} }

// file holds its content in Uname, which is not written.
func file(name, text string) *tar.Header {
	return &tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o640, Uname: text, Size: int64(len(text)), ModTime: time.Unix(1e9, 0)}
}

// writing is the type of writeOnce and writeTwice.
type writing = func(context.Context, io.Writer, []Layer, Limits) (Summary, error)

func writeOnce(ctx context.Context, w io.Writer, layers []Layer, limits Limits) (Summary, error) {
	to := NewTar(w)
	s, err := Write(ctx, to, layers, limits)
	return s, errors.Join(err, to.Close())
}

func writeTwice(ctx context.Context, w io.Writer, layers []Layer, limits Limits) (Summary, error) {
	to := NewTar(w)
	s, err := WriteTwice(ctx, to, layers, limits)
	return s, errors.Join(err, to.Close())
}

func archive(t testing.TB, entries ...*tar.Header) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, h := range entries {
		h := *h
		text := h.Uname
		h.Uname = ""
		if err := w.WriteHeader(&h); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(w, text); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func zipped(t testing.TB, raw []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	if _, err := z.Write(raw); err != nil || z.Close() != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func layersOf(raw ...[]byte) []Layer {
	var out []Layer
	for i, r := range raw {
		out = append(out, Layer{Name: fmt.Sprint(i), Size: int64(len(r)), Open: func(context.Context) (io.ReadCloser, error) {
			return io.NopCloser(bytes.NewReader(r)), nil
		}})
	}
	return out
}

// shown returns the content of a tar, one line for each name, sorted. Hard links show the
// content of their target.
func shown(t testing.TB, raw []byte) []string {
	t.Helper()
	var out []string
	content := map[string]string{}
	for r := tar.NewReader(bytes.NewReader(raw)); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			slices.Sort(out)
			return out
		}
		if err != nil {
			t.Fatal(err)
		}
		line := fmt.Sprintf("%s %o", h.Name, h.Mode)
		switch h.Typeflag {
		case tar.TypeReg:
			text, err := io.ReadAll(r)
			if err != nil {
				t.Fatal(err)
			}
			content[h.Name] = string(text)
			line += " " + string(text)
		case tar.TypeLink:
			text, ok := content[h.Linkname]
			if !ok {
				t.Errorf("%s leads to %s, which is not there yet", h.Name, h.Linkname)
			}
			line = h.Name + " = " + text
		case tar.TypeSymlink:
			line = h.Name + " -> " + h.Linkname
		}
		out = append(out, line)
	}
}

func TestWrite(t *testing.T) {
	t.Parallel()
	type layer []*tar.Header
	tests := []struct {
		name   string
		twice  bool // one pass is not enough
		layers []layer
		want   []string
	}{
		{"one layer", false, []layer{{dir("a"), file("a/f", "x"), soft("s", "/a/f")}}, []string{"a/ 750", "a/f 640 x", "s -> /a/f"}},
		{"names with dots and slashes", false, []layer{{file("./a//f", "x"), file("/b", "y")}}, []string{"a/ 755", "a/f 640 x", "b 640 y"}},
		{"an upper file wins", false, []layer{{file("f", "old")}, {file("f", "new")}}, []string{"f 640 new"}},
		{"the last of one name in a layer wins", true, []layer{{file("f", "1"), file("f", "2")}}, []string{"f 640 2"}},
		{"a whiteout", false, []layer{{dir("d"), file("d/f", "x"), file("d/g", "y")}, {gone("d/.wh.f")}}, []string{"d/ 750", "d/g 640 y"}},
		{"a whiteout of a folder", false, []layer{{dir("d"), file("d/f", "x")}, {gone(".wh.d")}}, nil},
		{"a whiteout spares its own layer", false, []layer{{file("f", "old")}, {file("f", "new"), gone(".wh.f")}}, []string{"f 640 new"}},
		{"deleted and added again", false, []layer{{dir("d"), file("d/f", "x")}, {gone(".wh.d")}, {file("d/g", "y")}}, []string{"d/ 755", "d/g 640 y"}},
		{"deleted and created again in one layer", false, []layer{{dir("d"), file("d/f", "x")}, {gone(".wh.d"), dir("d"), file("d/g", "y")}}, []string{"d/ 750", "d/g 640 y"}},
		{"an opaque folder, marked last", false, []layer{{dir("d"), file("d/f", "x"), dir("d/e"), file("d/e/f", "z")}, {dir("d"), file("d/g", "y"), dir("d/e"), file("d/e/g", "w"), gone("d/.wh..wh..opq")}},
			[]string{"d/ 750", "d/e/ 750", "d/e/g 640 w", "d/g 640 y"}},
		{"an opaque folder keeps no modes", false, []layer{{dir("d"), dir("d/e")}, {gone("d/.wh..wh..opq"), file("d/e/g", "w")}}, []string{"d/ 750", "d/e/ 755", "d/e/g 640 w"}},
		{"a folder becomes a link", false, []layer{{dir("d"), file("d/f", "x")}, {soft("d", "e")}}, []string{"d -> e"}},
		{"a link becomes a folder", false, []layer{{soft("lib", "usr/lib")}, {file("lib/f", "x")}}, []string{"lib/ 755", "lib/f 640 x"}},
		{"a file becomes a folder, then a link, then a file", false, []layer{{file("p", "x")}, {dir("p"), file("p/q", "y")}, {soft("p", "z")}, {file("p", "w")}}, []string{"p 640 w"}},
		{"hard links", false, []layer{{file("a", "x"), hard("b", "a"), hard("c", "./b")}}, []string{"a 640 x", "b = x", "c = x"}},
		// The file keeps its content under its other name.
		{"the first of two hard links is replaced", true, []layer{{file("a", "old"), hard("b", "a")}, {file("a", "new")}}, []string{"a 640 new", "b 640 old"}},
		{"the first of three hard links is deleted", true, []layer{{file("a", "old"), hard("b", "a"), hard("c", "a")}, {gone(".wh.a")}}, []string{"b 640 old", "c = old"}},
		{"a hard link to a lower layer", true, []layer{{file("a", "x")}, {hard("b", "a")}}, []string{"a 640 x", "b = x"}},
		{"a hard link is replaced", false, []layer{{file("a", "x"), hard("b", "a")}, {file("b", "y")}}, []string{"a 640 x", "b 640 y"}},
		{"a hard link to a symbolic one", true, []layer{{soft("a", "x"), hard("b", "a")}, {gone(".wh.a")}}, []string{"b -> x"}},
		{"an absolute hard link stays in the image", false, []layer{{file("a", "x"), hard("b", "/a")}}, []string{"a 640 x", "b = x"}},
		{"devices are omitted, and hide lower entries", false, []layer{{file("dev/null", "x")}, {{Typeflag: tar.TypeChar, Name: "dev/null"}, hard("dev/zero", "dev/null")}}, []string{"dev/ 755"}},
		{"a pipe", false, []layer{{{Typeflag: tar.TypeFifo, Name: "p", Mode: 0o600}}}, []string{"p 600"}},
		{"the root", false, []layer{{{Typeflag: tar.TypeDir, Name: "./", Mode: 0o700}}}, []string{"./ 700"}},
		{"metadata of aufs", false, []layer{{gone(".wh..wh.plnk"), gone(".wh..wh.orph")}}, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var raw, packed [][]byte
			for _, l := range tt.layers {
				raw = append(raw, archive(t, l...))
				packed = append(packed, zipped(t, archive(t, l...)))
			}
			for way, write := range map[string]writing{"once": writeOnce, "twice": writeTwice} {
				var first, second bytes.Buffer
				one, err := write(t.Context(), &first, layersOf(raw...), Limits{})
				if way == "once" && tt.twice && errors.Is(err, ErrTwice) {
					continue
				}
				two, err2 := write(t.Context(), &second, layersOf(packed...), Limits{})
				if err != nil || err2 != nil || way == "once" && tt.twice {
					t.Fatalf("read %s: %v, %v", way, err, err2)
				}
				if d := cmp.Diff(tt.want, shown(t, first.Bytes())); d != "" {
					t.Errorf("read %s: %s", way, d)
				}
				if one != two || !bytes.Equal(first.Bytes(), second.Bytes()) {
					t.Errorf("read %s: compressed layers give other bytes: %+v, %+v", way, one, two)
				}
			}
		})
	}
}

func TestWriteRefuses(t *testing.T) {
	t.Parallel()
	bomb := &tar.Header{Typeflag: tar.TypeReg, Name: "zeros", Size: 101 << 20, Uname: strings.Repeat("\x00", 101<<20)}
	tests := []struct {
		name   string
		layer  []byte
		limits Limits
		why    string
	}{
		{"a name outside", archive(t, file("../x", "y")), Limits{}, "leads out"},
		{"a name outside, later", archive(t, file("a/b/../../../x", "y")), Limits{}, "leads out"},
		{"a hard link outside", archive(t, hard("a", "../../etc/shadow")), Limits{}, "leads out"},
		{"a hard link to a file of this machine", archive(t, hard("a", "/etc/shadow")), Limits{}, "not in the image"},
		{"a hard link to a folder", archive(t, dir("d"), hard("a", "d")), Limits{}, "to the directory"},
		{"an entry behind an absolute link", archive(t, soft("x", "/etc"), file("x/passwd", "root")), Limits{}, "not a directory"},
		{"a whiteout of the parent", archive(t, gone("d/.wh...")), Limits{}, "without a name"},
		{"a whiteout of nothing", archive(t, gone(".wh.")), Limits{}, "without a name"},
		{"a link to nowhere", archive(t, soft("x", "")), Limits{}, "without a valid target"},
		{"a long name", archive(t, file(strings.Repeat("n", 256), "")), Limits{}, "no file can have"},
		{"a root that is a file", archive(t, &tar.Header{Typeflag: tar.TypeSymlink, Name: "./", Linkname: "/"}), Limits{}, "root"},
		{"a bomb", zipped(t, archive(t, bomb)), Limits{}, "times its stored size"},
		{"too much", archive(t, file("a", strings.Repeat("x", 4000))), Limits{Bytes: 1000}, "more than"},
		{"too many", archive(t, file("a", ""), file("b", ""), file("c", "")), Limits{Entries: 2}, "more than 2 entries"},
		{"half a file", archive(t, file("a", strings.Repeat("x", 4000)))[:1000], Limits{}, "damaged"},
		{"half a stream", zipped(t, archive(t, file("a", "x")))[:40], Limits{}, "damaged"},
		{"no archive", []byte(strings.Repeat("no archive ", 100)), Limits{}, "damaged"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			_, once := writeOnce(t.Context(), io.Discard, layersOf(tt.layer), tt.limits)
			_, twice := writeTwice(t.Context(), io.Discard, layersOf(tt.layer), tt.limits)
			if errors.Is(once, ErrTwice) {
				once = twice
			}
			for _, err := range []error{once, twice} {
				var refused *Refusal
				if !errors.As(err, &refused) || !strings.Contains(refused.Reason, tt.why) || refused.Layer != "0" {
					t.Errorf("it is answered %v", err)
				}
			}
		})
	}
}

// TestWriteReadsZstd checks that a zstd layer produces the same bytes.
func TestWriteReadsZstd(t *testing.T) {
	t.Parallel()
	raw := archive(t, dir("d"), file("d/f", strings.Repeat("content ", 10_000)), hard("g", "d/f"))
	z, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	var want, got bytes.Buffer
	_, err1 := writeOnce(t.Context(), &want, layersOf(raw), Limits{})
	_, err2 := writeOnce(t.Context(), &got, layersOf(z.EncodeAll(raw, nil)), Limits{})
	if err1 != nil || err2 != nil || want.Len() < 80_000 || !bytes.Equal(want.Bytes(), got.Bytes()) {
		t.Errorf("%d bytes became %d: %v, %v", want.Len(), got.Len(), err1, err2)
	}
}

// TestWriteKeeps checks which attributes of an entry are kept.
func TestWriteKeeps(t *testing.T) {
	t.Parallel()
	h := &tar.Header{
		Typeflag: tar.TypeReg, Name: "f", Mode: 0o4755, Uid: 12, Gid: 300_000, ModTime: time.Unix(1e9, 5), Format: tar.FormatPAX,
		PAXRecords: map[string]string{"SCHILY.xattr.user.a": "1", "SCHILY.xattr.system.posix_acl_access": "2", "SCHILY.xattr.security.capability": "\x01\x00", "comment": "x"},
	}
	var b bytes.Buffer
	if _, err := writeOnce(t.Context(), &b, layersOf(archive(t, h)), Limits{}); err != nil {
		t.Fatal(err)
	}
	got, err := tar.NewReader(&b).Next()
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{"SCHILY.xattr.user.a": "1", "SCHILY.xattr.security.capability": "\x01\x00"}
	if got.Mode != 0o4755 || got.Uid != 12 || got.Gid != 300_000 || !got.ModTime.Equal(time.Unix(1e9, 0)) {
		t.Errorf("it is %+v", got)
	}
	if d := cmp.Diff(want, got.PAXRecords); d != "" {
		t.Error(d)
	}
}

// TestWriteDistinguishesErrors checks that read errors are not reported as errors of the image.
func TestWriteDistinguishesErrors(t *testing.T) {
	t.Parallel()
	plain := archive(t, file("a", strings.Repeat("x", 4000)))
	for _, broken := range []error{errors.New("the connection broke"), fmt.Errorf("shorter than was told: %w", io.EOF)} {
		for name, raw := range map[string][]byte{"plain": plain, "gzip": zipped(t, plain)} {
			// A damaged layer may only be detected after the archive, at its very end.
			for _, n := range []int{0, 20, len(raw) / 2, len(raw) - 4, len(raw)} {
				l := Layer{Name: "l", Open: func(context.Context) (io.ReadCloser, error) {
					return io.NopCloser(io.MultiReader(bytes.NewReader(raw[:n]), &failing{broken})), nil
				}}
				if _, err := writeOnce(t.Context(), io.Discard, []Layer{l}, Limits{}); !errors.Is(err, broken) || errors.As(err, new(*Refusal)) {
					t.Errorf("%s, %v after %d bytes: it is answered %v", name, broken, n, err)
				}
			}
		}
	}
}

// failing returns its error once, and then io.EOF.
type failing struct{ err error }

func (f *failing) Read([]byte) (int, error) {
	err := f.err
	f.err = io.EOF
	return 0, err
}

// FuzzWrite checks that the output can be read, has every name once, and none outside the
// root.
func FuzzWrite(f *testing.F) {
	f.Add(archive(f, dir("d"), file("d/f", "x"), hard("b", "d/f"), soft("s", "/x")), archive(f, gone(".wh.b"), gone("d/.wh..wh..opq")))
	f.Add(archive(f, file("a", "old"), hard("b", "a")), zipped(f, archive(f, file("a", "new"))))
	f.Add(archive(f, file("../a", "x")), []byte("no archive"))
	f.Fuzz(func(t *testing.T, lower, upper []byte) {
		for _, write := range []writing{writeOnce, writeTwice} {
			var b bytes.Buffer
			if _, err := write(t.Context(), &b, layersOf(lower, upper), Limits{Bytes: 1 << 20, Entries: 1000}); err == nil {
				sound(t, &b)
			}
		}
	})
}

func sound(t *testing.T, in io.Reader) {
	seen := map[string]bool{}
	for r := tar.NewReader(in); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		name := strings.TrimSuffix(h.Name, "/")
		if seen[name] || strings.HasPrefix(name, "/") || slices.Contains(strings.Split(name, "/"), "..") || name == "" {
			t.Fatalf("it holds %q", h.Name)
		}
		if h.Typeflag == tar.TypeLink && !seen[h.Linkname] {
			t.Fatalf("%q leads to %q, which was not written", h.Name, h.Linkname)
		}
		seen[name] = true
	}
}

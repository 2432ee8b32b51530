package squashfs_test

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"slipway.dev/services/builder/squashfs"
)

// item is an entry with its content.
type item struct {
	tar.Header
	content string
}

func file(name, content string) item {
	return item{tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o644, Size: int64(len(content)), ModTime: time.Unix(1e9, 0)}, content}
}

func other(kind byte, name, to string) item {
	return item{tar.Header{Typeflag: kind, Name: name, Linkname: to, Mode: 0o755, ModTime: time.Unix(1e9, 0)}, ""}
}

// noise returns incompressible content that only depends on the seed.
func noise(seed uint64, n int) string {
	out, r := make([]byte, n), rand.NewChaCha8([32]byte{byte(seed), byte(seed >> 8)})
	_, _ = r.Read(out)
	return string(out)
}

// image writes items to a file and returns its path.
func image(t testing.TB, o options, items ...item) (string, error) {
	t.Helper()
	f, err := os.CreateTemp(t.TempDir(), "*.squashfs")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	size, err := write(t.Context(), t, f, o, adding(items...))
	if info, statErr := f.Stat(); err == nil && (statErr != nil || info.Size() != size) {
		t.Errorf("the file is %d bytes long, not %d", info.Size(), size)
	}
	return f.Name(), err
}

func adding(items ...item) func(entries) error {
	return func(add entries) error {
		for _, i := range items {
			if err := add(&i.Header, strings.NewReader(i.content)); err != nil {
				return err
			}
		}
		return nil
	}
}

// thingsIn reads the content of an image.
func thingsIn(t testing.TB, path string) map[string]thing {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	all, err := read(raw)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// things writes items and reads them back.
func things(t testing.TB, o options, items ...item) map[string]thing {
	t.Helper()
	path, err := image(t, o, items...)
	if err != nil {
		t.Fatal(err)
	}
	return thingsIn(t, path)
}

// variety returns entries of every type.
func variety() []item {
	set := other(tar.TypeDir, "set/", "")
	set.Mode, set.Uid, set.Gid = 0o2750, 1000, 70000
	set.PAXRecords = map[string]string{"SCHILY.xattr.user.note": "of a folder"}
	caps := file("bin/ping", noise(1, 300_000))
	caps.Mode, caps.PAXRecords = 0o4755, map[string]string{"SCHILY.xattr.security.capability": "\x01\x00\x00\x02\x00\x20\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00", "SCHILY.xattr.user.empty": ""}
	same := file("bin/zing", noise(1, 300_000))
	same.PAXRecords = caps.PAXRecords
	null := other(tar.TypeChar, "dev/null", "")
	null.Devmajor, null.Devminor = 1, 3
	disk := other(tar.TypeBlock, "dev/disk", "")
	disk.Devmajor, disk.Devminor = 259, 70000
	return []item{
		caps, same, set, null, disk,
		file("empty", ""), file("one", "1"), file("also/one", "1"), file("a block", noise(2, 128<<10)), file("text", strings.Repeat("all work and no play ", 50_000)),
		file("hole", strings.Repeat("\x00", 512<<10)), file("holes", strings.Repeat("\x00", 256<<10)+"x"+strings.Repeat("\x00", 300<<10)),
		other(tar.TypeLink, "bin/pong", "bin/ping"), other(tar.TypeLink, "a-first", "./bin//ping"),
		other(tar.TypeSymlink, "lib", "usr/lib"), other(tar.TypeLink, "lib2", "lib"), other(tar.TypeFifo, "pipe", ""),
		file(strings.Repeat("d/", 1500)+"deep", "down"), file(strings.Repeat("n", 255), "long"), other(tar.TypeDir, "nothing/", ""),
		file("late/in/a", "b"), other(tar.TypeDir, "late/", ""),
	}
}

// wanted returns the expected content of an image of the items, by the rules of tar.
func wanted(items []item) map[string]thing {
	out := map[string]*thing{"": {Kind: 1, Mode: 0o755, Links: 2}}
	var add func(path string, n *thing)
	add = func(path string, n *thing) {
		dir := path[:strings.LastIndexByte(path, '/')]
		if out[dir] == nil {
			add(dir, &thing{Kind: 1, Mode: 0o755, Links: 2})
		}
		switch old := out[path]; {
		case old == nil && n.Kind == 1:
			out[dir].Links++
		case n.Kind == 1:
			n.Links = old.Links
		case old != nil:
			old.Links--
		}
		out[path] = n
		if n.Kind != 1 {
			n.Links++
		}
	}
	for _, i := range items {
		path := filepath.Clean("/" + i.Name)
		if path == "/" {
			path = ""
		}
		if i.Typeflag == tar.TypeLink {
			if to := out[filepath.Clean("/"+i.Linkname)]; to != out[path] {
				add(path, to)
			}
			continue
		}
		n := &thing{
			Kind: map[byte]uint16{tar.TypeDir: 1, tar.TypeReg: 2, tar.TypeSymlink: 3, tar.TypeBlock: 4, tar.TypeChar: 5, tar.TypeFifo: 6}[i.Typeflag],
			Mode: uint32(i.Mode), UID: uint32(i.Uid), GID: uint32(i.Gid), Mtime: uint32(max(i.ModTime.Unix(), 0)), Size: uint64(i.Size), Content: i.content,
		}
		switch n.Kind {
		case 1:
			n.Links = 2
		case 3:
			n.Target, n.Mode = i.Linkname, 0o777
		case 4, 5:
			n.Device = uint32(i.Devminor&0xff | i.Devmajor<<8 | i.Devminor&^0xff<<12)
		}
		for key, value := range i.PAXRecords {
			if n.Attributes == nil {
				n.Attributes = map[string]string{}
			}
			n.Attributes[strings.TrimPrefix(key, "SCHILY.xattr.")] = value
		}
		if path == "" {
			n.Links = out[""].Links
			out[""] = n
			continue
		}
		add(path, n)
	}
	all := map[string]thing{}
	for path, n := range out {
		all[path] = *n
	}
	return all
}

// zeros is an endless content.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

// FuzzWrite writes random trees with arbitrary names and reads them back.
func FuzzWrite(f *testing.F) {
	f.Add([]byte("fa\x00fa/b\x01dc\x00la/d\x00sx\x20"), uint8(3))
	f.Add([]byte("f../x\x00"), uint8(0))
	f.Add([]byte("fd/e\xffld/g\x02dd\x00pd/p\x01fd/e\x05"), uint8(2))
	f.Fuzz(func(t *testing.T, script []byte, workers uint8) {
		var items []item
		for line := range bytes.SplitSeq(script, []byte{'\n'}) {
			if i, ok := scripted(line); ok && len(items) < 200 {
				items = append(items, i)
			}
		}
		// Rejected entries are omitted, and must leave no trace.
		var kept []item
		path := filepath.Join(t.TempDir(), "x")
		out, err := os.Create(path)
		if err != nil {
			t.Fatal(err)
		}
		defer out.Close()
		_, err = write(t.Context(), t, out, options{Workers: int(workers % 4)}, func(add entries) error {
			for _, i := range items {
				err := add(&i.Header, strings.NewReader(i.content))
				if errors.As(err, new(*squashfs.Refusal)) {
					return err
				}
				if err != nil {
					t.Fatal(err)
				}
				kept = append(kept, i)
			}
			return nil
		})
		if errors.As(err, new(*squashfs.Refusal)) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		all := thingsIn(t, path)
		if diff := cmp.Diff(wanted(kept), without(all)); diff != "" {
			t.Errorf("%.3000s", diff)
		}
	})
}

// scripted parses an entry: a letter for the type, a name, and a byte for the rest.
func scripted(line []byte) (item, bool) {
	if len(line) < 3 {
		return item{}, false
	}
	name, n := string(line[1:len(line)-1]), int(line[len(line)-1])
	var i item
	switch line[0] {
	case 'f':
		i = file(name, noise(uint64(n%16), n*n*9))
	case 'z':
		i = file(name, strings.Repeat("\x00", n<<11)+noise(uint64(n), n%3))
	case 'd':
		i = other(tar.TypeDir, name, "")
	case 'l':
		to, from, _ := strings.Cut(name, "=")
		i = other(tar.TypeLink, from, to)
	case 's':
		i = other(tar.TypeSymlink, name, name)
	case 'p':
		i = other(tar.TypeFifo, name, "")
	case 'c':
		i = other(tar.TypeChar, name, "")
		i.Devmajor, i.Devminor = int64(n), int64(n*n)
	default:
		return item{}, false
	}
	i.Uid, i.Mode = n%5*1000, int64(n)<<3&0o7777
	if n%3 == 0 && i.Typeflag != tar.TypeLink {
		i.PAXRecords = map[string]string{"SCHILY.xattr.user.n": name, "SCHILY.xattr.trusted.n": fmt.Sprint(n)}
	}
	return i, true
}

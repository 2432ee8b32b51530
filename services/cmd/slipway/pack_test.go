package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"
)

// grow creates the same tree with different orders of entries, times and hard links.
func grow(t *testing.T, dir string, reverse bool, when time.Time) {
	t.Helper()
	steps := []func() error{
		func() error { return os.WriteFile(filepath.Join(dir, "a.txt"), []byte("alpha"), 0o600) },
		func() error { return os.WriteFile(filepath.Join(dir, "a", "run"), []byte("#!/bin/sh\n"), 0o600) },
		func() error { return os.WriteFile(filepath.Join(dir, "a", strings.Repeat("l", 120)), nil, 0o600) },
		func() error { return os.Symlink("../nowhere/here", filepath.Join(dir, "a", "link")) },
		func() error { return os.Mkdir(filepath.Join(dir, "b"), 0o700) },
	}
	must(t, os.Mkdir(filepath.Join(dir, "a"), 0o700))
	for i := range steps {
		if reverse {
			i = len(steps) - 1 - i
		}
		must(t, steps[i]())
	}
	if reverse {
		must(t, os.WriteFile(filepath.Join(dir, "c"), []byte("alpha"), 0o600))
	} else {
		must(t, os.Link(filepath.Join(dir, "a.txt"), filepath.Join(dir, "c")))
	}
	for name, mode := range map[string]os.FileMode{"a.txt": 0o640, "c": 0o640, "a/run": 0o755 | os.ModeSetuid, "b": 0o777 | os.ModeSticky, "a": 0o750} {
		must(t, os.Chmod(filepath.Join(dir, name), mode))
		must(t, os.Chtimes(filepath.Join(dir, name), when, when))
	}
}

func TestDirectoryLayer(t *testing.T) {
	t.Parallel()
	one, two := t.TempDir(), filepath.Join(t.TempDir(), "elsewhere")
	must(t, os.Mkdir(two, 0o711))
	grow(t, one, false, time.Now())
	grow(t, two, true, time.Date(2001, 2, 3, 4, 5, 6, 7, time.UTC))
	alias := filepath.Join(t.TempDir(), "alias")
	must(t, os.Symlink(two, alias))
	layers := request(t, one, two, alias)
	if layers[0] != layers[1] || layers[1] != layers[2] {
		t.Errorf("the same tree made different layers: %+v", layers)
	}
	plain := unpack(t, layers[0])
	want := []string{
		"5 a/ 750", "2 a/link 777 ../nowhere/here", "0 a/" + strings.Repeat("l", 120) + " 600", "0 a/run 4755 #!/bin/sh",
		"0 a.txt 640 alpha", "5 b/ 1777", "0 c 640 alpha",
	}
	if got := entries(t, plain); !reflect.DeepEqual(got, want) {
		t.Errorf("got entries\n%q\nwant\n%q", got, want)
	}
}

// unpack verifies the digests of a layer and returns its tar.
func unpack(t *testing.T, l sentLayer) []byte {
	t.Helper()
	packed, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(l.Location, "data:"))
	must(t, err)
	zr, err := gzip.NewReader(bytes.NewReader(packed))
	must(t, err)
	if !reflect.DeepEqual(zr.Header, gzip.Header{OS: 255}) {
		t.Errorf("gzip header %+v tells where it was made", zr.Header)
	}
	plain, err := io.ReadAll(zr)
	must(t, err)
	want := sentLayer{l.Location, sha(packed), strconv.Itoa(len(packed)), sha(plain)}
	if l != want {
		t.Errorf("sent %+v, want %+v", l, want)
	}
	return plain
}

// entries lists a tar: type, name, mode, and content or target.
func entries(t *testing.T, plain []byte) []string {
	t.Helper()
	var list []string
	for tr := tar.NewReader(bytes.NewReader(plain)); ; {
		h, err := tr.Next()
		if errors.Is(err, io.EOF) {
			return list
		}
		must(t, err)
		if h.Uid != 0 || h.Gid != 0 || h.Uname != "" || h.Gname != "" || !h.ModTime.Equal(time.Unix(0, 0)) {
			t.Errorf("%s has an owner or a time: %+v", h.Name, h)
		}
		content, err := io.ReadAll(tr)
		must(t, err)
		list = append(list, strings.TrimSpace(fmt.Sprintf("%c %s %o %s", h.Typeflag, h.Name, h.Mode, h.Linkname+string(content))))
	}
}

func TestPackingIsInterrupted(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	must(t, os.WriteFile(filepath.Join(dir, "file"), nil, 0o600))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if got := slipway(ctx, nil, "image", "ubuntu", "--layer", dir); got.code != 1 || !strings.Contains(got.errs, "context canceled") {
		t.Errorf("got %+v", got)
	}
}

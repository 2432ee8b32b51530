package layering

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"

	"slipway.dev/services/conda/packages/artifact"
	"slipway.dev/services/conda/spec"
	"slipway.dev/services/internal/fault"
)

// TestNothingIsWrittenThroughLinks checks that no path can be below a link, in either order
// of entries, since links may point anywhere.
func TestNothingIsWrittenThroughLinks(t *testing.T) {
	t.Parallel()
	link := artifact.Entry{Path: "etc/l", Type: tar.TypeSymlink, Target: "/etc", Mode: 0o777}
	for _, below := range []artifact.Entry{
		{Path: "etc/l/passwd", Type: tar.TypeReg, Mode: 0o644}, {Path: "etc/l/a/b", Type: tar.TypeSymlink, Target: "x"}, {Path: "etc/l/d", Type: tar.TypeDir},
		{Path: "etc/l", Type: tar.TypeDir}, {Path: "etc/l", Type: tar.TypeReg}, {Path: "etc/l/h", Type: tar.TypeLink, Target: "x"},
	} {
		for _, both := range [][]artifact.Entry{{link, below}, {below, link}} {
			out, err := newTarball(io.Discard, spec.Prefix, Gzip.encoding(false, ""))
			if err != nil {
				t.Fatal(err)
			}
			err = out.Put(both[0], bytes.NewReader(nil))
			if err == nil {
				err = out.Put(both[1], bytes.NewReader(nil))
			}
			if !errors.Is(err, fault.Invalid) {
				t.Errorf("%s, then %s: %v", both[0].Path, both[1].Path, err)
			}
		}
	}
}

// TestWhiteouts checks that a package cannot contain the entries with which a layer deletes
// files of lower layers.
func TestWhiteouts(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name     string
		typeflag byte
		refused  bool
	}{
		{"bin/.wh.python", tar.TypeReg, true},
		{".wh.lib", tar.TypeReg, true},
		{"lib/.wh..wh..opq", tar.TypeReg, true},
		{"lib/.wh..wh.plnk", tar.TypeDir, true},
		{".wh.lib/libz.so", tar.TypeReg, true},
		{"share/.wh.x/y/z", tar.TypeSymlink, true},
		{"bin/.wh.link", tar.TypeLink, true},
		{"bin/.whoami", tar.TypeReg, false},
		{"share/a.wh.b", tar.TypeReg, false},
	} {
		out, err := newTarball(io.Discard, spec.Prefix, Gzip.encoding(false, ""))
		if err != nil {
			t.Fatal(err)
		}
		err = out.Put(artifact.Entry{Path: c.name, Type: c.typeflag, Target: "x"}, bytes.NewReader(nil))
		if errors.Is(err, fault.Invalid) != c.refused || !c.refused && err != nil || c.refused && !strings.Contains(err.Error(), "begins with .wh.") {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

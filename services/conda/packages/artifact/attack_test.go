package artifact_test

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"slipway.dev/services/conda/packages/artifact"
	"slipway.dev/services/internal/fault"
)

// outcome returns the error of installing an artifact with these bytes.
func outcome(t *testing.T, name string, raw []byte) error {
	t.Helper()
	a, err := artifact.Open(context.Background(), bytes.NewReader(raw), int64(len(raw)), name)
	if err != nil {
		return err
	}
	_, err = a.Install(context.Background(), place(t), newTree())
	return err
}

// TestRefused checks that hostile artifacts are rejected, and the reasons.
func TestRefused(t *testing.T) {
	t.Parallel()
	file := func(name string) member { return member{name: name, content: "x", mode: 0o644} }
	symlink := func(name, to string) member { return member{name: name, link: to, typeflag: tar.TypeSymlink} }
	for _, c := range []struct {
		name   string
		files  []member
		listed []string
		info   map[string]any
		why    string
	}{
		{name: "absolute", files: []member{file("/etc/passwd")}, why: `the path "/etc/passwd" leads out`},
		{name: "parent", files: []member{file("lib/../../x")}, why: "leads out of the package"},
		{name: "nameless", files: []member{file("a" + strings.Repeat("/a", 2500))}, why: "without a proper name"},
		{name: "device", files: []member{{name: "dev", typeflag: tar.TypeChar}}, why: `"dev" is neither a file, a folder nor a link`},
		{name: "pipe", files: []member{{name: "pipe", typeflag: tar.TypeFifo}}, why: "neither a file"},
		{name: "long link", files: []member{symlink("l", "/"+strings.Repeat("a", 5000))}, listed: []string{"l@"}, why: "no proper target"},
		{name: "link empty", files: []member{symlink("l", "")}, listed: []string{"l@"}, why: "no proper target"},
		{name: "hard link", files: []member{{name: "h", link: "gone", typeflag: tar.TypeLink}}, listed: []string{"h"}, why: "which is not an earlier file"},
		{name: "hard link out", files: []member{{name: "h", link: "../x", typeflag: tar.TypeLink}}, listed: []string{"h"}, why: "leads out of the package"},
		{name: "bomb", files: []member{{name: "zeros", content: strings.Repeat("\x00", 80<<20), mode: 0o644}}, why: "more than 200 times as long"},
		{name: "copies", files: copies(20, strings.Repeat("0123456789", 1<<20)), listed: copied(20), why: "more than 200 times as long"},
		{
			name: "growing", files: []member{{name: "a", content: strings.Repeat("a", 40<<20), mode: 0o644}}, why: "more than 200 times as long",
			info: map[string]any{"paths.json": map[string]any{"paths": []any{map[string]any{"_path": "a", "path_type": "hardlink", "file_mode": "text", "prefix_placeholder": "a"}}}},
		},
		{name: "missing", listed: []string{"gone"}, why: `it lists "gone" and does not have it`},
		{name: "twice", files: []member{file("a"), file("./a")}, listed: []string{"a"}, why: `"a" occurs twice`},
		{name: "listed twice", listed: []string{"a", "./a"}, why: `"a" is listed twice`},
		{name: "listed outside", listed: []string{"../a"}, why: "leads out of the package"},
		{name: "nothing listed", info: map[string]any{}, why: "neither info/paths.json nor info/files"},
		{name: "no JSON", info: map[string]any{"paths.json": "[]"}, why: "info/paths.json: it is malformed"},
		{name: "long value", info: map[string]any{"paths.json": `{"x":"` + strings.Repeat("y", 9<<20) + `"}`}, why: "a value is longer than 4 MiB"},
		{name: "long link.json", info: map[string]any{"paths.json": listing(), "link.json": strings.Repeat(" ", 5<<20)}, why: "info/link.json: it is longer than 4 MiB"},
		{name: "entry point", info: map[string]any{"paths.json": listing(), "link.json": `{"noarch":{"type":"python","entry_points":["../x = a:b"]}}`}, why: "the entry point"},
		{name: "program in an entry point", info: map[string]any{"paths.json": listing(), "link.json": `{"noarch":{"type":"python","entry_points":["x = a:b; import c"]}}`}, why: "the entry point"},
		{name: "short placeholder", files: []member{file("b")}, info: map[string]any{"files": "b\n", "has_prefix": "/p binary b\n"}, why: "longer than the one in a binary file"},
		{name: "open quote", info: map[string]any{"files": "b\n", "has_prefix": `"/p binary b`}, why: "info/has_prefix: a quote does not end"},
		{name: "long script", files: []member{{name: "bin/.n-post-link.sh", content: noise(300 << 10), mode: 0o755}}, listed: []string{"bin/.n-post-link.sh"}, why: "longer than 256 KiB"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			p := packed{name: "n", files: c.files, info: c.info}
			if p.info == nil {
				p.info = map[string]any{"paths.json": listing(c.listed...)}
			}
			err := outcome(t, "n-1.0-0.conda", p.conda(t))
			f, ok := fault.As(err)
			if !ok || !errors.Is(err, fault.Invalid) || !strings.Contains(f.Public, c.why) || !strings.HasPrefix(f.Public, `"n-1.0-0.conda" cannot be installed: `) {
				t.Errorf("it ended with %v, not %q", err, c.why)
			}
		})
	}
}

// copies returns a file and hard links to it that become separate files, because they are
// listed with a placeholder.
func copies(n int, content string) []member {
	out := []member{{name: "a", content: content, mode: 0o644}}
	for i := range n {
		out = append(out, member{name: fmt.Sprintf("l%d", i), link: "a", typeflag: tar.TypeLink})
	}
	return out
}

// copied lists the members of copies.
func copied(n int) []string {
	out := []string{"a"}
	for i := range n {
		out = append(out, fmt.Sprintf("l%d:text", i))
	}
	return out
}

// noise returns a text that does not compress by a factor of 200.
func noise(n int) string {
	var b strings.Builder
	for i := uint32(1); b.Len() < n; i = i*1664525 + 1013904223 {
		b.WriteByte(' ' + byte(i>>24)%90)
	}
	return b.String()
}

// TestBroken checks truncated artifacts and files that are not artifacts.
func TestBroken(t *testing.T) {
	t.Parallel()
	whole := packed{name: "n", files: []member{{name: "a", content: noise(5000), mode: 0o644}}, info: map[string]any{"paths.json": listing("a")}}.conda(t)
	changed := bytes.Clone(whole)
	for i := 200; i < 400; i++ {
		changed[i] ^= 0x55
	}
	for name, raw := range map[string][]byte{
		"cut-1.0-0.conda": whole[:len(whole)/2], "empty-1.0-0.conda": {}, "changed-1.0-0.conda": changed,
		"zip-1.0-0.tar.bz2": whole, "other-1.0-0.zip": whole,
	} {
		if err := outcome(t, name, raw); !errors.Is(err, fault.Invalid) {
			t.Errorf("%s ended with %v", name, err)
		}
	}
}

// TestLongDirectory checks a zip whose directory would exhaust the memory.
func TestLongDirectory(t *testing.T) {
	t.Parallel()
	p := packed{name: "n", info: map[string]any{"paths.json": listing()}, members: 40_000}
	if err := outcome(t, "n-1.0-0.conda", p.conda(t)); !errors.Is(err, fault.Invalid) || !strings.Contains(err.Error(), "a directory of more than a MiB") {
		t.Errorf("it ended with %v", err)
	}
}

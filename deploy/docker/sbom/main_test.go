package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
)

// TestDescribe describes the test binary and two Debian packages twice.
func TestDescribe(t *testing.T) {
	t.Setenv("SOURCE_DATE_EPOCH", "1700000000")
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	program, err := os.ReadFile(self)
	if err != nil {
		t.Fatal(err)
	}
	root, list := t.TempDir(), filepath.Join(t.TempDir(), "debian.txt")
	write := func(path string, content []byte) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, content, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	write(filepath.Join(root, "usr/bin/program"), program)
	write(filepath.Join(root, "etc/passwd"), []byte("slipway:x:1:1::/:\n"))
	write(list, []byte("aa  ca-certificates_20250419~deb12u2_all.deb\nbb  libpam0g_1%3a1.5.2-6_amd64.deb\n"))
	names := func() []string {
		doc, err := describe("image", "1.0", root, list)
		if err != nil {
			t.Fatal(err)
		}
		again, err := describe("image", "1.0", root, list)
		if err != nil {
			t.Fatal(err)
		}
		a, _ := json.Marshal(doc)
		if b, _ := json.Marshal(again); string(a) != string(b) {
			t.Error("equal images give different documents")
		}
		if doc.Creation.Created != "2023-11-14T22:13:20Z" {
			t.Errorf("created %s", doc.Creation.Created)
		}
		var out []string
		for _, p := range doc.Packages {
			out = append(out, p.Refs[0].Locator)
		}
		return out
	}
	got := names()
	for _, want := range []string{"pkg:oci/image@1.0", "pkg:golang/stdlib@" + runtime.Version(), "pkg:deb/debian/ca-certificates@20250419~deb12u2?arch=all&distro=bookworm"} {
		if !slices.Contains(got, want) {
			t.Errorf("%s is not in %q", want, got)
		}
	}
	if strings.Contains(strings.Join(got, " "), "libpam0g") {
		t.Error("a static image has no libraries")
	}
	write(filepath.Join(root, "usr/bin/newuidmap"), []byte("a program\n"))
	if got = names(); !slices.Contains(got, "pkg:deb/debian/libpam0g@1:1.5.2-6?arch=amd64&distro=bookworm") {
		t.Errorf("the library is not in %q", got)
	}
	write(list, []byte("nonsense\n"))
	if _, err := describe("image", "1.0", root, list); err == nil {
		t.Error("an invalid list was accepted")
	}
}

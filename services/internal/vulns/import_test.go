package vulns_test

import (
	"archive/zip"
	"bytes"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"slipway.dev/services/internal/limits"
	"slipway.dev/services/internal/vulns"
)

// TestHostileArchives checks that archives that are damaged or too large leave no file, and that single invalid records
// are left out.
func TestHostileArchives(t *testing.T) {
	t.Parallel()
	good := osv("CVE-1", "", pkg("PyPI", "a", "0", "2"))
	many := make([]string, 20)
	for i := range many {
		many[i] = osv(fmt.Sprintf("CVE-%d", i), "", pkg("PyPI", "a", "0", "2"))
	}
	for name, c := range map[string]struct {
		change func(raw []byte) []byte
		list   []string
		want   string
	}{
		"half a file":          {func(raw []byte) []byte { return raw[:len(raw)/2] }, many, "not a valid zip"},
		"empty":                {func([]byte) []byte { return nil }, many, "not a valid zip"},
		"no zip":               {func([]byte) []byte { return bytes.Repeat([]byte("x"), 10000) }, many, "not a valid zip"},
		"damaged record":       {func(raw []byte) []byte { raw[100] ^= 0xff; return raw }, many, "cannot be read"},
		"no records":           {nil, nil, "no records"},
		"only invalid records": {nil, []string{"{", "[]", good}, "2 invalid records of 3"},
	} {
		dir := t.TempDir()
		at := write(t, dir, "PyPI", c.list...)
		if c.change != nil {
			raw, err := os.ReadFile(at)
			if err == nil {
				err = os.WriteFile(at, c.change(raw), 0o600)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		to := filepath.Join(dir, "x.db")
		_, err := vulns.Import(t.Context(), to, []vulns.Archive{{Ecosystem: "PyPI", Path: at}})
		if _, ok := errors.AsType[*vulns.DamagedError](err); !ok || !strings.Contains(err.Error(), "PyPI "+c.want) && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
		}
		if open := openFiles(t, dir); len(open) > 0 {
			t.Errorf("%s: %q stay open", name, open)
		}
		if left, err := filepath.Glob(to + "*"); err != nil || len(left) > 0 {
			t.Errorf("%s: %v, %q is left", name, err, left)
		}
	}
	for name, bad := range map[string]string{
		"too large":       osv("CVE-x", `"details":"`+strings.Repeat("x", limits.ScanRecord)+`"`, pkg("PyPI", "a", "0", "")),
		"too deep":        osv("CVE-x", `"x":`+strings.Repeat("[", 100)+strings.Repeat("]", 100), pkg("PyPI", "a", "0", "")),
		"no time":         `{"id":"CVE-x","affected":[` + pkg("PyPI", "a", "0", "") + `]}`,
		"no id":           osv("", "", pkg("PyPI", "a", "0", "")),
		"control in id":   osv("CVE-\x1b", "", pkg("PyPI", "a", "0", "")),
		"no name":         osv("CVE-x", "", pkg("PyPI", "", "0", "")),
		"long name":       osv("CVE-x", "", pkg("PyPI", strings.Repeat("a", limits.ScanName+1), "0", "")),
		"long version":    osv("CVE-x", "", pkg("PyPI", "a", "0", strings.Repeat("1", limits.ScanVersion+1))),
		"many versions":   osv("CVE-x", "", `{"package":{"ecosystem":"PyPI","name":"a"},"versions":[`+strings.Repeat(`"1",`, limits.ScanSpans)+`"2"]}`),
		"many packages":   osv("CVE-x", "", strings.Repeat(pkg("PyPI", "a", "0", "")+",", limits.ScanPackages)+pkg("PyPI", "a", "0", "")),
		"another type":    `{"id":["CVE-x"],"modified":"2026-01-01T00:00:00Z"}`,
		"invalid aliases": osv("CVE-x", `"aliases":[`+strings.Repeat(`"a",`, limits.ScanAliases)+`"a"]`, pkg("PyPI", "a", "0", "")),
	} {
		dir := t.TempDir()
		at := write(t, dir, "PyPI", append([]string{bad}, many...)...)
		to := filepath.Join(dir, "x.db")
		s, err := vulns.Import(t.Context(), to, []vulns.Archive{{Ecosystem: "PyPI", Path: at}})
		if err != nil || s.Records != len(many) || s.Skipped != 1 || s.Problem == "" {
			t.Errorf("%s: %v, %+v", name, err, s)
		}
	}
}

// openFiles returns the open files of this process below a folder.
func openFiles(t *testing.T, dir string) []string {
	t.Helper()
	list, err := filepath.Glob("/proc/self/fd/*")
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, fd := range list {
		if at, err := os.Readlink(fd); err == nil && strings.HasPrefix(at, dir+"/") {
			out = append(out, at)
		}
	}
	return out
}

// TestManyEntries checks that a directory that is larger than the limit is not read.
func TestManyEntries(t *testing.T) {
	t.Parallel()
	at := filepath.Join(t.TempDir(), "a.zip")
	f, err := os.Create(at)
	if err != nil {
		t.Fatal(err)
	}
	z := zip.NewWriter(f)
	// The names fill the directory with little to write otherwise.
	for i := range limits.ScanDirectory/60000 + 1 {
		h := &zip.FileHeader{Name: fmt.Sprint(i), Extra: append([]byte{0xfe, 0xca, 0x60, 0xea}, make([]byte, 60000)...), Method: zip.Store, CRC32: crc32.ChecksumIEEE(nil)}
		if _, err := z.CreateRaw(h); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(z.Close(), f.Close()); err != nil {
		t.Fatal(err)
	}
	if _, err := vulns.Import(t.Context(), at+".db", []vulns.Archive{{Ecosystem: "PyPI", Path: at}}); err == nil || !strings.Contains(err.Error(), "directory is too large") {
		t.Error(err)
	}
}

// TestVersion checks that equal archives give equal versions.
func TestVersion(t *testing.T) {
	t.Parallel()
	a, b := imported(t, world()), imported(t, world())
	if a.Version() != b.Version() || len(a.Version()) != 64 || a.Time().Format("2006-01-02") != "2026-11-20" || a.Records() < 10 {
		t.Errorf("%s and %s, %v, %d records", a.Version(), b.Version(), a.Time(), a.Records())
	}
	other := world()
	delete(other, "npm")
	if c := imported(t, other); c.Version() == a.Version() {
		t.Error("a database of other archives has the same version")
	}
	at := filepath.Join(t.TempDir(), "x.db")
	for _, text := range []string{"", "no database"} {
		if err := os.WriteFile(at, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if db, err := vulns.Open(at); err == nil {
			t.Errorf("%q is opened", text)
			_ = db.Close()
		}
	}
}

// FuzzArchive checks that no archive is a reason to panic or leaves a file.
func FuzzArchive(f *testing.F) {
	raw, err := os.ReadFile(write(f, f.TempDir(), "PyPI", osv("CVE-1", "", pkg("PyPI", "a", "0", "2"))))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(raw)
	f.Add(raw[:len(raw)-30])
	f.Fuzz(func(t *testing.T, raw []byte) {
		at := filepath.Join(t.TempDir(), "a.zip")
		if err := os.WriteFile(at, raw, 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := vulns.Import(t.Context(), at+".db", []vulns.Archive{{Ecosystem: "PyPI", Path: at}})
		if left, e := filepath.Glob(at + ".db*"); e != nil || len(left) != 0 && err != nil {
			t.Errorf("%v, %q", e, left)
		}
	})
}

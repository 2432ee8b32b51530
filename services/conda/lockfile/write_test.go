package lockfile_test

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"slipway.dev/services/conda/lockfile"
	"slipway.dev/services/conda/spec"
)

// TestWriteLock writes every lock in every format, and reads it back.
func TestWriteLock(t *testing.T) {
	t.Parallel()
	for name := range readable() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			from, err := lockfile.Read(lockFile(t, name), "")
			if err != nil {
				t.Fatal(err)
			}
			for format, write := range map[lockfile.Format]func() (string, error){lockfile.FormatCondaLock: from.CondaLock, lockfile.FormatPixi: from.Pixi} {
				text, err := write()
				if err != nil {
					t.Fatal(format, err)
				}
				back := read(t, text)
				if diff := from.Diff(back); diff != nil || !slices.Equal(from.Channels, back.Channels) {
					t.Errorf("%s: %+v\nbecame %+v: %+v", format, from.Channels, back.Channels, diff)
				}
				if format == lockfile.FormatPixi && !strings.Contains(name, "conda-lock") { // pixi describes an artifact once for all platforms
					samePackages(t, from, back)
				}
			}
			for _, p := range from.Platforms {
				text, err := p.Explicit(false)
				if err != nil {
					t.Fatal(err)
				}
				if diff := (lockfile.Lock{Platforms: []lockfile.PlatformLock{p}}).Diff(read(t, text)); diff != nil {
					t.Errorf("explicit, %s: %+v", p.Platform, diff)
				}
			}
		})
	}
}

func read(t *testing.T, text string) lockfile.Lock {
	t.Helper()
	l, err := lockfile.Read(text, "")
	if err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
	return l
}

// samePackages compares every field of every record, in order, which a pixi.lock retains.
func samePackages(t *testing.T, from, back lockfile.Lock) {
	t.Helper()
	for i, p := range from.Platforms {
		if diff := cmp.Diff(p.Packages, back.Platforms[i].Packages); diff != "" {
			t.Errorf("%s (-want +got):\n%s", p.Platform, diff)
		}
	}
}

// oddLock returns a lock with strings that YAML would interpret.
func oddLock() lockfile.Lock {
	file := func(name, version, build, subdir string) spec.Record {
		f := name + "-" + version + "-" + build + ".conda"
		return spec.Record{
			Name: name, Version: version, Build: build, FileName: f, Subdir: subdir,
			Channel: "https://h.example/c", URL: "https://h.example/c/" + subdir + "/" + f, SHA256: strings.Repeat("1234567e", 8), MD5: strings.Repeat("1", 32),
		}
	}
	no := file("no", "1.10", "0", "linux-64")
	no.License, no.LicenseFamily = "yes: \"of course\" # 'not' — ü\n", "null"
	no.Depends = []string{"y", "off 1.0", "numpy >=1,<2|>3", "numpy <9", "python_abi 3.12.* *_cp312", "__glibc >=2.17,<3.0.a0", "__glibc >=2.28"}
	no.Constrains = []string{"x: y", "- z", "*"}
	py := file("y", "1!2.0+a", "pyh1_7", "noarch")
	py.NoArch, py.BuildNumber, py.Timestamp, py.Size = "generic", 3, 1706886945727, 1<<40
	py.TrackFeatures = []string{"a", "b"}
	py.PythonSitePackagesPath = "lib/python3.13t/site-packages"
	return lockfile.Lock{
		Channels:  []string{"conda-forge", "https://h.example/c/"},
		Platforms: []lockfile.PlatformLock{{Platform: "linux-64", Packages: []spec.Record{py, no}}, {Platform: "linux-aarch64", Packages: []spec.Record{py}}, {Platform: "osx-64"}},
	}
}

// TestExplicitHashes checks that MD5 is the default, SHA-256 is used on request, and a
// known hash replaces an unknown one.
func TestExplicitHashes(t *testing.T) {
	t.Parallel()
	md5, sha := strings.Repeat("1", 32), strings.Repeat("2", 64)
	at := func(md5, sha string) spec.Record {
		return spec.Record{Name: "a", Version: "1", Build: "0", Subdir: "linux-64", Channel: "https://h.example/c", URL: "https://h.example/c/linux-64/a-1-0.conda", FileName: "a-1-0.conda", MD5: md5, SHA256: sha}
	}
	for _, c := range []struct {
		record spec.Record
		sha256 bool
		want   string
	}{
		{at(md5, sha), false, "#" + md5}, {at(md5, sha), true, "#sha256:" + sha}, {at("", sha), false, "#sha256:" + sha}, {at(md5, ""), true, "#" + md5},
		{at("", ""), true, ""},
	} {
		text, err := lockfile.PlatformLock{Platform: "linux-64", Packages: []spec.Record{c.record}}.Explicit(c.sha256)
		if want := "# platform: linux-64\n@EXPLICIT\n" + c.record.URL + c.want + "\n"; err != nil || text != want {
			t.Errorf("got %q, %v, want %q", text, err, want)
		}
	}
}

// TestFormats compares with the stored files of the three formats. The files were read with
// rattler (npm and Python) and conda-lock, which found the same packages in them.
func TestFormats(t *testing.T) {
	t.Parallel()
	l := oddLock()
	explicit, err := l.Platforms[0].Explicit(false)
	if err != nil {
		t.Fatal(err)
	}
	condaLock, err := l.CondaLock()
	if err != nil {
		t.Fatal(err)
	}
	pixi, err := l.Pixi()
	if err != nil {
		t.Fatal(err)
	}
	samePackages(t, l, read(t, pixi))
	for name, got := range map[string]string{"odd-explicit.txt": explicit, "odd-conda-lock.yml": condaLock, "odd-pixi.lock": pixi} {
		want, err := os.ReadFile("testdata/" + name)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(want), got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// TestUnwritable checks that a lock is rejected if its file would read differently.
func TestUnwritable(t *testing.T) {
	t.Parallel()
	for name, r := range map[string]spec.Record{
		"no address":           {Name: "a"},
		"a line in an address": {Name: "a", FileName: "a-1-0.conda", URL: "https://h/noarch/a-1-0.conda\nhttps://h/noarch/b-1-0.conda"},
		"a token in it":        {Name: "a", FileName: "a-1-0.conda", URL: "https://h/t/tk/c/noarch/a-1-0.conda"},
		"another name":         {Name: "b", FileName: "a-1-0.conda", URL: "https://h/noarch/a-1-0.conda"},
		"a hash that is none":  {Name: "a", FileName: "a-1-0.conda", URL: "https://h/noarch/a-1-0.conda", SHA256: "x"},
	} {
		p := lockfile.PlatformLock{Platform: "linux-64", Packages: []spec.Record{r}}
		l := lockfile.Lock{Platforms: []lockfile.PlatformLock{p}}
		for format, write := range map[string]func() (string, error){"explicit": func() (string, error) { return p.Explicit(true) }, "conda-lock": l.CondaLock, "pixi": l.Pixi} {
			if text, err := write(); err == nil {
				t.Errorf("%s: %s was written as\n%s", format, name, text)
			}
		}
	}
}

func TestPlatformIsNamed(t *testing.T) {
	t.Parallel()
	l := read(t, "@EXPLICIT\nhttps://h/noarch/a-1-0.conda\n")
	for _, write := range []func() (string, error){l.CondaLock, l.Pixi} {
		if text, err := write(); err == nil || !strings.Contains(err.Error(), "does not state its platform") {
			t.Errorf("%q, %v", text, err)
		}
	}
}

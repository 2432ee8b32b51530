package installed

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"

	"slipway.dev/services/internal/layertar"
	"slipway.dev/services/internal/limits"
)

const (
	dpkgStatus = "Package: libc6\nStatus: install ok installed\nPriority: optional\nArchitecture: amd64\nVersion: 2.36-9+deb12u7\nDescription: GNU C Library\n Version: of the description\n .\n\n" +
		"Package: nano\nStatus: deinstall ok config-files\nArchitecture: amd64\nVersion: 7.2-1\n\nPackage: held\nStatus: hold ok installed\nArchitecture: all\nVersion: 1:2~rc1\n"
	apkInstalled = "C:Q1x=\nP:musl\nV:1.2.5-r0\nA:x86_64\nL:MIT\np:so:libc.musl-x86_64.so.1=1\nF:lib\nR:ld-musl.so\na:0:0:755\nZ:Q1y=\n\nP:busybox\nV:1.36.1-r29\nA:x86_64\nL:GPL-2.0-only\n\n"
	metadata     = "Metadata-Version: 2.4\nName: Ruamel.YAML\nVersion: 0.18\nLicense-Expression: MIT\nLicense: ignored\n\nName: description\nVersion: 9\n"
	description  = "Package: data.table\nVersion: 1.15-2\nLicense: MPL-2.0 | file\n        LICENSE\nBuilt: R 4.3.1; ; 2024-01-01; unix\n"
)

// TestManagers checks which files are records, and what is read from them.
func TestManagers(t *testing.T) {
	t.Parallel()
	layer := layerOf(t, "l",
		entry{name: "var/lib/dpkg/status", text: dpkgStatus}, entry{name: "var/lib/dpkg/status-old", text: dpkgStatus},
		entry{name: "var/lib/dpkg/status.d/tzdata", text: "Package: tzdata\nVersion: 2025b\nArchitecture: all\n"}, entry{name: "var/lib/dpkg/status.d/tzdata.md5sums", text: "x"},
		entry{name: "lib/apk/db/installed", text: apkInstalled}, entry{name: "opt/lib/apk/db/installed", text: apkInstalled},
		entry{name: "usr/lib/python3/dist-packages/ruamel.yaml-0.18.dist-info/METADATA", text: metadata},
		entry{name: "venv/lib/python3.12/site-packages/old.egg-info/PKG-INFO", text: "Name: old\nVersion: 1\nClassifier: License :: OSI Approved :: BSD License\nClassifier: License :: OSI Approved\nLicense: " + strings.Repeat("x", 200) + "\n"},
		entry{name: "venv/lib/python3.12/site-packages/single.egg-info", text: "Name: single\nVersion: 2\nLicense: GPL\n"},
		entry{name: "src/build/x.dist-info/METADATA", text: metadata}, entry{name: "usr/lib/python3/dist-packages/ruamel.yaml-0.18.dist-info/INSTALLER", text: "pip\n"},
		entry{name: "opt/conda/lib/python3.12/site-packages/a.dist-info/INSTALLER", text: "conda\n"},
		entry{name: "usr/lib/R/site-library/data.table/DESCRIPTION", text: description},
		entry{name: "usr/lib/R/library/stats/DESCRIPTION", text: "Package: stats\nVersion: 4.3.1\nPriority: base\nBuilt: R 4.3.1\n"},
		entry{name: "usr/share/library/other/DESCRIPTION", text: "another file"},
		entry{name: "etc/os-release", link: "->../usr/lib/os-release"}, entry{name: "usr/lib/os-release", text: "NAME=\"Debian\"\nVERSION_ID=\"12\"\nID=debian\n"},
		entry{name: "var/lib/rpm/rpmdb.sqlite", text: "SQLite"},
		entry{name: "opt/conda/conda-meta/a-1-0.json", text: record("a", "1")})
	m := NewImage(NewBudget(), Managers()...)
	if err := m.AddLayer(t.Context(), layer); err != nil {
		t.Fatal(err)
	}
	packages, unreadable := m.Packages()
	var got []string
	for _, p := range packages {
		got = append(got, strings.Join([]string{string(p.Kind), p.Name, p.Version, p.Arch, p.License, p.Path}, " "))
	}
	want := []string{
		"apk busybox 1.36.1-r29 x86_64 GPL-2.0-only /lib/apk/db/installed", "apk musl 1.2.5-r0 x86_64 MIT /lib/apk/db/installed",
		"conda a 1   /opt/conda/conda-meta/a-1-0.json",
		"cran data.table 1.15-2  MPL-2.0 | file LICENSE /usr/lib/R/site-library/data.table/DESCRIPTION",
		"deb held 1:2~rc1 all  /var/lib/dpkg/status", "deb libc6 2.36-9+deb12u7 amd64  /var/lib/dpkg/status", "deb tzdata 2025b all  /var/lib/dpkg/status.d/tzdata",
		"installer conda unknown   /opt/conda/lib/python3.12/site-packages/a.dist-info/INSTALLER",
		"os debian 12   /usr/lib/os-release",
		"pypi Ruamel.YAML 0.18  MIT /usr/lib/python3/dist-packages/ruamel.yaml-0.18.dist-info/METADATA",
		"pypi single 2  GPL /venv/lib/python3.12/site-packages/single.egg-info", "pypi old 1  BSD License /venv/lib/python3.12/site-packages/old.egg-info/PKG-INFO",
		"rpm rpm unknown   /var/lib/rpm/rpmdb.sqlite",
	}
	if !slices.Equal(got, want) || len(unreadable) != 0 {
		t.Errorf("unreadable: %q\n%s\nwant\n%s", unreadable, strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if m.Size() < int64(len(packages)*recordSize) {
		t.Errorf("%d bytes", m.Size())
	}
}

// TestManagersBounds checks that damaged files are listed, and that all packages of a file count.
func TestManagersBounds(t *testing.T) {
	t.Parallel()
	m := NewImage(NewBudget(), Managers()...)
	err := m.AddLayer(t.Context(), layerOf(t, "l", entry{name: "var/lib/dpkg/status", text: "Package: a\n\nPackage: good\nVersion: 1\nStatus: install ok triggers-pending\n"}, entry{name: "lib/apk/db/installed", text: "P:x\n\nV:1\n"},
		entry{name: "etc/os-release", text: "x"}, entry{name: "a/site-packages/b.dist-info/METADATA", text: ""}, entry{name: "a/site-packages/c.dist-info/METADATA", text: "Name: c\nVersion: " + strings.Repeat("1", limits.ImageRecordField+1)}))
	packages, unreadable := m.Packages()
	if want := []string{"/a/site-packages/b.dist-info/METADATA", "/a/site-packages/c.dist-info/METADATA", "/lib/apk/db/installed", "/var/lib/dpkg/status"}; err != nil || len(packages) != 1 || packages[0].Name != "good" || !slices.Equal(unreadable, want) {
		t.Errorf("%v, %v, %q", err, packages, unreadable)
	}
	many := strings.Repeat("Package: a\nVersion: 1\n\n", limits.ImageRecords+1)
	err = NewImage(NewBudget(), Managers()...).AddLayer(t.Context(), layerOf(t, "l", entry{name: "var/lib/dpkg/status", text: many}))
	if refusal, ok := errors.AsType[*layertar.LayerError](err); !ok || !strings.Contains(refusal.Reason, "records of installed packages") {
		t.Error(err)
	}
}

// TestHostileFields checks that long and repeated fields take time and memory in proportion to the file, and
// that records do not keep their file in memory. It is not parallel, since it counts the bytes that are allocated.
func TestHostileFields(t *testing.T) {
	spaces := strings.Repeat(" ", 4<<20)
	for name, text := range map[string]string{
		"continuation lines": "Name: a\nVersion: 1\nLicense: x\n" + strings.Repeat(" y\n", 4<<20),
		"repeated fields":    "Name: a\nVersion: 1\n" + strings.Repeat("Classifier: License :: x\n", 500_000),
		"spaces":             "Name: a\nVersion: 1" + spaces + "\nLicense: " + spaces,
		"a long line":        "Name: a\nVersion: 1\nLicense: " + strings.Repeat("x", 8<<20),
		"empty stanzas":      "Name: a\nVersion: 1\n" + strings.Repeat("\n", 8<<20),
	} {
		var r Record
		var before, after runtime.MemStats
		raw := []byte(text)
		runtime.ReadMemStats(&before)
		parsePython(raw, func(found Record) bool { r = found; return true })
		runtime.ReadMemStats(&after)
		allocated := after.TotalAlloc - before.TotalAlloc
		if r.Name != "a" || r.Version != "1" || allocated > 8<<20 {
			t.Errorf("%s: %+v, %d bytes", name, r, allocated)
		}
	}
	// Parsing ends as soon as there are too many records.
	n := 0
	parseAPK([]byte(strings.Repeat("P:a\nV:1\n\n", 1<<20)), func(Record) bool { n++; return n < 10 })
	if n != 10 {
		t.Errorf("%d records", n)
	}
}

// TestAddRecords checks that upper layers replace and remove records that are known without reading.
func TestAddRecords(t *testing.T) {
	t.Parallel()
	const meta = "opt/conda/conda-meta/"
	m := NewImage(NewBudget(), Managers()...)
	err := errors.Join(m.AddLayer(t.Context(), layerOf(t, "base", entry{name: meta + "a-1-0.json", text: record("a", "1")}, entry{name: meta + "z-1-0.json", text: record("z", "1")})),
		m.AddRecords(Conda, "lock", map[string]Record{meta + "a-1-0.json": {Name: "a", Version: "1"}, meta + "b-1-0.json": {Name: "b", Version: "1"}, meta + "c-1-0.json": {Name: "c", Version: "1"}}),
		m.AddLayer(t.Context(), layerOf(t, "top", entry{name: meta + ".wh.b-1-0.json"}, entry{name: meta + "b-2-0.json", text: record("b", "2")}, entry{name: meta + ".wh.c-1-0.json"})))
	var got []string
	packages, _ := m.Packages()
	for _, p := range packages {
		got = append(got, p.Name+" "+p.Version+" "+p.Layer)
	}
	if err != nil || !slices.Equal(got, []string{"a 1 lock", "b 2 top", "z 1 base"}) {
		t.Errorf("%q, %v", got, err)
	}
	many := map[string]Record{}
	for i := range limits.ImageRecords + 1 {
		many[meta+strconv.Itoa(i)] = Record{Name: "a", Version: "1"}
	}
	if err := m.AddRecords(Conda, "lock", many); err == nil {
		t.Error("too many records are accepted")
	}
}

// TestSourcePackages checks the source packages of Debian packages.
func TestSourcePackages(t *testing.T) {
	t.Parallel()
	for source, want := range map[string][2]string{"": {}, "gcc-12": {"gcc-12", ""}, "gcc-12 (12.2.0-14)": {"gcc-12", "12.2.0-14"}, "x ()": {"x", ""}, "x (": {"x", ""}} {
		parseDpkg([]byte("Package: p\nVersion: 1\nSource: "+source+"\n"), func(r Record) bool {
			if r.Source != want[0] || r.SourceVersion != want[1] {
				t.Errorf("%q: %q, %q", source, r.Source, r.SourceVersion)
			}
			return true
		})
	}
}

// TestRepositoriesOfR checks which repository an R package is from.
func TestRepositoriesOfR(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"Repository: CRAN\nRemoteType: standard\n": "cran", "biocViews: Software\n": "bioconductor", "git_url: https://git.bioconductor.org/packages/x\n": "bioconductor",
		"RemoteType: github\n": "generic", "": "cran",
	} {
		parseR([]byte("Package: x\nVersion: 1\nBuilt: R 4.3\n"+text), func(r Record) bool {
			if r.Channel != want {
				t.Errorf("%q: %s", text, r.Channel)
			}
			return true
		})
	}
}

// TestCountsOfDpkg compares the packages of a Debian tree with those that dpkg lists: of the tree that
// SLIPWAY_TEST_DEBIAN names, or of the machine itself.
func TestCountsOfDpkg(t *testing.T) {
	t.Parallel()
	root := os.Getenv("SLIPWAY_TEST_DEBIAN")
	if root == "" {
		root = "/"
	}
	query, err := exec.LookPath("dpkg-query")
	raw, unreadable := os.ReadFile(filepath.Join(root, "var/lib/dpkg/status"))
	if err != nil || unreadable != nil {
		t.Skip("SKIPPED: there is no dpkg, or no Debian tree, to compare with")
	}
	out, err := exec.CommandContext(t.Context(), query, "--root="+root, "-W", "-f", "${db:Status-Status} ${Package} ${Version} ${Architecture}\n").Output()
	if err != nil {
		t.Fatal(err)
	}
	var want []string
	for line := range strings.Lines(string(out)) {
		if state, p, _ := strings.Cut(strings.TrimSpace(line), " "); state != "config-files" && state != "not-installed" {
			want = append(want, p)
		}
	}
	var got []string
	parseDpkg(raw, func(r Record) bool {
		got = append(got, r.Name+" "+r.Version+" "+r.Arch)
		return true
	})
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("%d packages, dpkg lists %d", len(got), len(want))
	}
	t.Logf("%d packages, as dpkg lists", len(got))
}

// FuzzManagers checks that records are within their bounds.
func FuzzManagers(f *testing.F) {
	for _, text := range []string{dpkgStatus, apkInstalled, metadata, description, record("a", "1"), "ID=x\n", " \n:\n x\n\n\n", "Name:\r\n\tb\rVersion: 1"} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		for _, m := range Managers() {
			if m.parse == nil {
				continue
			}
			f := &file{}
			image := NewImage(NewBudget(), m)
			if err := image.keep(f, func(yield func(Record) bool) { m.parse(raw, yield) }); err != nil && image.budget.records <= limits.ImageRecords {
				t.Error(err)
			}
			for _, r := range f.records {
				if !r.isValid() {
					t.Errorf("%s: %+v", m.Kind, r)
				}
			}
		}
	})
}

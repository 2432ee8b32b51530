package vulns_test

import (
	"archive/zip"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/limits"
	"slipway.dev/services/internal/sbom"
	"slipway.dev/services/internal/vulns"
)

// write writes an archive of records to a folder, and returns its path.
func write(t testing.TB, dir, ecosystem string, records ...string) string {
	t.Helper()
	at := filepath.Join(dir, ecosystem, "all.zip")
	if err := os.MkdirAll(filepath.Dir(at), 0o700); err != nil {
		t.Fatal(err)
	}
	f, err := os.Create(at + ".new")
	if err != nil {
		t.Fatal(err)
	}
	z := zip.NewWriter(f)
	for i, r := range records {
		w, err := z.Create(fmt.Sprintf("record-%d.json", i))
		if err == nil {
			_, err = w.Write([]byte(r))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(at+".new", at); err != nil {
		t.Fatal(err)
	}
	return at
}

// osv returns a record with members of its own and the packages that are affected, each as JSON.
func osv(id, members string, affected ...string) string {
	if members != "" {
		members = "," + members
	}
	return fmt.Sprintf(`{"schema_version":"1.7.3","id":%q,"modified":"2026-11-20T10:00:00Z"%s,"affected":[%s]}`, id, members, strings.Join(affected, ","))
}

// pkg returns a package of a record that is affected from one version to another, which is fixed unless "".
func pkg(ecosystem, name, from, fixed string) string {
	events := fmt.Sprintf(`{"introduced":%q}`, from)
	if fixed != "" {
		events += fmt.Sprintf(`,{"fixed":%q}`, fixed)
	}
	return fmt.Sprintf(`{"package":{"ecosystem":%q,"name":%q},"ranges":[{"type":"ECOSYSTEM","events":[%s]}]}`, ecosystem, name, events)
}

// imported returns a database of archives by ecosystem.
func imported(t testing.TB, records map[string][]string) *vulns.Database {
	t.Helper()
	dir := t.TempDir()
	var archives []vulns.Archive
	for e, list := range records {
		archives = append(archives, vulns.Archive{Ecosystem: e, Path: write(t, dir, e, list...)})
	}
	at := filepath.Join(dir, "x.db")
	if _, err := vulns.Import(t.Context(), at, archives); err != nil {
		t.Fatal(err)
	}
	db, err := vulns.Open(at)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db
}

// components returns components with the given package URLs.
func components(urls ...string) []sbom.Component {
	var out []sbom.Component
	for _, u := range urls {
		name, version, _ := strings.Cut(strings.TrimPrefix(u, "pkg:"), "@")
		version, _, _ = strings.Cut(version, "?")
		out = append(out, sbom.Component{Name: name, Version: version, PURL: u})
	}
	return out
}

const (
	critical3 = `"severity":[{"type":"CVSS_V3","score":"CVSS:3.1/AV:N/AC:L/PR:N/UI:N/S:U/C:H/I:H/A:H"}]`
	medium3   = `"severity":[{"type":"CVSS_V3","score":"CVSS:3.1/AV:N/AC:L/PR:N/UI:N/S:U/C:N/I:N/A:L"}]`
	high4     = `"severity":[{"type":"CVSS_V4","score":"CVSS:4.0/AV:N/AC:L/AT:N/PR:N/UI:N/VC:H/VI:N/VA:N/SC:N/SI:N/SA:N"}]`
)

// world is a small database with an example of each ecosystem.
func world() map[string][]string {
	return map[string][]string{
		"Debian": {
			osv("DEBIAN-CVE-2023-1", `"upstream":["CVE-2023-1"],"details":"A bug.\nMore.",`+critical3,
				pkg("Debian:12", "openssl", "0", "3.0.11-1~deb12u2"), pkg("Debian:13", "openssl", "0", "3.0.12-1"), pkg("Debian:11", "openssl", "0", "1.1.1w-0+deb11u1")),
			osv("DEBIAN-CVE-2023-2", `"upstream":["CVE-2023-2"],"aliases":[]`, pkg("Debian:12", "openssl", "0", ""), pkg("Debian:13", "openssl", "0", "3.0.13-2")),
			osv("DSA-5532-1", `"upstream":["CVE-2023-1","CVE-2023-9"],"summary":"openssl - security update"`, pkg("Debian:12", "openssl", "0", "3.0.11-1~deb12u2")),
			osv("DEBIAN-CVE-2010-3", `"upstream":["CVE-2010-3"],`+critical3, strings.TrimSuffix(pkg("Debian:12", "gcc-12", "0", ""), "}")+`,"ecosystem_specific":{"urgency":"unimportant"}}`),
			osv("DEBIAN-CVE-2022-5", `"upstream":["CVE-2022-5"]`, pkg("Debian:12", "zlib", "0", "1:1.2.13.dfsg-1"), pkg("Debian:9", "zlib", "0", "1:1.2.8.dfsg-5+deb9u1")),
			osv("DEBIAN-CVE-2024-6", `"upstream":["CVE-2024-6"]`, pkg("Debian:13", "expat", "0", "")),
			osv("DEBIAN-CVE-2023-7", `"upstream":["CVE-2023-7"]`, pkg("Debian:13", "gdal", "0", "3.9.0+dfsg-1")),
			osv("DEBIAN-CVE-2023-8", `"upstream":["CVE-2023-8"]`, pkg("Debian:13", "gdal", "0", "3.9.0+dfsg-1")),
			osv("DEBIAN-CVE-2020-4", `"withdrawn":"2026-01-01T00:00:00Z"`, pkg("Debian:12", "openssl", "0", "")),
		},
		"Ubuntu": {osv("UBUNTU-CVE-2023-1", `"upstream":["CVE-2023-1"],"severity":[{"type":"Ubuntu","score":"low"}]`, pkg("Ubuntu:24.04:LTS", "openssl", "0", "3.0.13-0ubuntu3.1"), pkg("Ubuntu:Pro:FIPS:24.04:LTS", "openssl", "0", "")),
			osv("USN-7000-1", `"upstream":["CVE-2024-45490","UBUNTU-CVE-2024-45490","CVE-2024-45491","UBUNTU-CVE-2024-45491"]`, pkg("Ubuntu:24.04:LTS", "expat", "0", "2.6.1-2ubuntu0.1")),
			osv("UBUNTU-CVE-2024-45490", "", pkg("Ubuntu:24.04:LTS", "expat", "0", "2.6.1-2ubuntu0.1"))},
		"Alpine": {osv("ALPINE-CVE-2023-1", `"upstream":["CVE-2023-1"]`, pkg("Alpine:v3.19", "openssl", "0", "3.1.4-r1"), pkg("Alpine:v3.9", "openssl", "0", ""))},
		"PyPI": {
			osv("PYSEC-2024-1", `"aliases":["CVE-2024-1","GHSA-aaaa-bbbb-cccc"]`, pkg("PyPI", "ruamel-yaml", "0", "0.18.2"), pkg("PyPI", "Other_Name", "0", "")),
			osv("GHSA-aaaa-bbbb-cccc", `"aliases":["CVE-2024-1"],"summary":"Code execution","database_specific":{"severity":"MODERATE"},`+high4, pkg("PyPI", "ruamel-yaml", "0.17", "0.18.2"), pkg("npm", "ruamel", "0", "")),
			osv("PYSEC-2024-2", "", `{"package":{"ecosystem":"PyPI","name":"numpy"},"versions":["1.0","1.26.0"],"database_specific":{}}`),
		},
		"npm":          {osv("GHSA-n", `"database_specific":{"severity":"LOW"}`, `{"package":{"ecosystem":"npm","name":"@a/b"},"ranges":[{"type":"SEMVER","events":[{"introduced":"2.0.0"},{"fixed":"2.3.0"},{"introduced":"0"},{"last_affected":"1.5.0"}]}]}`), osv("MAL-2024-1", "", pkg("npm", "evil", "0", ""))},
		"Go":           {osv("GO-2024-1", `"aliases":["CVE-2024-7"]`, pkg("Go", "golang.org/x/net", "0", "0.23.0")), osv("GO-2024-2", "", pkg("Go", "github.com/Masterminds/goutils", "0", "1.1.1"))},
		"CRAN":         {osv("RSEC-2023-1", "", pkg("CRAN", "commonMark", "0.2", "1.8"))},
		"Bioconductor": {osv("RSEC-2023-2", "", pkg("Bioconductor", "rtracklayer", "0", "1.60.0"))},
		"Bitnami":      {osv("BIT-gdal-2023-1", `"aliases":["CVE-2023-7"]`, `{"package":{"ecosystem":"Bitnami","name":"gdal"},"ranges":[{"type":"SEMVER","events":[{"introduced":"0"},{"fixed":"3.5.2"},{"introduced":"3.6.0"},{"fixed":"3.6.1"}]}]}`)},
	}
}

// TestFind checks what is found of packages of each ecosystem.
func TestFind(t *testing.T) {
	t.Parallel()
	reversed := world()
	for _, list := range reversed {
		slices.Reverse(list)
	}
	for name, records := range map[string]map[string][]string{"in order": world(), "reversed": reversed} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			testFind(t, imported(t, records))
		})
	}
}

func testFind(t *testing.T, db *vulns.Database) {
	t.Helper()
	for url, want := range map[string]string{
		"pkg:deb/debian/openssl@3.0.11-1~deb12u1?arch=amd64&distro=debian-12":                       "critical CVE-2023-1 [DEBIAN-CVE-2023-1 DSA-5532-1] 3.0.11-1~deb12u2, unknown CVE-2023-2 [DEBIAN-CVE-2023-2] , unknown CVE-2023-9 [DSA-5532-1] 3.0.11-1~deb12u2",
		"pkg:deb/debian/libssl3@3.0.11-1~deb12u2?distro=debian-12&upstream=openssl":                 "unknown CVE-2023-2 [DEBIAN-CVE-2023-2] ",
		"pkg:deb/debian/libssl3@3:9?distro=debian-12&upstream=openssl%403.0.11-1~deb12u2":           "unknown CVE-2023-2 [DEBIAN-CVE-2023-2] ",
		"pkg:deb/debian/openssl@3.0.12-1?distro=debian-rolling":                                     "unknown CVE-2023-2 [DEBIAN-CVE-2023-2] 3.0.13-2",
		"pkg:deb/debian/openssl@3.0.12-1?distro=debian-14":                                          "",
		"pkg:deb/debian/cpp@12?distro=debian-12&upstream=gcc-12":                                    "low CVE-2010-3 [DEBIAN-CVE-2010-3] ",
		"pkg:deb/ubuntu/libssl3t64@3.0.13-0ubuntu3?distro=ubuntu-24.04&upstream=openssl":            "low CVE-2023-1 [UBUNTU-CVE-2023-1] 3.0.13-0ubuntu3.1",
		"pkg:apk/alpine/libssl3@3.1.4-r0?distro=alpine-3.19.1&upstream=openssl":                     "unknown CVE-2023-1 [ALPINE-CVE-2023-1] 3.1.4-r1",
		"pkg:apk/alpine/libssl3@3.1.4-r1?distro=alpine-3.19.1&upstream=openssl":                     "",
		"pkg:pypi/ruamel-yaml@0.18.2rc1":                                                            "high CVE-2024-1 [GHSA-aaaa-bbbb-cccc PYSEC-2024-1] 0.18.2",
		"pkg:pypi/ruamel-yaml@0.16":                                                                 "unknown CVE-2024-1 [GHSA-aaaa-bbbb-cccc PYSEC-2024-1] 0.18.2",
		"pkg:pypi/numpy@1.26":                                                                       "unknown PYSEC-2024-2 [] ",
		"pkg:pypi/other.name@1":                                                                     "unknown CVE-2024-1 [GHSA-aaaa-bbbb-cccc PYSEC-2024-1] ",
		"pkg:pypi/numpy@1.26.1":                                                                     "",
		"pkg:npm/%40a/b@2.2.9":                                                                      "low GHSA-n [] 2.3.0",
		"pkg:npm/%40a/b@1.5.0":                                                                      "low GHSA-n [] ",
		"pkg:npm/%40a/b@1.6.0":                                                                      "",
		"pkg:npm/evil@1.0.0":                                                                        "critical MAL-2024-1 [] ",
		"pkg:npm/ruamel@1.0.0":                                                                      "",
		"pkg:golang/golang.org/x/net@v0.22.0":                                                       "unknown CVE-2024-7 [GO-2024-1] 0.23.0",
		"pkg:golang/github.com/Masterminds/goutils@v1.1.0":                                          "unknown GO-2024-2 [] 1.1.1",
		"pkg:pypi/numpy@1.26.0+cu118":                                                               "unknown PYSEC-2024-2 [] ",
		"pkg:deb/ubuntu/expat@2.6.1-2?distro=ubuntu-24.04":                                          "unknown CVE-2024-45490 [UBUNTU-CVE-2024-45490 USN-7000-1] 2.6.1-2ubuntu0.1, unknown CVE-2024-45491 [USN-7000-1] 2.6.1-2ubuntu0.1",
		"pkg:conda/libexpat@9":                                                                      "",
		"pkg:cran/commonmark@1.7":                                                                   "unknown RSEC-2023-1 [] 1.8",
		"pkg:bioconductor/rtracklayer@1.59":                                                         "unknown RSEC-2023-2 [] 1.60.0",
		"pkg:conda/r-commonmark@1.7":                                                                "unknown RSEC-2023-1 [] 1.8 upstream",
		"pkg:conda/bioconductor-rtracklayer@1.60.0":                                                 "",
		"pkg:conda/ruamel.yaml@0.18.1?build=py312_0&channel=conda-forge&subdir=linux-64&type=conda": "high CVE-2024-1 [GHSA-aaaa-bbbb-cccc PYSEC-2024-1] 0.18.2 upstream",
		"pkg:conda/openssl@3.0.11":                                                                  "critical CVE-2023-1 [DEBIAN-CVE-2023-1] 3.0.12-1 upstream, unknown CVE-2023-2 [DEBIAN-CVE-2023-2] 3.0.13-2 upstream",
		"pkg:conda/openssl@3.0.13":                                                                  "unknown CVE-2023-2 [DEBIAN-CVE-2023-2] 3.0.13-2 upstream",
		"pkg:conda/openssl@3.4.0":                                                                   "",
		"pkg:conda/libzlib@1.2.12":                                                                  "unknown CVE-2022-5 [DEBIAN-CVE-2022-5] 1:1.2.13.dfsg-1 upstream",
		"pkg:conda/libzlib@1.2.13":                                                                  "",
		"pkg:conda/libgdal@3.6.0":                                                                   "unknown CVE-2023-7 [BIT-gdal-2023-1] 3.6.1 upstream, unknown CVE-2023-8 [DEBIAN-CVE-2023-8] 3.9.0+dfsg-1 upstream",
		"pkg:conda/libgdal@3.5.3":                                                                   "unknown CVE-2023-8 [DEBIAN-CVE-2023-8] 3.9.0+dfsg-1 upstream",
		"pkg:conda/unheard-of@1":                                                                    "",
		"pkg:generic/openssl@1":                                                                     "",
		"pkg:deb/kali/openssl@1":                                                                    "",
		"no url":                                                                                    "",
	} {
		found, err := db.Find(t.Context(), components(url))
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, f := range found {
			got = append(got, strings.TrimSuffix(fmt.Sprintf("%s %s %v %s %s", f.Severity, f.ID, f.Aliases, f.Fixed, f.Match), " "))
			if f.PURL != url || !strings.HasPrefix(f.URL, "https://osv.dev/vulnerability/") {
				t.Errorf("%+v", f)
			}
		}
		if strings.Join(got, ", ") != want {
			t.Errorf("%s:\n%s\nwant\n%s", url, strings.Join(got, ", "), want)
		}
	}
	all, err := db.Find(t.Context(), components("pkg:npm/%40a/b@1.5.0", "pkg:npm/evil@1.0.0", "pkg:pypi/ruamel-yaml@0.18.1", "pkg:pypi/numpy@1.0"))
	var order []string
	for _, f := range all {
		order = append(order, string(f.Severity))
	}
	if want := []string{"critical", "high", "low", "unknown"}; err != nil || !slices.Equal(order, want) {
		t.Errorf("%v, %q", err, order)
	}
	if all[1].Title != "Code execution" {
		t.Errorf("%q", all[1].Title)
	}
}

// TestUncovered checks which components are counted as unknown to the database.
func TestUncovered(t *testing.T) {
	t.Parallel()
	db := imported(t, world())
	got := db.Uncovered(components("pkg:deb/debian/a@1?distro=debian-12", "pkg:deb/debian/a@1?distro=debian-14", "pkg:deb/debian/b@1?distro=debian-14", "pkg:deb/debian/a@1?distro=debian-rolling",
		"pkg:deb/raspbian/a@1", "pkg:apk/alpine/a@1?distro=alpine-3.24.0", "pkg:conda/openssl@3", "pkg:conda/unheard-of@3", "pkg:conda/libgcc@15", "pkg:conda/python_abi@3.12?build=8_cp312", "pkg:rpm/fedora/a@1", "pkg:pypi/a@1"))
	want := map[string]int{"Debian:14": 2, "deb": 1, "Alpine:v3.24": 1, "conda": 2, "rpm": 1}
	if !maps.Equal(got, want) {
		t.Errorf("%v", got)
	}
}

// TestManyCopies checks that copies of a package are compared once, and that a search ends with its context.
func TestManyCopies(t *testing.T) {
	t.Parallel()
	versions := `"1.0"` + strings.Repeat(`,"1.0.1"`, limits.ScanSpans-1)
	db := imported(t, map[string][]string{"PyPI": {osv("CVE-1", "", `{"package":{"ecosystem":"PyPI","name":"a"},"versions":[`+versions+`]}`)}})
	const most = 4 * limits.ScanSpans
	db.SetMatches(most)
	urls := slices.Repeat([]string{"pkg:pypi/a@1.0.2"}, 20_000)
	if list, err := db.Find(t.Context(), components(urls...)); err != nil || len(list) != 0 {
		t.Error(len(list), err)
	}
	var many []string
	for i := range 2 * most / limits.ScanSpans {
		many = append(many, fmt.Sprintf("pkg:pypi/a@2.%d", i))
	}
	if _, err := db.Find(t.Context(), components(many...)); !errors.Is(err, fault.Invalid) {
		t.Error(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := db.Find(ctx, components(many...)); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

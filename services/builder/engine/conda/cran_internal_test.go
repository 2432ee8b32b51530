package conda

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// A source is an R package in a CRAN mirror.
type source struct{ name, version, needs string }

// tarball returns the source package as a CRAN mirror serves it.
func (s source) tarball(t *testing.T) []byte {
	t.Helper()
	var b bytes.Buffer
	compressed := gzip.NewWriter(&b)
	w := tar.NewWriter(compressed)
	for path, text := range map[string]string{
		"DESCRIPTION": s.fields() + "Title: Test\nDescription: For a test.\nAuthor: A\nMaintainer: A <a@example.org>\nLicense: MIT\n",
		"NAMESPACE":   "export(f)\n",
		"R/f.R":       "f <- function() \"" + s.version + "\"\n",
	} {
		if err := w.WriteHeader(&tar.Header{Name: s.name + "/" + path, Mode: 0o644, Size: int64(len(text))}); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if err := compressed.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// fields returns the entry of the package in the mirror's PACKAGES file.
func (s source) fields() string {
	text := "Package: " + s.name + "\nVersion: " + s.version + "\n"
	if s.needs != "" {
		text += "Imports: " + s.needs + "\n"
	}
	return text
}

// newMirror serves a CRAN mirror with the newest and with archived packages.
func newMirror(t *testing.T, newest, archived []source) string {
	t.Helper()
	files, list := map[string][]byte{}, ""
	for _, s := range newest {
		files["/src/contrib/"+s.name+"_"+s.version+".tar.gz"] = s.tarball(t)
		list += s.fields() + "\n"
	}
	for _, s := range archived {
		files["/src/contrib/Archive/"+s.name+"/"+s.name+"_"+s.version+".tar.gz"] = s.tarball(t)
	}
	files["/src/contrib/PACKAGES"] = []byte(list)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		raw, ok := files[r.URL.Path]
		if !ok {
			http.NotFound(w, r)
			return
		}
		_, _ = w.Write(raw)
	}))
	t.Cleanup(server.Close)
	return server.URL
}

// TestRPackagesFromSource runs cran.R in a real R, with a CRAN mirror: the newest versions,
// archived versions, and dependencies that were not requested.
func TestRPackagesFromSource(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("Rscript"); err != nil {
		t.Skip("needs R: apt-get install --no-install-recommends r-base-core")
	}
	mirror := newMirror(t,
		[]source{{"slipa", "2.0", ""}, {"slipb", "1.1-3", "slipa, slipc"}, {"slipc", "3.0", ""}},
		[]source{{"slipa", "1.0-1", ""}})
	for _, tc := range []struct {
		name, cran string
		want       []string
		refusal    string
	}{
		{"the newest", mirror + "/\nslipb\t\n", []string{"slipa 2.0", "slipb 1.1-3", "slipc 3.0"}, ""},
		{"an archived one", mirror + "\nslipa\t1.0-1\nslipb\t1.1-3\n", []string{"slipa 1.0-1", "slipb 1.1-3", "slipc 3.0"}, ""},
		{"a version that does not exist", mirror + "\nslipa\t7\n", nil, "has no slipa 7"},
		{"a name that does not exist", mirror + "\nslipd\t\n", nil, "has no slipd"},
		{"no mirror", "http://127.0.0.1:1\nslipa\t\n", nil, "cannot be reached"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			dir, library := t.TempDir(), t.TempDir()
			// .Library is R's own folder, which belongs to this machine.
			script := strings.ReplaceAll(rInstaller, ".Library", fmt.Sprintf("%q", library))
			for name, text := range map[string]string{"cran": tc.cran, "cran.R": script} {
				if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			cmd := exec.CommandContext(t.Context(), "Rscript", "--vanilla", "cran.R")
			cmd.Dir, cmd.Env = dir, append(os.Environ(), "R_LIBS="+library)
			out, err := cmd.CombinedOutput()
			if tc.refusal != "" {
				if err == nil || !strings.Contains(string(out), "slipway: the CRAN mirror ") || !strings.Contains(string(out), tc.refusal) {
					t.Errorf("it ends as %v, want %q:\n%s", err, tc.refusal, out)
				}
				return
			}
			if err != nil {
				t.Fatalf("%v:\n%s", err, out)
			}
			var got []string
			for _, s := range []string{"slipa", "slipb", "slipc"} {
				raw, err := os.ReadFile(filepath.Join(library, s, "DESCRIPTION"))
				if err != nil {
					t.Fatalf("%v:\n%s", err, out)
				}
				_, rest, _ := strings.Cut(string(raw), "\nVersion: ")
				version, _, _ := strings.Cut(rest, "\n")
				got = append(got, s+" "+version)
			}
			if strings.Join(got, ", ") != strings.Join(tc.want, ", ") {
				t.Errorf("installed are %v, want %v:\n%s", got, tc.want, out)
			}
		})
	}
}

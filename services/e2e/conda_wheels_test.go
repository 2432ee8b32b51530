package e2e

import (
	"archive/zip"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"slipway.dev/services/internal/testkit"
)

// markupSafe is a real wheel with an extension module, for CPython 3.11 on amd64.
const markupSafe = "MarkupSafe-3.0.2-cp311-cp311-manylinux_2_17_x86_64.manylinux2014_x86_64.whl"

// demoWheel returns a wheel with an entry point, a script, and data files.
func demoWheel(t testing.TB) []byte {
	t.Helper()
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	for _, f := range [][2]string{
		{"demo/__init__.py", "import markupsafe\n\ndef main():\n    print('demo', markupsafe.escape('<'))\n"},
		{"demo_pkg-1.5.data/scripts/demo-script", "#!python\nimport demo\ndemo.main()\n"},
		{"demo_pkg-1.5.data/data/share/demo/data.txt", "data\n"},
		{"demo_pkg-1.5.dist-info/METADATA", "Metadata-Version: 2.1\nName: demo-pkg\nVersion: 1.5\nRequires-Dist: MarkupSafe>=2\n"},
		{"demo_pkg-1.5.dist-info/WHEEL", "Wheel-Version: 1.0\nGenerator: e2e\nRoot-Is-Purelib: true\nTag: py3-none-any\n"},
		{"demo_pkg-1.5.dist-info/entry_points.txt", "[console_scripts]\ndemo-run = demo:main\n"},
		{"demo_pkg-1.5.dist-info/RECORD", "demo_pkg-1.5.dist-info/RECORD,,\n"},
	} {
		w, err := z.Create(f[0])
		if err == nil {
			_, err = io.WriteString(w, f[1])
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// A wheelSite is a package index with two wheels, a channel with Python, and locks of both.
type wheelSite struct {
	t       testing.TB
	channel string
	host    string
	python  string // sha256
	wheels  map[string][]byte
}

func newWheelSite(t testing.TB) *wheelSite {
	t.Helper()
	raw, err := os.ReadFile("../conda/packages/artifact/testdata/wheels/" + markupSafe)
	if err != nil {
		t.Fatal(err)
	}
	s := &wheelSite{t: t, channel: madeChannel(t, debianPython(t), madePackage{name: "spare", version: "1.0", subdir: "linux-64"},
		mended("1.0"), mended("1.1"), mended("2.0", "python")).URL, wheels: map[string][]byte{markupSafe: raw, "demo_pkg-1.5-py3-none-any.whl": demoWheel(t)}}
	s.python = s.sumOfPackage("python-3.11.2-h0_0.conda")
	index := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		raw, ok := s.wheels[filepath.Base(r.URL.Path)]
		if !ok {
			http.NotFound(w, r)
			return
		}
		_, _ = w.Write(raw)
	}))
	t.Cleanup(index.Close)
	s.host = index.URL
	return s
}

// sumOfPackage returns the SHA-256 of a package of the channel.
func (s *wheelSite) sumOfPackage(file string) string {
	s.t.Helper()
	req, err := http.NewRequestWithContext(s.t.Context(), http.MethodGet, s.channel+"/lab/linux-64/"+file, nil)
	if err != nil {
		s.t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		s.t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	made, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		s.t.Fatal(resp.Status, err)
	}
	return sumOf(made)
}

// mended is a package with several versions, some of which depend on Python.
func mended(version string, depends ...string) madePackage {
	return madePackage{name: "mended", version: version, subdir: "linux-64", depends: depends, files: []packedFile{{path: "share/mended", content: version, mode: 0o644}}}
}

func sumOf(raw []byte) string {
	sum := sha256.Sum256(raw)
	return hex.EncodeToString(sum[:])
}

// pixi writes a pixi.lock, modified by change.
func (s *wheelSite) pixi(change ...string) string {
	s.t.Helper()
	python := s.channel + "/lab/linux-64/python-3.11.2-h0_0.conda"
	demo, safe := s.host+"/packages/demo_pkg-1.5-py3-none-any.whl", s.host+"/packages/"+markupSafe
	text := fmt.Sprintf(`version: 6
environments:
  default:
    channels:
    - url: %[1]s/lab/
    indexes:
    - https://pypi.org/simple
    packages:
      linux-64:
      - conda: %[2]s
      - pypi: %[3]s
      - pypi: %[4]s
packages:
- conda: %[2]s
  sha256: %[5]s
  depends: [__glibc >=2.17]
  license: PSF-2.0
- pypi: %[3]s
  name: demo-pkg
  version: '1.5'
  sha256: %[6]s
  requires_dist:
  - markupsafe>=2
  - colorama ; extra == 'color'
  requires_python: '>=3.8'
- pypi: %[4]s
  name: markupsafe
  version: 3.0.2
  sha256: %[7]s
  requires_python: '>=3.9'
`, s.channel, python, demo, safe, s.python, sumOf(s.wheels["demo_pkg-1.5-py3-none-any.whl"]), sumOf(s.wheels[markupSafe]))
	return s.file("pixi.lock", strings.NewReplacer(change...).Replace(text))
}

// condaLock writes a conda-lock.yml with the same packages.
func (s *wheelSite) condaLock() string {
	s.t.Helper()
	text := fmt.Sprintf("version: 1\nmetadata:\n  channels:\n  - url: %s/lab\n  platforms: [linux-64]\npackage:\n", s.channel)
	one := func(name, version, manager, url, sum, needs string) {
		text += fmt.Sprintf("- {name: %s, version: '%s', manager: %s, platform: linux-64, dependencies: %s, url: '%s', hash: {sha256: %s}, category: main, optional: false}\n", name, version, manager, needs, url, sum)
	}
	one("python", "3.11.2", "conda", s.channel+"/lab/linux-64/python-3.11.2-h0_0.conda", s.python, "{}")
	one("demo-pkg", "1.5", "pip", s.host+"/packages/demo_pkg-1.5-py3-none-any.whl", sumOf(s.wheels["demo_pkg-1.5-py3-none-any.whl"]), "{markupsafe: '>=2'}")
	one("markupsafe", "3.0.2", "pip", s.host+"/packages/"+markupSafe, sumOf(s.wheels[markupSafe]), "{}")
	return s.file("conda-lock.yml", text)
}

func (s *wheelSite) file(name, text string) string {
	s.t.Helper()
	file := filepath.Join(s.t.TempDir(), name)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		s.t.Fatal(err)
	}
	return file
}

// TestWheelsInLocksBecomeImages checks that wheels in a pixi.lock and a conda-lock.yml become
// layers with equal digests on two servers, and that the image's Python and pip find all their
// files.
func TestWheelsInLocksBecomeImages(t *testing.T) {
	t.Parallel()
	up, site := testkit.NewRegistry(t, testkit.Open), newWheelSite(t)
	base := up.Push(t, "base/one:1", testkit.Image(t, "amd64", true))
	with := bare(site.channel)
	with["conda_pypi_hosts"] = site.host
	one, two := oneProcess(t, common(t, []string{up.Host}, with)), oneProcess(t, common(t, []string{up.Host}, with))
	for _, lock := range []string{site.pixi(), site.condaLock()} {
		var digests []string
		for _, p := range []*program{one, two} {
			image, errs, err := p.slipway("conda", "--await", "--base-image", base, "--platform", "linux/amd64", "--file", lock)
			if err != nil {
				t.Fatalf("%s: %s %v", filepath.Base(lock), errs, err)
			}
			img := pull(t, image, "amd64")
			digest, err := img.Digest()
			if err != nil {
				t.Fatal(err)
			}
			if digests = append(digests, digest.String()); p == one {
				content := files(t, img)
				judgeWheels(t, content)
				judge(t, content, judged{
					packages: []string{site.channel + "/lab/linux-64/python-3.11.2-h0_0.conda"}, wheels: []string{"demo-pkg-1.5", "markupsafe-3.0.2"},
					channel: site.channel + "/lab", more: "spare",
				})
			}
			config, err := img.ConfigFile()
			if err != nil {
				t.Fatal(err)
			}
			var by []string
			for _, h := range config.History {
				if strings.HasPrefix(h.CreatedBy, "pypi: ") {
					by = append(by, h.CreatedBy)
				}
			}
			slices.Sort(by)
			if !slices.Equal(by, []string{"pypi: demo-pkg 1.5", "pypi: markupsafe 3.0.2"}) {
				t.Errorf("%s: the layers of wheels are %q", filepath.Base(lock), by)
			}
		}
		if digests[0] != digests[1] {
			t.Errorf("%s: two servers built %q", filepath.Base(lock), digests)
		}
	}
	site.commands(t, one)
}

// commands checks the output of other commands for wheels.
func (s *wheelSite) commands(t *testing.T, p *program) {
	t.Helper()
	lock := s.pixi()
	for _, c := range []struct {
		args []string
		want []string
	}{
		{[]string{"lock", "--file", lock, "--format", "pixi"}, []string{"- pypi: " + s.host + "/packages/demo_pkg-1.5-py3-none-any.whl", "requires_python: \">=3.8\"", "extra == 'color'"}},
		{[]string{"lock", "--file", lock, "--format", "conda-lock"}, []string{"manager: pip", "markupsafe: \">=2\""}},
		{[]string{"lock", "--file", lock, "--json", "locks"}, []string{`"demo-pkg"`, `"pypi_0"`}},
		{[]string{"explain", "--why", "markupsafe", "--file", lock}, []string{"demo-pkg"}},
		{[]string{"licenses", lock}, []string{"demo-pkg", "markupsafe", "PSF-2.0"}},
		{[]string{"lock", "diff", lock, s.pixi("markupsafe\n", "markupsafe2\n", "MarkupSafe-3.0.2", "markupsafe2-3.0.2")}, []string{"markupsafe2", "PyPI"}},
	} {
		out, errs, err := p.slipway(c.args...)
		if c.args[1] == "diff" {
			err = nil // the command exits with a specific code if the locks differ
		}
		for _, want := range c.want {
			if err != nil || !strings.Contains(out, want) {
				t.Errorf("%v: %v, it lacks %q:\n%s%s", c.args, err, want, out, errs)
			}
		}
	}
	if out, errs, err := p.slipway("lock", "--file", lock); err == nil || !strings.Contains(errs, "cannot list wheels") {
		t.Errorf("as an explicit list: %s%s %v", out, errs, err)
	}
}

// judgeWheels reads the wheels of an image with the image's own Python and with pip.
func judgeWheels(t *testing.T, content map[string]string) {
	t.Helper()
	root := t.TempDir()
	folders := map[string]bool{}
	for path := range content {
		for dir := filepath.Dir(path); dir != "."; dir = filepath.Dir(dir) {
			folders[dir] = true
		}
	}
	for path, text := range content {
		file := filepath.Join(root, path)
		if folders[filepath.Clean(path)] || !strings.HasPrefix(path, "opt/conda/") {
			continue
		}
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	prefix := filepath.Join(root, "opt", "conda")
	python := filepath.Join(prefix, "bin", "python3.11")
	run := func(args ...string) string {
		cmd := exec.CommandContext(t.Context(), args[0], args[1:]...)
		cmd.Env = append(os.Environ(), "LD_LIBRARY_PATH="+prefix+"/lib", "PYTHONPATH="+prefix+"/lib/python3.11/site-packages", "PYTHONDONTWRITEBYTECODE=1")
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%q: %v\n%s", args, err, out)
		}
		return string(out)
	}
	const verify = `
import base64, hashlib, importlib.metadata as m
found = []
for d in m.distributions():
    if d.metadata["Name"].lower() not in ("demo-pkg", "markupsafe"):
        continue
    for f in d.files:
        raw = f.locate().read_bytes()
        if f.hash:
            assert f.size == len(raw), f
            assert f.hash.value == base64.urlsafe_b64encode(hashlib.new(f.hash.mode, raw).digest()).decode().rstrip("="), f
    found.append((d.metadata["Name"], d.version, len(d.files), d.read_text("INSTALLER").strip()))
import markupsafe._speedups
print(sorted(found))
`
	if got, want := run(python, "-c", verify), "[('MarkupSafe', '3.0.2', 12, 'slipway'), ('demo-pkg', '1.5', 9, 'slipway')]\n"; got != want {
		t.Errorf("Python finds %s, want %s", got, want)
	}
	for _, name := range []string{"demo-run", "demo-script"} {
		program := filepath.Join(prefix, "bin", name)
		if got := run(python, program); got != "demo &lt;\n" {
			t.Errorf("%s prints %q", name, got)
		}
		if text := content["opt/conda/bin/"+name]; !strings.HasPrefix(text, "#!/opt/conda/bin/python3.11\n") {
			t.Errorf("%s begins %.60q", name, text)
		}
	}
	pip, err := exec.LookPath("pip3")
	if err != nil {
		t.Log("NOT JUDGED: no pip reads this environment")
		return
	}
	var list []struct{ Name, Version string }
	if err := json.Unmarshal([]byte(run(pip, "--disable-pip-version-check", "list", "--format", "json", "--path", prefix+"/lib/python3.11/site-packages")), &list); err != nil {
		t.Fatal(err)
	}
	if len(list) != 2 || list[0].Name+list[1].Name != "demo-pkgMarkupSafe" {
		t.Errorf("pip list prints %v", list)
	}
	if got := run(pip, "--disable-pip-version-check", "--python", python, "check"); !strings.Contains(got, "No broken requirements found") {
		t.Errorf("pip check prints %q", got)
	}
}

// TestWheelsThatAreRefused checks that locks with unsupported wheels are rejected before a
// build.
func TestWheelsThatAreRefused(t *testing.T) {
	t.Parallel()
	up, site := testkit.NewRegistry(t, testkit.Open), newWheelSite(t)
	base := up.Push(t, "base/one:1", testkit.Image(t, "amd64", true))
	public := oneProcess(t, common(t, []string{up.Host}, bare(site.channel)))
	with := bare(site.channel)
	with["conda_pypi_hosts"] = site.host
	mirror := oneProcess(t, common(t, []string{up.Host}, with))
	for _, c := range []struct {
		p    *program
		lock string
		want string
	}{
		{public, site.pixi(), "demo_pkg-1.5-py3-none-any.whl is at " + site.host + ", from which this server accepts none"},
		{mirror, site.pixi("-py3-none-any.whl", ".tar.gz"), "demo_pkg-1.5.tar.gz is not a wheel, and nothing is built from source"},
		{mirror, site.pixi("cp311-cp311-", "cp312-cp312-"), "it is for cp312 (cp312) and not for Python 3.11"},
		{mirror, site.pixi("manylinux_2_17_x86_64.manylinux2014_x86_64", "musllinux_1_2_x86_64"), "it is for musllinux_1_2_x86_64 and not for linux-64"},
		{mirror, site.pixi(sumOf(site.wheels[markupSafe]), strings.Repeat("0", 64)), "does not match the lock"},
	} {
		_, errs, err := c.p.slipway("conda", "--await", "--base-image", base, "--platform", "linux/amd64", "--file", c.lock)
		if err == nil || !strings.Contains(errs, c.want) {
			t.Errorf("%s %v, want %q", errs, err, c.want)
		}
	}
}

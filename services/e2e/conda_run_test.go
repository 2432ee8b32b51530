package e2e

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"

	"slipway.dev/services/internal/testkit"
)

// prefixOfBuild is the build prefix of the packages of these tests.
var prefixOfBuild = "/home/conda/feedstock_root/build_artifacts/" + strings.Repeat("placehold_", 18)

// packedFile is a file of a package.
type packedFile struct {
	path, content, link string
	mode                int64
	// prefix is how the file contains prefixOfBuild: "text", "binary", or "" for not at all.
	prefix string
}

// madePackage is a package that a test creates.
type madePackage struct {
	name, version, subdir string
	// build is "h0_0" if it is empty.
	build   string
	depends []string
	license string
	files   []packedFile
	// entryPoints are the entry points of a noarch Python package.
	entryPoints []string
}

func (p madePackage) index() map[string]any {
	out := map[string]any{
		"name": p.name, "version": p.version, "build": cmp.Or(p.build, "h0_0"), "build_number": 0, "subdir": p.subdir,
		"depends": append([]string{}, p.depends...), "timestamp": 1_700_000_000_000,
	}
	if p.subdir == "noarch" {
		out["noarch"] = "python"
	}
	if p.license != "" {
		out["license"] = p.license
	}
	return out
}

// write creates the artifact.
func (p madePackage) write(t testing.TB) (file string, raw []byte) {
	t.Helper()
	base := p.name + "-" + p.version + "-" + cmp.Or(p.build, "h0_0")
	var paths []map[string]any
	for _, f := range p.files {
		entry := map[string]any{"_path": f.path, "path_type": "hardlink"}
		if f.link != "" {
			entry["path_type"] = "softlink"
		}
		if f.prefix != "" {
			entry["file_mode"], entry["prefix_placeholder"] = f.prefix, prefixOfBuild
		}
		paths = append(paths, entry)
	}
	document := func(path string, v any) packedFile {
		raw, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		return packedFile{path: path, content: string(raw), mode: 0o644}
	}
	info := []packedFile{document("info/index.json", p.index()), document("info/paths.json", map[string]any{"paths": paths, "paths_version": 1})}
	if p.subdir == "noarch" {
		info = append(info, document("info/link.json", map[string]any{
			"package_metadata_version": 1, "noarch": map[string]any{"type": "python", "entry_points": p.entryPoints},
		}))
	}
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	for name, files := range map[string][]packedFile{"info-" + base: info, "pkg-" + base: p.files} {
		w, err := z.CreateHeader(&zip.FileHeader{Name: name + ".tar.zst", Method: zip.Store})
		if err == nil {
			_, err = w.Write(packTar(t, files))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return base + ".conda", b.Bytes()
}

// packTar returns a .tar.zst.
func packTar(t testing.TB, files []packedFile) []byte {
	t.Helper()
	var b bytes.Buffer
	packer, err := zstd.NewWriter(&b, zstd.WithEncoderConcurrency(1))
	if err != nil {
		t.Fatal(err)
	}
	out := tar.NewWriter(packer)
	for _, f := range files {
		h := &tar.Header{Typeflag: tar.TypeReg, Name: f.path, Size: int64(len(f.content)), Mode: f.mode, ModTime: time.Unix(1_700_000_000, 0)}
		if f.link != "" {
			h.Typeflag, h.Linkname = tar.TypeSymlink, f.link
		}
		if err := out.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		if _, err := out.Write([]byte(f.content)); err != nil {
			t.Fatal(err)
		}
	}
	if err := out.Close(); err != nil {
		t.Fatal(err)
	}
	if err := packer.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// madeChannel serves packages that a test has created.
func madeChannel(t testing.TB, packages ...madePackage) *httptest.Server {
	t.Helper()
	files, lists := map[string][]byte{}, map[string]map[string]any{}
	for _, p := range packages {
		file, raw := p.write(t)
		sum, rec := sha256.Sum256(raw), p.index()
		rec["sha256"], rec["size"] = hex.EncodeToString(sum[:]), len(raw)
		if lists[p.subdir] == nil {
			lists[p.subdir] = map[string]any{}
		}
		lists[p.subdir][file], files[p.subdir+"/"+file] = rec, raw
	}
	for subdir, list := range lists {
		raw, err := json.Marshal(map[string]any{"packages": map[string]any{}, "packages.conda": list})
		if err != nil {
			t.Fatal(err)
		}
		files[subdir+"/repodata.json"] = raw
	}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, file, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/") // the same below any channel name
		raw, ok := files[file]
		if !ok {
			http.NotFound(w, r)
			return
		}
		_, _ = w.Write(raw)
	}))
	t.Cleanup(s.Close)
	return s
}

// greet is a package with a program that contains a path, terminated by NUL, and prints the
// file at that path.
func greet(t testing.TB, goarch string) madePackage {
	t.Helper()
	dir, path := t.TempDir(), prefixOfBuild+"/share/greeting"
	numbers := make([]string, len(path)+50)
	for i := range numbers {
		numbers[i] = "0"
		if i < len(path) {
			numbers[i] = strconv.Itoa(int(path[i]))
		}
	}
	source := "package main\n\nimport (\n\t\"bytes\"\n\t\"fmt\"\n\t\"os\"\n)\n\nvar place = [...]byte{" + strings.Join(numbers, ", ") + "}\n\n" +
		"func main() {\n\tpath, _, _ := bytes.Cut(place[:], []byte{0})\n\traw, _ := os.ReadFile(string(path))\n\tfmt.Printf(\"%s: %s\\n\", path, raw)\n}\n"
	if err := os.WriteFile(filepath.Join(dir, "main.go"), []byte(source), 0o600); err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(dir, "greet")
	if err := goBuild([]string{"CGO_ENABLED=0", "GOOS=linux", "GOARCH=" + goarch}, "-trimpath", "-o", program, filepath.Join(dir, "main.go")); err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile(program)
	if err != nil {
		t.Fatal(err)
	}
	return madePackage{name: "greet", version: "1.0", subdir: map[string]string{"amd64": "linux-64", "arm64": "linux-aarch64"}[goarch], files: []packedFile{
		{path: "bin/greet", content: string(raw), mode: 0o755, prefix: "binary"},
		{path: "bin/tool", content: "#!" + prefixOfBuild + "/bin/greet\n", mode: 0o755, prefix: "text"},
		{path: "share/greeting", content: "hello of a package", mode: 0o644},
	}}
}

// debianPython is Debian's Python interpreter as a package, with the site-packages folder of
// Conda, which Debian does not use.
func debianPython(t testing.TB) madePackage {
	t.Helper()
	const program, library = "/usr/bin/python3.11", "/usr/lib/python3.11"
	read := func(path string) string {
		raw, err := os.ReadFile(path)
		if err != nil {
			t.Fatalf("%v: apt-get install python3", err)
		}
		return string(raw)
	}
	p := madePackage{name: "python", version: "3.11.2", subdir: "linux-64", files: []packedFile{
		{path: "bin/python3.11", content: read(program), mode: 0o755},
		{path: "bin/python", link: "python3.11", mode: 0o777},
		{path: "lib/libexpat.so.1", content: read("/lib/x86_64-linux-gnu/libexpat.so.1"), mode: 0o644},
		{path: "lib/python3.11/sitecustomize.py", content: "import site\nsite.addsitedir('" + prefixOfBuild + "/lib/python3.11/site-packages')\n", mode: 0o644, prefix: "text"},
		{path: "etc/conda/env_vars.d/python.json", content: `{"LD_LIBRARY_PATH": "/opt/conda/lib", "GREETING": "of the package"}`, mode: 0o644},
	}}
	err := filepath.WalkDir(library, func(path string, d fs.DirEntry, err error) error {
		switch rel, _ := filepath.Rel(library, path); {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == "__pycache__" || d.Name() == "test" || strings.HasPrefix(d.Name(), "config-")):
			return filepath.SkipDir
		case d.Type().IsRegular() && rel != "sitecustomize.py":
			p.files = append(p.files, packedFile{path: "lib/python3.11/" + rel, content: read(path), mode: 0o644})
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// helloPython is a noarch Python package with a program.
func helloPython() madePackage {
	return madePackage{
		name: "hello", version: "2.0", subdir: "noarch", depends: []string{"python >=3.8"}, entryPoints: []string{"hello = hello.say:main"},
		files: []packedFile{
			{path: "site-packages/hello/__init__.py", mode: 0o644},
			{path: "site-packages/hello/say.py", content: "import os, sys\n\ndef main():\n    print('hello', sys.prefix, os.environ['GREETING'], __file__)\n", mode: 0o644},
			{path: "python-scripts/shout", content: "#!" + prefixOfBuild + "/bin/python\nprint('SHOUT " + prefixOfBuild + "')\n", mode: 0o755, prefix: "text"},
		},
	}
}

// TestCondaImageRuns runs images that were assembled from packages: programs and scripts that
// contain the prefix, entry points, and noarch Python packages with an interpreter.
func TestCondaImageRuns(t *testing.T) {
	needClients(t)
	up := testkit.NewRegistry(t, testkit.Open)
	channel := madeChannel(t, greet(t, "amd64"), greet(t, "arm64"), debianPython(t), helloPython(), madePackage{name: "spare", version: "1.0", subdir: "linux-64"})
	base := up.Push(t, "base/debian:bookworm", debian(t))
	small := up.Push(t, "base/index:1", testkit.Index(t, true, "amd64", "arm64"))
	running := engines(t)
	eachCopyShape(t, []string{up.Host}, unraced(bare(channel.URL)), func(t *testing.T, p *program) {
		order := environment(base, "greet", "hello")
		order["containerConfig"] = map[string]any{"cmd": []string{"sh", "-c", "greet && tool && hello && shout"}}
		answer := p.order(order)
		if s := p.finished(t, answer); s["succeeded"] != true {
			t.Fatalf("the build ended as %v:\n%s", s, p.logOf(answer))
		}
		const greeting = "/opt/conda/share/greeting: hello of a package\n"
		want := greeting + greeting + "hello /opt/conda of the package /opt/conda/lib/python3.11/site-packages/hello/say.py\nSHOUT /opt/conda\n"
		for _, e := range running {
			t.Run(e.name, func(t *testing.T) {
				if got := e.run(t, text(answer, "targetImage")); got != want {
					t.Errorf("the container printed %q, want %q", got, want)
				}
			})
		}
		for _, c := range copiers() {
			t.Run(c.name, func(t *testing.T) {
				output(t, t.TempDir(), c.args(text(answer, "targetImage"), filepath.Join(t.TempDir(), "image"))...)
			})
		}
		if len(p.procs) == 1 { // the other shape has the same digest
			p.judgeBuild(t, answer, files(t, pull(t, text(answer, "targetImage"), "amd64")), judged{channel: channel.URL + "/lab", more: "spare"})
		}
		t.Run("arm64", func(t *testing.T) { p.runsForArm(t, small) })
	})
}

// TestCondaImageCompiled checks that Python modules are compiled if the request sets compile,
// so that Python never checks their sources.
func TestCondaImageCompiled(t *testing.T) {
	needClients(t)
	up := testkit.NewRegistry(t, testkit.Open)
	channel := madeChannel(t, debianPython(t), helloPython())
	base := up.Push(t, "base/debian:bookworm", debian(t))
	p := oneProcess(t, common(t, []string{up.Host}, unraced(settings{"conda_channel_alias": channel.URL, "conda_solve_wait": "20s"})))
	order := environment(base, "hello")
	order["packages"].(map[string]any)["condaOpts"].(map[string]any)["compile"] = true
	answer := p.order(order)
	if s := p.finished(t, answer); s["succeeded"] != true {
		t.Fatalf("the build ended as %v:\n%s", s, p.logOf(answer))
	}
	compiled := files(t, pull(t, text(answer, "targetImage"), "amd64"))["opt/conda/lib/python3.11/site-packages/hello/__pycache__/say.cpython-311.pyc"]
	const unchecked = 1 // PEP 552: hash-based and unchecked
	if len(compiled) < 16 || binary.LittleEndian.Uint32([]byte(compiled[4:8])) != unchecked {
		t.Errorf("the compiled module begins with %.16q:\n%s", compiled, p.logOf(answer))
	}
}

// runsForArm runs the program of an arm64 package.
func (p *program) runsForArm(t *testing.T, base string) {
	order := environment(base, "greet")
	order["containerPlatform"] = "linux/arm64"
	answer := p.order(order)
	if s := p.finished(t, answer); s["succeeded"] != true {
		t.Fatalf("the build ended as %v:\n%s", s, p.logOf(answer))
	}
	content := files(t, pull(t, text(answer, "targetImage"), "arm64"))["opt/conda/bin/greet"]
	if !strings.Contains(content, "/opt/conda/share/greeting\x00") || strings.Contains(content, prefixOfBuild) {
		t.Error("the program does not contain the prefix of the image")
	}
	qemu, err := exec.LookPath("qemu-aarch64-static")
	if err != nil {
		t.Skip("needs qemu-aarch64-static: apt-get install qemu-user-static")
	}
	program := filepath.Join(t.TempDir(), "greet")
	if err := os.WriteFile(program, []byte(content), 0o700); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command(qemu, program).CombinedOutput()
	if err != nil || !strings.HasPrefix(string(out), "/opt/conda/share/greeting: ") {
		t.Errorf("it printed %q, %v", out, err)
	}
}

// nobodyID is the id of an unprivileged user.
const nobodyID = 65534

// TestCondaAsOrdinaryUser runs the program as an unprivileged user without any other files. It
// must build an image of packages that runs.
func TestCondaAsOrdinaryUser(t *testing.T) {
	needClients(t)
	up := testkit.NewRegistry(t, testkit.Open)
	channel := madeChannel(t, greet(t, "amd64"))
	base := up.Push(t, "base/busybox:1", busybox(t, true))
	home := t.TempDir()
	program, err := os.ReadFile(plain())
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(home, "slipwayd"), program, 0o755); err != nil { // in a folder without the other programs
		t.Fatal(err)
	}
	if err := os.Chmod(filepath.Dir(home), 0o755); err != nil { // the folder of the test is private by default
		t.Fatal(err)
	}
	data := filepath.Join(home, "data")
	if err := os.Mkdir(data, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(data, nobodyID, nobodyID); err != nil {
		t.Fatal(err)
	}
	web, admin := "127.0.0.1:"+testkit.FreePort(t), "127.0.0.1:"+testkit.FreePort(t)
	cmd := exec.Command(filepath.Join(home, "slipwayd"), "serve")
	cmd.Dir = "/"
	var said bytes.Buffer
	cmd.Stderr = &said
	for k, v := range map[string]string{
		"http_addr": web, "admin_addr": admin, "public_url": "http://" + web, "data_dir": data, "store_addr": "127.0.0.1:" + testkit.FreePort(t),
		"platform_http_addr": "127.0.0.1:" + testkit.FreePort(t), "egress_allow": "127.0.0.0/8", "insecure_registries": up.Host,
		"conda_channel_alias": channel.URL, "conda_base_image": base, "conda_solve_wait": "20s",
	} {
		cmd.Env = append(cmd.Env, "SLIPWAY_"+strings.ToUpper(k)+"="+v)
	}
	cmd.Env = append(cmd.Env, "PATH=/nowhere", "HOME="+data)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Credential: &syscall.Credential{Uid: nobodyID, Gid: nobodyID}}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if t.Failed() {
			t.Logf("log of slipwayd:\n%s", tail(said.String(), 6000))
		}
	})
	if err := within(time.Minute, func() error { return get("http://" + admin + "/readyz") }); err != nil {
		t.Fatal(err)
	}
	slipway := exec.Command(filepath.Join(binaries, "slipway"), "conda", "greet=1.0", "--channel", "lab", "--base-packages", "", "--await")
	slipway.Env = []string{"SLIPWAY_SERVER=http://" + web, "HOME=" + home, "PATH=" + os.Getenv("PATH")}
	var log bytes.Buffer
	slipway.Stderr = &log
	out, err := slipway.Output()
	if err != nil {
		t.Fatalf("slipway: %v\n%s", err, log.String())
	}
	image := strings.TrimSpace(string(out))
	d := startDocker(t)
	got := output(t, d.home, "docker", "-H", d.socket(), "run", "--rm", "--network=host", image, "greet")
	if want := "/opt/conda/share/greeting: hello of a package\n"; got != want {
		t.Errorf("the container printed %q, want %q", got, want)
	}
	if strings.Contains(log.String(), "buildkit") {
		t.Errorf("the log of the build is\n%s", log.String())
	}
}

package e2e

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"

	"slipway.dev/services/internal/testkit"
)

// pipelineTools is the number of environments of the pipeline, and pipelineLibraries that of the
// packages that they share.
const pipelineTools, pipelineLibraries = 60, 8

// A pipelineChannel is the Conda channel of a pipeline: each tool is a small package that needs four of
// the large libraries.
type pipelineChannel struct {
	*httptest.Server
	files map[string][]byte
	list  map[string]any
}

func newPipelineChannel(t testing.TB) *pipelineChannel {
	t.Helper()
	c := &pipelineChannel{files: map[string][]byte{}, list: map[string]any{}}
	for n := range pipelineLibraries {
		c.add(t, fmt.Sprintf("lib%d", n), 1, 1_000_000)
	}
	for n := range pipelineTools {
		var needs []string
		for l := range 4 {
			needs = append(needs, fmt.Sprintf("lib%d", (n+l)%pipelineLibraries))
		}
		for version := 1; version <= 2; version++ {
			c.add(t, fmt.Sprintf("tool%02d", n), version, 100_000, needs...)
		}
	}
	c.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		file := filepath.Base(r.URL.Path)
		switch subdir := filepath.Base(filepath.Dir(r.URL.Path)); {
		case subdir != "linux-64":
			http.NotFound(w, r)
		case file == "repodata.json":
			_ = json.NewEncoder(w).Encode(map[string]any{"packages": map[string]any{}, "packages.conda": c.list})
		case c.files[file] != nil:
			_, _ = w.Write(c.files[file])
		default:
			http.NotFound(w, r)
		}
	}))
	t.Cleanup(c.Close)
	return c
}

// add adds a package with one file of random content.
func (c *pipelineChannel) add(t testing.TB, name string, version, size int, needs ...string) {
	t.Helper()
	content := make([]byte, size)
	random := rand.NewChaCha8(sha256.Sum256([]byte(name + fmt.Sprint(version))))
	_, _ = random.Read(content) // never fails
	stem := fmt.Sprintf("%s-%d.0-0", name, version)
	path := "share/" + name + "/data"
	record := map[string]any{"name": name, "version": fmt.Sprintf("%d.0", version), "build": "0", "build_number": 0, "depends": append([]string{}, needs...), "subdir": "linux-64"}
	listing := map[string]any{"paths_version": 1, "paths": []any{map[string]any{"_path": path, "path_type": "hardlink"}}}
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	for _, member := range []struct {
		name string
		raw  []byte
	}{
		{"metadata.json", []byte(`{"conda_pkg_format_version":2}`)},
		{"pkg-" + stem + ".tar.zst", zstdTar(t, path, content)},
		{"info-" + stem + ".tar.zst", zstdTar(t, "info/index.json", encoded(t, record), "info/paths.json", encoded(t, listing))},
	} {
		w, err := z.CreateHeader(&zip.FileHeader{Name: member.name, Method: zip.Store})
		if err == nil {
			_, err = w.Write(member.raw)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(b.Bytes())
	record["sha256"], record["size"] = hex.EncodeToString(sum[:]), b.Len()
	c.files[stem+".conda"], c.list[stem+".conda"] = b.Bytes(), record
}

func encoded(t testing.TB, v any) []byte {
	t.Helper()
	raw, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// zstdTar returns a compressed tar of files, given as paths and contents.
func zstdTar(t testing.TB, pathsAndContents ...any) []byte {
	t.Helper()
	var b bytes.Buffer
	packed, err := zstd.NewWriter(&b)
	if err != nil {
		t.Fatal(err)
	}
	w := tar.NewWriter(packed)
	for i := 0; i < len(pathsAndContents); i += 2 {
		path, _ := pathsAndContents[i].(string)
		content, _ := pathsAndContents[i+1].([]byte)
		err := w.WriteHeader(&tar.Header{Name: path, Mode: 0o644, Size: int64(len(content)), Format: tar.FormatPAX})
		if err == nil {
			_, err = w.Write(content)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if err := packed.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// environments writes the environment files of the pipeline, of which the first have the second version
// of their tool.
func environments(t testing.TB, dir string, changed int) (paths []string) {
	t.Helper()
	for n := range pipelineTools {
		path, version := filepath.Join(dir, fmt.Sprintf("tool%02d.yml", n)), 1
		if n < changed {
			version = 2
		}
		if err := os.WriteFile(path, fmt.Appendf(nil, "channels: [lab]\ndependencies: [tool%02d=%d.0]\n", n, version), 0o600); err != nil {
			t.Fatal(err)
		}
		paths = append(paths, path)
	}
	return paths
}

// sizeOf returns the bytes of all files in a folder.
func sizeOf(t testing.TB, dir string) (bytes int64) {
	t.Helper()
	err := filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if err == nil {
			bytes += info.Size()
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return bytes
}

// bundleArgs returns the command that bundles inputs.
func bundleArgs(folder, base string, inputs ...string) []string {
	return append([]string{"bundle", "--to", folder, "--lock", "", "--base-image", base, "--base-packages", "", "--timeout", "2m"}, inputs...)
}

// interrupted runs a command of `slipway bundle` and kills it when its folder has some blobs.
func (p *program) interrupted(t *testing.T, folder string, args []string) {
	t.Helper()
	cmd := exec.Command(filepath.Join(binaries, "slipway"), args...)
	cmd.Env = append(os.Environ(), "SLIPWAY_SERVER="+p.url, "SLIPWAY_TOKEN="+p.token)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	err := within(3*time.Minute, func() error {
		blobs, err := os.ReadDir(filepath.Join(folder, "blobs", "sha256"))
		if err == nil && len(blobs) < 20 {
			err = fmt.Errorf("there are %d blobs", len(blobs))
		}
		return err
	})
	_ = cmd.Process.Signal(syscall.SIGKILL)
	_ = cmd.Wait()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(folder, "index.json")); err == nil {
		t.Error("the command ended before it was killed")
	}
}

// TestBundle bundles the environments of a pipeline and its next release, for a machine without a
// network, where the images are served without Slipway.
func TestBundle(t *testing.T) {
	t.Parallel()
	up, channel := testkit.NewRegistry(t, testkit.Open), newPipelineChannel(t)
	base := up.Push(t, "base/one:1", testkit.Image(t, "amd64", true))
	p := oneProcess(t, common(t, []string{up.Host}, bare(channel.URL)))
	dir := t.TempDir()
	first, next := filepath.Join(dir, "first"), filepath.Join(dir, "next.tar")
	folder := t.TempDir()
	envs := environments(t, folder, 0)
	ok := func(args ...string) string {
		t.Helper()
		out, errs, err := p.slipway(args...)
		if err != nil {
			t.Fatalf("slipway %s: %v\n%s%s", strings.Join(args[:2], " "), err, out, errs)
		}
		return out
	}
	p.interrupted(t, first, bundleArgs(first, base, envs...))
	ok(bundleArgs(first, base, envs...)...)
	var list struct {
		Images []struct {
			Image, Digest string
			Size          int64
		}
	}
	if err := json.Unmarshal([]byte(ok("bundle", "list", first, "--verify", "-o", "json")), &list); err != nil || len(list.Images) != pipelineTools {
		t.Fatalf("the bundle has %d images, %v", len(list.Images), err)
	}
	var single int64
	for _, i := range list.Images {
		single += i.Size
	}
	whole := sizeOf(t, first)
	t.Logf("the bundle has %d bytes, and its images %d: %.1f%%", whole, single, 100*float64(whole)/float64(single))
	if whole*4 > single {
		t.Errorf("the bundle has %d bytes, and its images %d", whole, single)
	}

	environments(t, folder, pipelineTools/10)
	ok(append(bundleArgs(next, base, envs...), "--have", first)...)
	update := sizeOf(t, next)
	t.Logf("the next release has %d bytes: %.1f%% of the first", update, 100*float64(update)/float64(whole))
	if update*10 > whole {
		t.Errorf("the next release has %d bytes, and the first %d", update, whole)
	}
	p.procs[0].kill()
	channel.Close()
	up.Empty(t)

	t.Run("served", func(t *testing.T) { checkServed(t, p, first, next) })
	t.Run("damaged", func(t *testing.T) {
		blob := filepath.Join(first, "blobs", "sha256", largest(t, filepath.Join(first, "blobs", "sha256")))
		raw, err := os.ReadFile(blob)
		if err != nil {
			t.Fatal(err)
		}
		raw[len(raw)/2] ^= 1
		if err := os.WriteFile(blob, raw, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, errs, err := p.slipway("bundle", "list", first, "--verify"); err == nil || !strings.Contains(errs, "sha256:"+filepath.Base(blob)+" was changed") {
			t.Errorf("a flipped bit: %v %s", err, errs)
		}
	})
}

// TestBundleLock bundles what a lock file records: an image of packages, which another server builds
// from its lock, and an image for two platforms by its digest.
func TestBundleLock(t *testing.T) {
	t.Parallel()
	up, channel := testkit.NewRegistry(t, testkit.Open), newPipelineChannel(t)
	base := up.Push(t, "base/one:1", testkit.Image(t, "amd64", true))
	index := testkit.Index(t, true, "amd64", "arm64")
	image := up.Push(t, "lab/both:1", index)
	dir := t.TempDir()
	env, requests, lock, folder := environments(t, dir, 0)[0], filepath.Join(dir, "requests.jsonl"), filepath.Join(dir, "slipway.lock"), filepath.Join(dir, "bundle")
	if err := os.WriteFile(requests, []byte(`{"containerImage":"`+image+`"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	p := oneProcess(t, common(t, []string{up.Host}, bare(channel.URL)))
	if out, errs, err := p.slipway("batch", env, requests, "--await", "--lock", lock, "--base-image", base, "--base-packages", ""); err != nil {
		t.Fatalf("%v\n%s%s", err, out, errs)
	}
	up.Push(t, "lab/both:1", testkit.Index(t, true, "amd64")) // the tag moves
	out, errs, err := p.slipway(append(bundleArgs(folder, base, lock), "-o", "json")...)
	var got struct {
		Results []struct{ Digest, Status, Message string }
	}
	if err != nil || json.Unmarshal([]byte(out), &got) != nil || len(got.Results) != 2 {
		t.Fatalf("%v\n%s%s", err, out, errs)
	}
	raw, err := os.ReadFile(lock)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range got.Results {
		if r.Status != "ready" || r.Message != "" || !strings.Contains(string(raw), r.Digest) {
			t.Errorf("%+v is not in the lock file %s", r, raw)
		}
	}
	list, errs, err := p.slipway("bundle", "list", folder, "--verify")
	if err != nil || !strings.Contains(list, image) || !strings.Contains(list, digestOf(t, index)) || !strings.Contains(list, "linux/amd64,linux/arm64") || !strings.Contains(list, ":tool00-1.0") {
		t.Errorf("the bundle has %v\n%s%s", err, list, errs)
	}
}

func largest(t testing.TB, dir string) (name string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	size := int64(-1)
	for _, e := range entries {
		if info, err := e.Info(); err == nil && info.Size() > size {
			name, size = e.Name(), info.Size()
		}
	}
	return name
}

// checkServed serves bundles and pulls an image of the next release by the name that the server had
// issued.
func checkServed(t *testing.T, p *program, folders ...string) {
	t.Helper()
	host := "127.0.0.1:" + testkit.FreePort(t)
	cmd := exec.Command(filepath.Join(binaries, "slipway"), append([]string{"bundle", "serve", "--listen", host}, folders...)...)
	errs := &testkit.Output{}
	cmd.Stderr = errs
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if err := within(time.Minute, func() error { return get("http://" + host + "/v2/") }); err != nil {
		t.Fatalf("%v\n%s", err, errs)
	}
	out, _, err := p.slipway("bundle", "list", folders[len(folders)-1], "-o", "name")
	if err != nil {
		t.Fatal(err)
	}
	image := ""
	for name := range strings.Lines(out) {
		if strings.Contains(name, ":tool00-2.0") {
			image = strings.Replace(strings.TrimSpace(name), p.host, host, 1)
		}
	}
	if content := files(t, pull(t, image, "amd64")); content["opt/conda/share/tool00/data"] == "" || content["opt/conda/share/lib3/data"] == "" {
		t.Errorf("the image %s has %d files, without those of its packages", image, len(content))
	}
	if _, err := exec.LookPath("skopeo"); err == nil {
		if out, err := exec.Command("skopeo", "--insecure-policy", "copy", "--src-tls-verify=false", "docker://"+image, "oci:"+t.TempDir()+":copy").CombinedOutput(); err != nil {
			t.Errorf("skopeo: %v\n%s", err, out)
		}
	} else if testkit.Real() {
		t.Error("skopeo is not installed")
	}
	if _, err := exec.LookPath("podman"); err == nil && testkit.Real() {
		home := t.TempDir()
		output(t, home, "podman", "--root", home+"/images", "--runroot", "/run/podman", "--storage-driver", "vfs", "--cgroup-manager", "cgroupfs", "--events-backend", "file", "pull", "--tls-verify=false", image)
	}
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("serve ended with %v\n%s", err, errs)
	}
}

// TestGenuineBundle runs a pipeline of 40 processes on a machine without a network, with the four commands
// of docs/guide/offline.md: in a network namespace with a loopback interface only, and a Docker that
// has no images. It takes five minutes: with -concretize, Nextflow sends ten requests per minute.
func TestGenuineBundle(t *testing.T) {
	genuine(t)
	needClients(t)
	const tools = 38
	l := newLaboratory(t, nil, nil, smallPackages(tools)...)
	w := newDesk(t)
	w.write(t, "tools/main.nf", "process IMAGE { container '"+l.base+"'; debug true; script: 'echo \"image: $(cat /etc/debian_version)\"' }\nworkflow INNER { IMAGE() }\n")
	prints := []string{"string: samtools 1.20", "image: 12"}
	var main, call strings.Builder
	for i := range tools {
		fmt.Fprintf(&main, "process P%d { conda 'bioconda::tool-%d=1.0'; debug true; script: 'echo \"of $(cat /opt/conda/share/tool-%d).\"' }\n", i, i, i)
		fmt.Fprintf(&call, "P%d(); ", i)
		prints = append(prints, fmt.Sprintf("of tool-%d.", i))
	}
	w.write(t, "main.nf", `
include { INNER } from './tools'
process STRING { conda 'bioconda::samtools=1.20'; debug true; script: 'echo "string: $(samtools)"' }
`+main.String()+"workflow { STRING(); INNER(); "+call.String()+"}\n")
	w.write(t, "nextflow.config", waveConfig(l.program))
	printed := w.must(t, nil, "nextflow-"+nextflows[0], "inspect", "-concretize", "-format", "json", ".")
	begin, end := strings.Index(printed, "{"), strings.LastIndex(printed, "}")
	if begin < 0 || end < begin {
		t.Fatalf("nextflow inspect printed %s", printed)
	}
	w.write(t, "containers.json", printed[begin:end+1])
	out, errs, err := l.slipway("bundle", filepath.Join(w.dir, "containers.json"), "--to", filepath.Join(w.dir, "pipeline"), "--lock", "")
	if err != nil {
		t.Fatalf("%v\n%s%s", err, out, errs)
	}
	t.Logf("slipway bundle:\n%s\n%s", tail(out, 1000), errs)
	l.procs[0].kill()
	l.registry.Empty(t)

	for _, version := range nextflows {
		d := daemon{home: t.TempDir()}
		config := d.configuration(t)
		if err := os.RemoveAll(filepath.Join(w.dir, "offline.config")); err != nil {
			t.Fatal(err)
		}
		script := `
ip link set lo up
dockerd --config-file ` + config + ` > ` + d.home + `/log 2>&1 &
slipway bundle serve pipeline --nextflow-config offline.config &
for try in $(seq 600); do
	if docker -H ` + d.socket() + ` version > /dev/null 2>&1 && test -s offline.config; then break; fi
	sleep 0.1
done
ip -brief address
test -z "$(docker -H ` + d.socket() + ` images --quiet)"
` + filepath.Join(w.clients, "bin", "nextflow-"+version) + ` run . -c offline.config -offline`
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
		defer cancel()
		cmd := sandbox(ctx, d.home, "bash", "-ec", script)
		cmd.Dir, cmd.Env = w.dir, append(w.env, "PATH=/usr/sbin:/usr/bin:/sbin:/bin:"+binaries, "DOCKER_HOST="+d.socket())
		cmd.SysProcAttr.Cloneflags |= syscall.CLONE_NEWNET
		var printed bytes.Buffer
		cmd.Stdout, cmd.Stderr = &printed, &printed
		began := time.Now()
		if err := cmd.Run(); err != nil {
			t.Fatalf("%v\n%s", err, tail(printed.String(), 6000))
		}
		t.Logf("with Nextflow %s, in %v:\n%s", version, time.Since(began).Round(time.Second), tail(printed.String(), 3000))
		w.check(t, printed.String(), prints, "nextflow-"+version, nil)
		if strings.Contains(printed.String(), "UP ") {
			t.Errorf("the machine has a network:\n%s", printed.String())
		}
	}
}

// TestBundleSif bundles the image and the Singularity image of an environment and of an existing image, and serves
// them without the server.
func TestBundleSif(t *testing.T) {
	t.Parallel()
	up, channel := testkit.NewRegistry(t, testkit.Open), newPipelineChannel(t)
	base := up.Push(t, "base/one:1", testkit.Image(t, "amd64", true))
	p := oneProcess(t, common(t, []string{up.Host}, bare(channel.URL)))
	dir := t.TempDir()
	env, lock := environments(t, dir, 0)[0], filepath.Join(dir, "slipway.lock")
	must := func(args ...string) string {
		t.Helper()
		out, errs, err := p.slipway(args...)
		if err != nil {
			t.Fatalf("slipway %s: %v\n%s%s", strings.Join(args, " "), err, out, errs)
		}
		return out + errs
	}
	options := []string{"--base-image", base, "--base-packages", ""}
	must(append([]string{"batch", env, "--await", "--lock", lock}, options...)...)
	must(append([]string{"batch", env, "--await", "--lock", lock, "--sif"}, options...)...)
	for name, inputs := range map[string][]string{"files": {env, base}, "lock": {lock, base}} {
		file := filepath.Join(dir, name+".tar")
		out := must(append(append([]string{"bundle", "--to", file, "--lock", lock, "--sif"}, inputs...), options...)...)
		if strings.Count(out, "oras://") != 2 || strings.Contains(out, "instead of") {
			t.Errorf("%s: %s", name, out)
		}
		must("bundle", "list", file, "--verify")
	}
	p.procs[0].kill()
	up.Empty(t)
	host, _ := serveBundle(t, filepath.Join(dir, "lock.tar"))
	out, _, err := p.slipway("bundle", "list", filepath.Join(dir, "lock.tar"), "-o", "name")
	if err != nil {
		t.Fatal(err)
	}
	found := ""
	for name := range strings.Lines(out) {
		if strings.HasPrefix(name, "oras://"+p.host) && strings.HasSuffix(name, ".sif\n") {
			found = strings.Replace(strings.TrimSpace(name), p.host, host, 1)
		}
	}
	path, _ := pulledSif(t, found)
	if _, err := os.Stat(filepath.Join(unpackSif(t, path), "opt", "conda", "share", "tool00", "data")); err != nil {
		t.Errorf("%s: %v", found, err)
	}
}

// TestGenuineBundleApptainer bundles the images of a pipeline with their Singularity images into one file, from which
// an unprivileged user runs it with Apptainer, without the server and the registry.
func TestGenuineBundleApptainer(t *testing.T) {
	genuine(t)
	needClients(t)
	allowFuse(t)
	l := newLaboratory(t, nil, nil)
	w := newOrdinaryDesk(t)
	w.env = append(w.env, "APPTAINER_CACHEDIR="+w.dir+"/images")
	w.write(t, "main.nf", `
process STRING { conda 'bioconda::samtools=1.20'; debug true; script: 'echo "string: $(samtools)"' }
process IMAGE { container '`+l.base+`'; debug true; script: 'echo "image: $(cat /etc/debian_version)"' }
workflow { STRING(); IMAGE() }
`)
	w.write(t, "nextflow.config", waveConfig(l.program))
	printed := w.must(t, nil, "nextflow-"+nextflows[0], "inspect", "-concretize", "-format", "json", ".")
	begin, end := strings.Index(printed, "{"), strings.LastIndex(printed, "}")
	if begin < 0 || end < begin {
		t.Fatalf("nextflow inspect printed %s", printed)
	}
	w.write(t, "containers.json", printed[begin:end+1])
	pipeline := filepath.Join(w.dir, "pipeline.tar")
	out, errs, err := l.slipway("bundle", filepath.Join(w.dir, "containers.json"), "--to", pipeline, "--lock", "", "--sif")
	if err != nil || strings.Count(out, "oras://") != 2 {
		t.Fatalf("%v\n%s%s", err, out, errs)
	}
	t.Logf("slipway bundle:\n%s\n%s", out, errs)
	l.procs[0].kill()
	l.registry.Empty(t)
	host, config := serveBundle(t, "--engine", "apptainer", "--nextflow-config", filepath.Join(w.dir, "offline.config"), pipeline)
	raw, err := os.ReadFile(config)
	if err != nil || strings.Count(string(raw), "container = 'oras://"+host) != 2 {
		t.Fatalf("the configuration is %s, %v", raw, err)
	}
	_, image, _ := strings.Cut(string(raw), "withName: 'IMAGE' { container = '")
	image, _, _ = strings.Cut(image, "'")
	w.must(t, nil, "apptainer", "pull", "--no-https", "image.sif", image)
	w.must(t, []string{"12"}, "apptainer", "exec", "--no-privs", "image.sif", "cat", "/etc/debian_version")
	for _, version := range nextflows {
		w.write(t, "nextflow.config", "apptainer { enabled = true; envWhitelist = 'APPTAINER_CACHEDIR'; runOptions = '--no-privs' }\n")
		t.Logf("with Nextflow %s:\n%s", version, w.must(t, []string{"string: samtools 1.20", "image: 12"}, "nextflow-"+version, "run", ".", "-c", "offline.config", "-offline"))
	}
}

// serveBundle serves bundles until the test ends, and returns the address and the path of the configuration
// of Nextflow that args name.
func serveBundle(t *testing.T, args ...string) (host, config string) {
	t.Helper()
	host = "127.0.0.1:" + testkit.FreePort(t)
	cmd := exec.Command(filepath.Join(binaries, "slipway"), append([]string{"bundle", "serve", "--listen", host}, args...)...)
	errs := &testkit.Output{}
	cmd.Stderr = errs
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	if err := within(time.Minute, func() error { return get("http://" + host + "/v2/") }); err != nil {
		t.Fatalf("%v\n%s", err, errs)
	}
	for i, arg := range args {
		if arg == "--nextflow-config" {
			config = args[i+1]
		}
	}
	return host, config
}

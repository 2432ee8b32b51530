package e2e

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"slipway.dev/services/internal/attest"
	"slipway.dev/services/internal/testkit"
)

// A mounter runs the command line as an ordinary user who has no container engine.
type mounter struct {
	*program
	// cache is the user's cache of environments.
	cache string
}

// newMounter returns a mounter with an empty cache. The device for file systems of users is available
// to all users, as udev makes it on every distribution.
func newMounter(t *testing.T, p *program) mounter {
	t.Helper()
	if err := os.Chmod("/dev/fuse", 0o666); err != nil {
		t.Fatalf("%v: load the kernel module fuse", err)
	}
	if err := os.Chmod(binaries, 0o755); err != nil {
		t.Fatal(err)
	}
	home := t.TempDir()
	for dir := home; strings.HasPrefix(dir, os.TempDir()+"/"); dir = filepath.Dir(dir) {
		if err := os.Chmod(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chown(home, nobodyID, nobodyID); err != nil {
		t.Fatal(err)
	}
	return mounter{p, filepath.Join(home, "cache")}
}

// slipway runs the command line as the user.
func (m mounter) slipway(args ...string) (stdout, stderr string, err error) {
	cmd := exec.Command(filepath.Join(binaries, "slipway"), args...)
	cmd.Dir = "/"
	cmd.Env = []string{
		"SLIPWAY_SERVER=" + m.url, "SLIPWAY_TOKEN=" + m.token, "SLIPWAY_CACHE=" + m.cache, "HOME=" + filepath.Dir(m.cache), "PATH=/usr/bin:/bin",
		"SLIPWAY_AGENT_DIR=" + filepath.Join(filepath.Dir(m.cache), "agent"),
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobodyID, Gid: nobodyID}}
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err = cmd.Run()
	return out.String(), errs.String(), err
}

// TestMountedEnvironment runs programs of an environment that is mounted, as an ordinary user: with
// an empty cache, without a network, and 64 at once. All files must be those of the image.
func TestMountedEnvironment(t *testing.T) {
	needClients(t)
	t.Parallel()
	up := testkit.NewRegistry(t, testkit.Open)
	channel := madeChannel(t, greet(t, "amd64"), debianPython(t), helloPython())
	base := up.Push(t, "base/index:1", testkit.Index(t, true, "amd64"))
	eachCopyShape(t, []string{up.Host}, unraced(bare(channel.URL)), func(t *testing.T, p *program) {
		order := environment(base, "greet", "hello")
		order["mount"] = true
		answer := p.order(order)
		if s := p.finished(t, answer); s["succeeded"] != true {
			t.Fatalf("the build ended as %v:\n%s", s, p.logOf(answer))
		}
		m, image := newMounter(t, p), text(answer, "targetImage")
		const programs = "greet && tool && hello && shout"
		const greeting = "/opt/conda/share/greeting: hello of a package\n"
		const want = greeting + greeting + "hello /opt/conda of the package /opt/conda/lib/python3.11/site-packages/hello/say.py\nSHOUT /opt/conda\n"
		for _, args := range [][]string{{"run", "--channel", "lab", "--base-packages", "", "--base-image", base, "greet", "hello"}, {"run", image}, {"run", image}, {"run", "--offline", image}} {
			if out, errs, err := m.slipway(append(args, "--", "sh", "-c", programs)...); err != nil || out != want {
				t.Fatalf("%v printed %q, %v: %s", args, out, err, errs)
			}
		}
		for _, args := range [][]string{
			{"singularity", "exec", "--pid", "--bind", system, "docker://" + image, "sh", "-c", programs},
			{"run", "--base", "--bind", system, image, "--", "sh", "-c", programs},
		} {
			if out, errs, err := m.slipway(args...); err != nil || out != want {
				t.Fatalf("%v printed %q, %v: %s", args, out, err, errs)
			}
		}
		m.runsSingularityImage(t, p, order)
		m.hasFilesOf(t, p, image)
		m.passesExitCode(t, image)
		m.manyAtOnce(t, image, programs, want)
	})
}

// TestLostEnvironment deletes the artifact with the environment of an image from its registry, which
// the next request must build again. The artifact is signed like the image.
func TestLostEnvironment(t *testing.T) {
	t.Parallel()
	up, channel, images := testkit.NewRegistry(t, testkit.Open), newArtifacts(t), testkit.NewRegistry(t, testkit.Basic)
	p := oneProcess(t, pushingTo(t, images, common(t, []string{up.Host}, bare(channel.URL))))
	order := environment(up.Push(t, "base/index:1", testkit.Index(t, true, "amd64", "arm64")), "libcurl")
	order["mount"], order["containerPlatform"] = true, "linux/amd64,linux/arm64"
	answer := p.order(order)
	if s := p.finished(t, answer); s["succeeded"] != true {
		t.Fatalf("the build ended as %v:\n%s", s, p.logOf(answer))
	}
	at := v2(text(answer, "targetImage"))
	artifact := func() (digest string) {
		var x struct {
			Manifests []struct{ Digest, ArtifactType string }
		}
		mustJSON(t, request(t, http.MethodGet, manifest(text(answer, "targetImage")), nil).body, &x)
		mustJSON(t, request(t, http.MethodGet, at+"/referrers/"+x.Manifests[1].Digest, nil).body, &x)
		for _, m := range x.Manifests {
			if m.ArtifactType == "application/vnd.slipway.environment.v1" {
				digest = m.Digest
			}
		}
		return digest
	}
	lost := artifact()
	name := text(answer, "targetImage")
	name = name[:strings.LastIndex(name, ":")] + "@" + lost
	if out, log, err := p.slipway("verify", name, "--layers"); err != nil || !strings.Contains(out, "Provenance") {
		t.Errorf("%s%s%v", out, log, err)
	}
	p.runsVerified(t, text(answer, "targetImage"))
	attachedTo(t, 3, func() []statementFile {
		return statementsOf(t, registryURL(images.Host, true)+"/v2/slipway/builds", lost)
	})
	if again := p.order(order); again["cached"] != true {
		t.Errorf("the image is not cached: %v", again)
	}
	req, err := http.NewRequest(http.MethodDelete, "http://"+images.Host+"/v2/slipway/builds/manifests/"+lost, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	req.SetBasicAuth(testkit.User, testkit.Password)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	if err := resp.Body.Close(); err != nil || resp.StatusCode != http.StatusAccepted {
		t.Fatalf("deleting the artifact: %s, %v", resp.Status, err)
	}
	answer = p.order(order)
	if s := p.finished(t, answer); answer["cached"] == true || s["succeeded"] != true {
		t.Errorf("the build ended as %v, and the answer was %v", s, answer)
	}
	if made := artifact(); made != lost {
		t.Errorf("the artifact is %q instead of %q", made, lost)
	}
	if again := p.order(order); again["cached"] != true {
		t.Errorf("the image is not cached: %v", again)
	}
}

// runsVerified uses an environment only if the server's key has signed it.
func (p *program) runsVerified(t *testing.T, image string) {
	t.Helper()
	m := newMounter(t, p)
	other, err := attest.NewKey()
	if err != nil {
		t.Fatal(err)
	}
	signer, err := attest.ParseKey(other)
	if err != nil {
		t.Fatal(err)
	}
	pem, err := attest.PublicPEM(&signer.PublicKey)
	if err != nil {
		t.Fatal(err)
	}
	key := filepath.Join(filepath.Dir(m.cache), "other.pub")
	if err := os.WriteFile(key, pem, 0o644); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args []string
		want string // the failure
	}{
		{[]string{"--key", key}, "is not verified"},
		{nil, ""},
		{[]string{"--offline", "--verify"}, "was not verified"},
		{[]string{"--verify"}, ""},
		{[]string{"--offline", "--verify"}, ""},
		{[]string{"--offline", "--key", key}, "was not verified"},
	} {
		_, errs, err := m.slipway(append(append([]string{"run"}, c.args...), image, "--", "test", "-d", "/opt/conda/conda-meta")...)
		if (err == nil) != (c.want == "") || !strings.Contains(errs, c.want) {
			t.Errorf("%v: %v, %s", c.args, err, errs)
		}
	}
}

// system are the programs of this machine, for images without any.
const system = "/usr:/usr:ro,/bin:/bin:ro,/lib:/lib:ro,/lib64:/lib64:ro"

// runsSingularityImage runs a program of a Singularity image without an environment, from its registry and from a file.
func (m mounter) runsSingularityImage(t *testing.T, p *program, order map[string]any) {
	t.Helper()
	order = maps.Clone(order)
	delete(order, "mount")
	order["format"] = "sif"
	answer := p.order(order)
	if s := p.finished(t, answer); s["succeeded"] != true {
		t.Fatalf("the build ended as %v:\n%s", s, p.logOf(answer))
	}
	image := text(answer, "targetImage")
	path, _ := pulledSif(t, image)
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(filepath.Dir(m.cache), "image.sif")
	if err := os.WriteFile(file, raw, 0o644); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{image, file} {
		out, errs, err := m.slipway("singularity", "exec", "--bind", system, name, "greet")
		if err != nil || out != "/opt/conda/share/greeting: hello of a package\n" {
			t.Errorf("%s printed %q, %v: %s", name, out, err, errs)
		}
	}
}

// hasFilesOf compares the mounted files with those of the image.
func (m mounter) hasFilesOf(t *testing.T, p *program, image string) {
	t.Helper()
	out, errs, err := m.slipway("run", image, "--", "tar", "-C", "/opt/conda", "-cf", "-", ".")
	if err != nil {
		t.Fatalf("%v: %s", err, errs)
	}
	want := files(t, pull(t, image, "amd64"))
	mounted := map[string]bool{}
	for r := tar.NewReader(strings.NewReader(out)); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		content, readErr := io.ReadAll(r)
		if err := errors.Join(err, readErr); err != nil {
			t.Fatal(err)
		}
		name := filepath.Join("opt/conda", h.Name)
		mounted[name] = true
		if h.Typeflag == tar.TypeReg && want[name] != string(content) {
			t.Errorf("%s differs from the image's", name)
		}
	}
	for name := range want {
		if strings.HasPrefix(name, "opt/conda/") && !mounted[strings.TrimSuffix(name, "/")] {
			t.Errorf("%s is not mounted", name)
		}
	}
}

func (m mounter) passesExitCode(t *testing.T, image string) {
	t.Helper()
	_, _, err := m.slipway("run", image, "--", "sh", "-c", "exit 7")
	if exit := (*exec.ExitError)(nil); !errors.As(err, &exit) || exit.ExitCode() != 7 {
		t.Errorf("the exit code is that of %v", err)
	}
	if _, errs, err := m.slipway("run", image, "--", "sh", "-c", "touch /opt/conda/new"); err == nil || !strings.Contains(errs, "Read-only") {
		t.Errorf("a file was created: %v, %s", err, errs)
	}
}

// manyAtOnce runs 64 commands at once with one empty cache.
func (m mounter) manyAtOnce(t *testing.T, image, programs, want string) {
	t.Helper()
	m.cache = filepath.Join(filepath.Dir(m.cache), "empty")
	var all sync.WaitGroup
	failures := make(chan string, 64)
	for range 64 {
		all.Go(func() {
			if out, errs, err := m.slipway("run", image, "--", "sh", "-c", programs); err != nil || out != want {
				failures <- fmt.Sprintf("%q, %v: %s", out, err, errs)
			}
		})
	}
	all.Wait()
	close(failures)
	for f := range failures {
		t.Errorf("one of 64 commands failed: %s", f)
	}
}

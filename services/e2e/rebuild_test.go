package e2e

import (
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/opencontainers/go-digest"

	"slipway.dev/services/internal/attest"
	"slipway.dev/services/internal/testkit"
)

// rebuilding returns the settings of a server that builds all images of a channel's packages again and
// signs them.
func rebuilding(t testing.TB, channel string) settings {
	t.Helper()
	out := signingKey(t)
	maps.Copy(out, bare(channel))
	out["verify_rebuild"] = "100%"
	return out
}

// builderOf waits until a process has logged a text, and returns it and the other builders.
func (p *program) builderOf(t testing.TB, text string) (found *process, others []*process) {
	t.Helper()
	err := within(2*time.Minute, func() error {
		found, others = nil, nil
		for _, proc := range p.procs {
			switch log := proc.log(); {
			case strings.Contains(log, text):
				found = proc
			case strings.Contains(log, "Builder takes jobs"):
				others = append(others, proc)
			}
		}
		if found == nil {
			return fmt.Errorf("no process has logged %q", text)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return found, others
}

// rebuild waits until the rebuild of a build has a state, and returns its description.
func (p *program) rebuild(t testing.TB, id, state string) string {
	t.Helper()
	var out string
	err := within(3*time.Minute, func() error {
		if out = p.slipwayd("rebuilds", "list", "--all"); !strings.Contains(out, id) {
			return fmt.Errorf("it is not listed:\n%s", out)
		}
		if out = p.slipwayd("rebuilds", "show", id); !slices.Contains(strings.Fields(out), state) {
			return fmt.Errorf("it is not %s:\n%s", state, out)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// TestRebuildSameBytes checks that another worker makes an image again, also after the worker that had
// the rebuild was killed and the build service restarted, that it leaves no record of layers, and that
// the server then signs that, as `slipway verify` shows.
func TestRebuildSameBytes(t *testing.T) {
	t.Parallel()
	up := testkit.NewRegistry(t, testkit.Open)
	base := up.Push(t, "base/index:1", testkit.Index(t, true, "amd64", "arm64"))
	channel := newArtifacts(t)
	const file = "libzlib-1.2.13-h31becfc_5.conda"
	p, _ := buildersPerRole(t, common(t, []string{up.Host}, rebuilding(t, channel.URL)))
	answer := p.order(environment(base, "libzlib"))
	if s := p.finished(t, answer); s["succeeded"] != true {
		t.Fatalf("the build ended as %v:\n%s", s, p.logOf(answer))
	}
	first, others := p.builderOf(t, "Worker starts a build")
	if len(others) != 1 {
		t.Fatalf("there are %d other workers", len(others))
	}
	release := make(chan struct{})
	count := channel.counting(file, release, file)
	second, _ := p.builderOf(t, "Worker builds an image again")
	if second != others[0] {
		t.Fatal("the worker that built the image builds it again")
	}
	if err := within(time.Minute, func() error {
		if count.of(file) == 0 {
			return errors.New("the second worker has not requested the package")
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	second.kill()
	close(release)
	id := text(answer, "buildId")
	for _, name := range []string{"build-1", "build-2"} {
		p.process(name).kill()
		p.process(name).start()
	}
	second.start()
	out := p.rebuild(t, id, "SAME")
	if strings.Contains(first.log(), "Worker builds an image again") || !strings.Contains(out, "First worker") {
		t.Errorf("the rebuild is\n%s", out)
	}
	if count.of(file) != 2 {
		t.Errorf("the package was requested %d times", count.of(file))
	}
	target := text(answer, "targetImage")
	base2 := v2(target)
	name := target[strings.LastIndex(target, ":")+1:]
	subject := sha(request(t, http.MethodGet, base2+"/manifests/"+name, nil).body)
	var kinds []string
	keys, err := attest.ParsePublicKeys(request(t, http.MethodGet, p.url+"/.well-known/slipway/cosign.pub", nil).body)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range statementsOf(t, base2, subject) {
		s, err := attest.VerifyArtifact(attest.Artifact{Manifest: f.manifest, Bundle: f.bundle}, digest.Digest(subject), keys...)
		if err != nil {
			t.Fatal(err)
		}
		if kinds = append(kinds, s.PredicateType); s.PredicateType != attest.RebuiltPredicate {
			continue
		}
		r, err := s.Rebuilt()
		if err != nil || r.BuildID != id || !strings.Contains(out, r.Builds[0].Worker) || !strings.Contains(out, r.Builds[1].Worker) {
			t.Errorf("the statement is %+v, %v", r, err)
		}
	}
	if !slices.Contains(kinds, attest.RebuiltPredicate) {
		t.Errorf("the statements are %v", kinds)
	}
	if out, log, err := p.slipway("verify", target); err != nil || !strings.Contains(out, "same bytes, by two workers, 20") {
		t.Errorf("%s%s%v", out, log, err)
	}
	if program := os.Getenv("SLIPWAY_TEST_CLIENTS"); program != "" {
		key := filepath.Join(t.TempDir(), "cosign.pub")
		if err := os.WriteFile(key, request(t, http.MethodGet, p.url+"/.well-known/slipway/cosign.pub", nil).body, 0o600); err != nil {
			t.Fatal(err)
		}
		cosign := filepath.Join(program, "cosign")
		if _, err := os.Stat(cosign); err == nil {
			out, err := exec.Command(cosign, "verify-attestation", "--key", key, "--insecure-ignore-tlog=true", "--allow-http-registry", "--allow-insecure-registry",
				"--type", attest.RebuiltPredicate, target).CombinedOutput()
			if err != nil {
				t.Errorf("cosign: %v\n%s", err, out)
			}
		}
	}
}

// TestRebuildOtherBytes checks the alarm about a worker whose disk has a wrong layer of a package: both
// records, the error in the log, and the metric until it is acknowledged.
func TestRebuildOtherBytes(t *testing.T) {
	t.Parallel()
	up := testkit.NewRegistry(t, testkit.Open)
	base := up.Push(t, "base/index:1", testkit.Index(t, true, "amd64", "arm64"))
	channel := newArtifacts(t)
	p, _ := buildersPerRole(t, common(t, []string{up.Host}, rebuilding(t, channel.URL)))
	answer := p.order(environment(base, "libcurl"))
	if s := p.finished(t, answer); s["succeeded"] != true {
		t.Fatalf("the build ended as %v:\n%s", s, p.logOf(answer))
	}
	p.rebuild(t, text(answer, "buildId"), "SAME")
	faulty, others := p.builderOf(t, "Worker starts a build")
	for _, o := range others {
		o.kill()
	}
	faulty.kill()
	damageLayer(t, filepath.Join(faulty.env["data_dir"], "packages", "layers", "packages"))
	faulty.start()
	answer = p.order(environment(base, "libcurl", "libffi"))
	if s := p.finished(t, answer); s["succeeded"] != true {
		t.Fatalf("the build ended as %v:\n%s", s, p.logOf(answer))
	}
	id := text(answer, "buildId")
	if out := p.slipwayd("rebuilds", "list"); !strings.Contains(out, id) || !strings.Contains(out, "WAITING") {
		t.Errorf("without another worker:\n%s", out)
	}
	for _, o := range others {
		o.start()
	}
	out := p.rebuild(t, id, "DIFFERENT")
	for _, want := range []string{"conda: libcurl 8.4.0", "libcurl-8.4.0-h4e8248e_0.conda", "second diff id", "sha256"} {
		if !strings.Contains(out, want) {
			t.Errorf("the records lack %q:\n%s", want, out)
		}
	}
	const alarm = "Another worker made other bytes from the same inputs"
	if n := strings.Count(p.process("build-1").log()+p.process("build-2").log(), alarm); n != 1 {
		t.Errorf("the build service has logged %d errors", n)
	}
	metric := func(want string) {
		t.Helper()
		err := within(time.Minute, func() error {
			body := string(request(t, http.MethodGet, p.process("build-1").admin+"/metrics", nil).body)
			if !strings.Contains(body, `slipway_build_rebuilds{state="different"} `+want) {
				return errors.New("the metric is not " + want)
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	}
	metric("1")
	p.slipwayd("rebuilds", "acknowledge", id)
	metric("0")
}

// damageLayer makes the description of a layer of libcurl name the blob of another package, as a
// compromised worker or a bug could.
func damageLayer(t *testing.T, dir string) {
	t.Helper()
	read := func(file string) (out map[string]any) {
		t.Helper()
		in, err := os.Open(file)
		if err != nil {
			t.Fatal(err)
		}
		defer in.Close()
		z, err := gzip.NewReader(in)
		if err == nil {
			err = json.NewDecoder(z).Decode(&out)
		}
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	list, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var file string
	var wrong, right map[string]any
	for _, e := range list {
		path := filepath.Join(dir, e.Name())
		switch p := read(path); {
		case strings.HasPrefix(text(p, "by"), "conda: libcurl "):
			file, right = path, p
		case strings.HasPrefix(text(p, "by"), "conda: libzlib "):
			wrong = p
		}
	}
	if file == "" || wrong == nil {
		t.Fatalf("%d layers are stored", len(list))
	}
	for _, key := range []string{"digest", "size", "diffId"} {
		right[key] = wrong[key]
	}
	out, err := os.Create(file)
	if err != nil {
		t.Fatal(err)
	}
	z := gzip.NewWriter(out)
	if err := errors.Join(json.NewEncoder(z).Encode(right), z.Close(), out.Close()); err != nil {
		t.Fatal(err)
	}
}

// TestRebuildAlone checks that an image waits for another worker if there is only one, also after a
// restart, and that this worker never gets it.
func TestRebuildAlone(t *testing.T) {
	t.Parallel()
	up := testkit.NewRegistry(t, testkit.Open)
	base := up.Push(t, "base/index:1", testkit.Index(t, true, "amd64", "arm64"))
	channel := newArtifacts(t)
	p := oneProcess(t, common(t, []string{up.Host}, rebuilding(t, channel.URL)))
	answer := p.order(environment(base, "libzlib"))
	if s := p.finished(t, answer); s["succeeded"] != true {
		t.Fatalf("the build ended as %v:\n%s", s, p.logOf(answer))
	}
	p.procs[0].kill()
	p.procs[0].start()
	time.Sleep(25 * time.Second) // more than two requests of the worker
	if out := p.rebuild(t, text(answer, "buildId"), "WAITING"); strings.Contains(out, "Second") {
		t.Errorf("the rebuild is\n%s", out)
	}
	if log := p.procs[0].log(); strings.Contains(log, "Worker builds an image again") {
		t.Error("the only worker builds its image again")
	}
}

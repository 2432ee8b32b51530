package e2e

import (
	"bytes"
	"context"
	"crypto/md5"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"

	"slipway.dev/services/internal/testkit"
)

// genuine returns the folder of the unmodified client programs that services/tools/clients.sh
// builds: Nextflow, wave-cli and tower-cli. It skips the test if SLIPWAY_TEST_CLIENTS is not
// set.
func genuine(t testing.TB, programs ...string) string {
	t.Helper()
	dir := os.Getenv("SLIPWAY_TEST_CLIENTS")
	if dir == "" {
		t.Skip("NOT TESTED with Nextflow, wave-cli and tower-cli: run services/tools/clients.sh DIR and set SLIPWAY_TEST_CLIENTS=DIR")
	}
	for _, program := range programs {
		if _, err := os.Stat(filepath.Join(dir, "bin", program)); err != nil {
			t.Fatalf("SLIPWAY_TEST_CLIENTS: %v", err)
		}
	}
	return dir
}

// nextflows are the tested versions of Nextflow.
var nextflows = []string{"25.04.4", "24.10.5"}

// A desk is the working directory and the environment of a user of client programs.
type desk struct {
	clients, dir string
	env          []string
	// as is the unprivileged user that runs the programs; nil for the user of the test.
	as *syscall.Credential
}

func newDesk(t testing.TB, env ...string) desk {
	t.Helper()
	dir := t.TempDir()
	return desk{clients: genuine(t), dir: dir, env: append([]string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "NXF_HOME=" + dir + "/.nextflow-home", "TMPDIR=" + dir, "NXF_JVM_ARGS=-XX:+UseSerialGC",
	}, env...)}
}

func (w desk) write(t testing.TB, name, content string) {
	t.Helper()
	path := filepath.Join(w.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o755); err != nil {
		t.Fatal(err)
	}
}

// run returns the output of a program, and whether it succeeded.
func (w desk) run(t testing.TB, program string, args ...string) (printed string, ok bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 8*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, filepath.Join(w.clients, "bin", program), args...)
	cmd.Dir, cmd.Env = w.dir, w.env
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Credential: w.as}
	cmd.WaitDelay = 5 * time.Second
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	if ctx.Err() != nil {
		t.Fatalf("%s %s did not end:\n%s", program, strings.Join(args, " "), tail(out.String(), 4000))
	}
	return out.String(), err == nil
}

// must runs a program that must succeed with all wants in its output.
func (w desk) must(t testing.TB, wants []string, program string, args ...string) string {
	t.Helper()
	printed, ok := w.run(t, program, args...)
	if !ok {
		t.Fatalf("%s %s failed:\n%s", program, strings.Join(args, " "), tail(printed, 4000))
	}
	w.check(t, printed, wants, program, args)
	return printed
}

// fails runs a program that must fail with all wants in its output.
func (w desk) fails(t testing.TB, wants []string, program string, args ...string) {
	t.Helper()
	printed, ok := w.run(t, program, args...)
	if ok {
		t.Errorf("%s %s succeeded:\n%s", program, strings.Join(args, " "), tail(printed, 2000))
	}
	w.check(t, printed, wants, program, args)
}

func (desk) check(t testing.TB, printed string, wants []string, program string, args []string) {
	t.Helper()
	for _, want := range wants {
		if !strings.Contains(printed, want) {
			t.Errorf("%s %s does not print %q:\n%s", program, strings.Join(args, " "), want, tail(printed, 4000))
		}
	}
	if strings.Contains(printed, "Exception in thread") || strings.Contains(printed, "Internal error") {
		t.Errorf("%s %s printed a stack trace:\n%s", program, strings.Join(args, " "), tail(printed, 4000))
	}
}

// scriptPackage returns a package with one script of the same name.
func scriptPackage(name, version, body string) madePackage {
	return madePackage{name: name, version: version, subdir: "linux-64", files: []packedFile{{path: "bin/" + name, content: "#!/bin/bash\n" + body + "\n", mode: 0o755}}}
}

// A laboratory is a server with a channel and a base image for users without an account and
// without Docker Hub. Unless the settings set runc_path, it cannot build Dockerfiles.
type laboratory struct {
	*program
	registry *testkit.Registry
	// base is a Debian image with ps, which Nextflow needs to monitor tasks.
	base string
	// lock is the URL of an explicit lock file for samtools.
	lock string
}

func newLaboratory(t *testing.T, registries []string, more settings, packages ...madePackage) *laboratory {
	t.Helper()
	l := &laboratory{registry: testkit.NewRegistry(t, testkit.Open)}
	samtools := scriptPackage("samtools", "1.20", `echo "samtools 1.20"`)
	elsewhere, procps := samtools, scriptPackage("procps-ng", "4.0.4", "exit 0")
	elsewhere.subdir = "linux-aarch64"
	tools := madeChannel(t, append(packages, samtools, elsewhere)...)
	forArm := procps
	forArm.subdir = "linux-aarch64"
	forge := madeChannel(t, procps, forArm) // Nextflow requests procps-ng for every container
	file, _ := samtools.write(t)
	locked := tools.URL + "/lab/linux-64/" + file
	sum := md5.Sum(request(t, http.MethodGet, locked, nil).body)
	l.lock = fileServer(t, "/samtools.txt", fmt.Appendf(nil, "@EXPLICIT\n%s#%x\n", locked, sum))
	system := withPs(t, debian(t))
	l.base = l.registry.Push(t, "base/debian:bookworm", system)
	both := mutate.AppendManifests(empty.Index,
		mutate.IndexAddendum{Add: system, Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: "amd64"}}},
		mutate.IndexAddendum{Add: testkit.Image(t, "arm64", true), Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: "arm64"}}})
	s := bare(tools.URL)
	s["conda_channels"] = "bioconda=" + tools.URL + "/lab,conda-forge=" + forge.URL + "/lab,locks=" + strings.TrimSuffix(l.lock, "/samtools.txt")
	s["conda_base_image"] = l.registry.Push(t, "base/both:bookworm", both)
	s["limit_requests_anonymous"] = "0"
	maps.Copy(s, more)
	l.program = oneProcess(t, common(t, append(registries, l.registry.Host), atHome(t, s)))
	return l
}

// withPs adds ps of this machine, which runs the same Debian.
func withPs(t testing.TB, img v1.Image) v1.Image {
	t.Helper()
	content := map[string]string{}
	for _, path := range []string{"usr/bin/ps", "usr/lib/x86_64-linux-gnu/libproc2.so.0"} {
		raw, err := os.ReadFile("/" + path)
		if err != nil {
			t.Fatalf("%v: apt-get install procps", err)
		}
		content[path] = string(raw)
	}
	return with(t, img, content)
}

// waveConfig returns the nextflow.config of the README.
func waveConfig(p *program, more ...string) string {
	return fmt.Sprintf("wave { enabled = true; endpoint = '%s'; strategy = ['conda', 'container'] }\ndocker { enabled = true; runOptions = '--network host' }\n%s\n", p.url, strings.Join(more, "\n"))
}

// atHome adds the platform URL that its clients use and send to the service.
func atHome(t testing.TB, s settings) settings {
	t.Helper()
	s["platform_http_addr"] = "127.0.0.1:" + testkit.FreePort(t)
	s["platform_url"] = "http://" + s["platform_http_addr"]
	return s
}

// TestGenuineNextflow runs pipelines like a new user, with a nextflow.config of a few lines and
// a server without runc, BuildKit or Docker Hub.
func TestGenuineNextflow(t *testing.T) {
	genuine(t)
	needClients(t)
	l := newLaboratory(t, nil, nil)
	docker := startDocker(t)
	for _, version := range nextflows {
		t.Run(version, func(t *testing.T) {
			w, nextflow := newDesk(t, "DOCKER_HOST="+docker.socket()), "nextflow-"+version
			w.write(t, "env.yml", "name: bench\nchannels: [bioconda, conda-forge]\ndependencies:\n  - samtools=1.20\n")
			w.write(t, "tools/main.nf", "process BINARY { container '"+l.base+"'; debug true; script: 'echo \"binary: $(greet)\"' }\n")
			w.write(t, "tools/resources/usr/bin/greet", "#!/bin/sh\necho of the module\n")
			w.write(t, "main.nf", `
include { BINARY } from './tools'
process STRING { conda 'bioconda::samtools=1.20'; debug true; script: 'echo "string: $(samtools)"' }
process FILE { conda "${projectDir}/env.yml"; debug true; script: 'echo "file: $(samtools)"' }
process LOCK { conda '`+l.lock+`'; debug true; script: 'echo "lock: $(samtools)"' }
process IMAGE { container '`+l.base+`'; debug true; script: 'echo "image: $(cat /etc/debian_version)"' }
workflow { STRING(); FILE(); LOCK(); IMAGE(); BINARY() }
`)
			config := waveConfig(l.program, "nextflow.enable.moduleBinaries = true")
			w.write(t, "nextflow.config", config)
			prints := []string{"string: samtools 1.20", "file: samtools 1.20", "lock: samtools 1.20", "image: 12", "binary: of the module"}
			w.must(t, prints, nextflow, "run", "main.nf")
			w.must(t, []string{"Cached process > STRING", "Cached process > FILE", "Cached process > LOCK", "Cached process > IMAGE", "Cached process > BINARY"}, nextflow, "run", "main.nf", "-resume")
			w.must(t, []string{`"name": "STRING"`, "/wt/", "samtools-1.20--"}, nextflow, "inspect", "main.nf")

			w.write(t, "platforms.nf", `
process ARM { arch 'linux/arm64'; conda 'bioconda::samtools=1.20'; script: 'samtools' }
process AMD { arch 'linux/amd64'; conda 'bioconda::samtools=1.20'; script: 'samtools' }
workflow { ARM(); AMD() }
`)
			containers := inspected(t, w.must(t, nil, nextflow, "inspect", "-concretize", "platforms.nf"))
			for process, arch := range map[string]string{"ARM": "arm64", "AMD": "amd64"} {
				img := pull(t, containers[process], arch)
				if cf, err := img.ConfigFile(); err != nil || cf.Architecture != arch || !strings.Contains(files(t, img)["opt/conda/bin/samtools"], "samtools 1.20") {
					t.Errorf("the image of %s, %s, with the configuration %v has no samtools: %v", process, containers[process], cf, err)
				}
			}

			w.write(t, "impossible.nf", "process BAD { conda 'bioconda::samtools=9.99'; script: 'true' }\nworkflow { BAD() }\n")
			w.fails(t, []string{"No samtools fits", "the newest is 1.20"}, nextflow, "run", "impossible.nf")
			w.write(t, "missing.nf", "process GONE { container '"+l.registry.Host+"/base/none:1'; script: 'true' }\nworkflow { GONE() }\n")
			w.fails(t, []string{"/base/none:1 does not exist"}, nextflow, "run", "missing.nf")
			w.write(t, "hello/main.nf", "process MODULE { script: 'true' }\n")
			w.write(t, "hello/Dockerfile", "FROM "+l.base+"\nRUN true\n")
			w.write(t, "steps.nf", "include { MODULE } from './hello'\nworkflow { MODULE() }\n")
			w.write(t, "steps.config", strings.ReplaceAll(config, "'conda', 'container'", "'dockerfile'"))
			w.fails(t, []string{"501"}, nextflow, "-C", "steps.config", "run", "steps.nf")

			w.write(t, "token.config", waveConfig(l.program, "tower { endpoint = '"+l.platform+"'; accessToken = 'eyJ0aWQiOiAxfS5ub25l' }"))
			w.fails(t, []string{"401"}, nextflow, "-C", "token.config", "run", "main.nf")

			repository := "frozen/" + strings.ReplaceAll(version, ".", "-")
			w.write(t, "freeze.config", config+"wave.freeze = true\nwave.build.repository = '"+l.registry.Host+"/"+repository+"'\ntower { endpoint = '"+l.platform+"'; accessToken = '"+adminToken+"' }\n")
			w.must(t, prints, nextflow, "-C", "freeze.config", "run", "main.nf")
			var frozen struct{ Tags []string }
			if err := json.Unmarshal(request(t, http.MethodGet, "http://"+l.registry.Host+"/v2/"+repository+"/tags/list", nil).body, &frozen); err != nil || len(frozen.Tags) < 4 ||
				!slices.ContainsFunc(frozen.Tags, func(tag string) bool { return strings.HasPrefix(tag, "samtools-1.20--") }) {
				t.Errorf("the repository of wave.freeze has the tags %v, %v", frozen.Tags, err)
			}

			mirror := "mirrored/" + strings.ReplaceAll(version, ".", "-")
			w.write(t, "mirror.nf", "process IMAGE { container '"+l.base+"'; debug true; script: 'echo \"image: $(cat /etc/debian_version)\"' }\nworkflow { IMAGE() }\n")
			w.write(t, "mirror.config", strings.ReplaceAll(config, "'conda', 'container'", "'container'")+
				"wave.mirror = true\nwave.build.repository = '"+l.registry.Host+"/"+mirror+"'\ntower { endpoint = '"+l.platform+"'; accessToken = '"+adminToken+"' }\n")
			w.must(t, []string{"image: 12"}, nextflow, "-C", "mirror.config", "run", "mirror.nf")
			path := strings.TrimPrefix(l.base, l.registry.Host)
			if got, want := manifestAt(t, l.registry.Host+"/"+mirror+path).Digest, manifestAt(t, l.base).Digest; got != want {
				t.Errorf("the image of wave.mirror is %s, want %s", got, want)
			}
		})
	}
}

var ofProcess = regexp.MustCompile(`"name": "([^"]+)",\s*"container": "([^"]+)"`)

// inspected returns the containers by process from the output of `nextflow inspect`.
func inspected(t testing.TB, printed string) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, m := range ofProcess.FindAllStringSubmatch(printed, -1) {
		out[m[1]] = m[2]
	}
	if len(out) == 0 {
		t.Fatalf("nextflow inspect printed no containers:\n%s", tail(printed, 2000))
	}
	return out
}

// TestGenuineNextflowManyEnvironments runs 40 processes with 40 environments concurrently. Each
// is assembled from layers, and the second run needs no builds.
func TestGenuineNextflowManyEnvironments(t *testing.T) {
	genuine(t)
	needClients(t)
	const tools = 40
	l := newLaboratory(t, nil, nil, smallPackages(tools)...)
	w := newDesk(t, "DOCKER_HOST="+startDocker(t).socket())
	var main, call strings.Builder
	for i := range tools {
		fmt.Fprintf(&main, "process P%d { conda 'bioconda::tool-%d=1.0'; debug true; script: 'echo \"of $(cat /opt/conda/share/tool-%d).\"' }\n", i, i, i)
		fmt.Fprintf(&call, "P%d(); ", i)
	}
	w.write(t, "main.nf", main.String()+"workflow { "+call.String()+"}\n")
	account := "tower { endpoint = '" + l.platform + "'; accessToken = '" + adminToken + "' }"
	w.write(t, "at-once.config", waveConfig(l.program, account, "wave.httpClient.maxRate = '100/sec'"))
	w.write(t, "default.config", waveConfig(l.program, account)) // Nextflow sends one request per second
	prints := make([]string, tools)
	for i := range prints {
		prints[i] = fmt.Sprintf("of tool-%d.", i)
	}
	answered := map[float64]int{}
	for _, run := range []string{"at-once", "default"} {
		w.must(t, prints, "nextflow-"+nextflows[0], "-C", run+".config", "run", "main.nf")
		list, _ := request(t, http.MethodGet, l.url+"/v1alpha1/builds?max=100", nil, "Authorization", "Bearer "+adminToken).json(t)["builds"].([]any)
		if len(list) != tools {
			t.Fatalf("after the run with %s.config there are %d builds; %d environments were requested", run, len(list), tools)
		}
		for _, b := range list {
			build, _ := b.(map[string]any)
			if r := l.call(http.MethodGet, "/v1alpha1/builds/"+text(build, "buildId"), nil).json(t); r["containerFile"] != nil || r["succeeded"] != true {
				t.Errorf("a build is %v", r)
			}
		}
		now, spread := l.submits(t), ""
		for _, le := range slices.Sorted(maps.Keys(now)) {
			spread += fmt.Sprintf(" ≤%gs %d", le, now[le]-answered[le])
		}
		t.Logf("requests of the run with %s.config, by time until the response:%s", run, spread)
		if n := now[math.Inf(1)] - answered[math.Inf(1)]; n != tools || now[5]-answered[5] != tools {
			t.Errorf("%d of %d requests were answered within 5 s; there are %d processes", now[5]-answered[5], n, tools)
		}
		answered = now
	}
}

var submitBucket = regexp.MustCompile(`slipway_http_seconds_bucket\{code="200",method="POST",route="/v1alpha2/container",le="([^"]+)"\} (\d+)`)

// submits counts successful container requests by upper bounds of their duration in seconds.
func (p *program) submits(t testing.TB) map[float64]int {
	t.Helper()
	out := map[float64]int{}
	for _, m := range submitBucket.FindAllStringSubmatch(string(request(t, http.MethodGet, p.procs[0].admin+"/metrics", nil).body), -1) {
		le, err1 := strconv.ParseFloat(m[1], 64)
		n, err2 := strconv.Atoi(m[2])
		if err := errors.Join(err1, err2); err != nil {
			t.Fatal(err)
		}
		out[le] = n
	}
	return out
}

// TestGenuineWave runs wave-cli.
func TestGenuineWave(t *testing.T) {
	genuine(t)
	if !testkit.Real() {
		t.Skip("needs a base image of Debian: SLIPWAY_TEST_REAL is not set")
	}
	l := newLaboratory(t, nil, nil)
	p, up, base := l.program, l.registry, l.base
	w := newDesk(t, "TOWER_API_ENDPOINT="+p.platform)
	w.write(t, "config.json", `{"env": ["FROM_FILE=yes"]}`)
	w.write(t, "layer/usr/share/note", "of the layer")
	w.write(t, "Dockerfile", "FROM "+base+"\nRUN true\n")
	w.write(t, "env.yml", "name: bench\nchannels: [bioconda, conda-forge]\ndependencies:\n  - samtools=1.20\n")
	for _, tc := range []struct {
		args  []string
		wants []string
		fails bool
	}{
		{args: []string{"--info"}, wants: []string{"1.31.0", p.url}},
		{args: []string{"-i", base}, wants: []string{p.host + "/wt/"}},
		{args: []string{"-i", base, "--config-env", "A=b", "--config-entrypoint", "/bin/x", "-o", "yaml"}, wants: []string{"containerImage: " + base, "requestId: "}},
		{args: []string{"-i", base, "--inspect"}, wants: []string{`"imageName":"base/debian"`, `"architecture":"amd64"`}},
		{args: []string{"--conda-package", "bioconda::samtools=1.20", "--await"}, wants: []string{p.host + "/wt/", "samtools-1.20--"}},
		{args: []string{"--conda-package", "bioconda::samtools=1.20", "-o", "json"}, wants: []string{`"cached":true`, `"succeeded":true`}},
		{args: []string{"--conda-file", "env.yml", "--await"}, wants: []string{"bench--"}},
		{args: []string{"--conda-package", l.lock, "--await"}, wants: []string{p.host + "/wt/"}},
		{args: []string{"--conda-package", "bioconda::samtools=1.20", "--platform", "linux/arm64", "--await"}, wants: []string{"samtools-1.20--"}},
		{args: []string{"--conda-package", "bioconda::samtools=1.20", "--name-strategy", "imageSuffix"}, wants: []string{"/samtools:"}},
		{args: []string{"--conda-package", "bioconda::samtools=1.20", "--dry-run"}, wants: []string{"samtools-1.20--"}},
		{args: []string{"-i", base, "--layer", "layer", "--config-file", "config.json", "--scan-mode", "none"}, wants: []string{p.host + "/wt/"}},
		{args: []string{"-i", base, "--freeze", "--build-repo", up.Host + "/team/frozen", "--tower-token", adminToken, "--await"}, wants: []string{up.Host + "/team/frozen:"}},
		{args: []string{"--conda-package", "bioconda::samtools=9.99"}, wants: []string{"[400]", "No samtools fits", "the newest is 1.20"}, fails: true},
		{args: []string{"-i", up.Host + "/base/none:1"}, wants: []string{"[400]", "does not exist"}, fails: true},
		{args: []string{"-i", "127.0.0.1:1/base/none:1"}, wants: []string{"[400]", "127.0.0.1:1 cannot be reached"}, fails: true},
		{args: []string{"-i", base, "--scan-mode", "required"}, wants: []string{"[501]", "scanMode"}, fails: true},
		{args: []string{"-i", base, "--mirror", "--build-repo", up.Host + "/team/mirror", "--tower-token", adminToken, "--await"}, wants: []string{up.Host + "/team/mirror/base/debian"}},
		{args: []string{"-f", "Dockerfile"}, wants: []string{"[501]", "This service cannot build images"}, fails: true},
		{args: []string{"-i", base, "--tower-token", "bad"}, wants: []string{"[401]", "The access token is not valid"}, fails: true},
	} {
		args := append([]string{"--wave-endpoint", p.url}, tc.args...) // --info ignores the environment variable
		if tc.fails {
			w.fails(t, tc.wants, "wave", args...)
		} else {
			w.must(t, tc.wants, "wave", args...)
		}
	}
}

package e2e

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
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
	"time"

	"slipway.dev/services/internal/testkit"
)

// binaries is the folder of the compiled programs, which TestMain creates.
var binaries string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "slipway-e2e")
	if err != nil {
		panic(err)
	}
	binaries = dir
	if err := buildPrograms(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := m.Run()
	_ = os.RemoveAll(dir)
	os.Exit(code)
}

func buildPrograms() error {
	const cmd = "slipway.dev/services/cmd/"
	if err := goBuild(nil, "-o", binaries+"/", cmd+"slipwayd", cmd+"slipway"); err != nil {
		return err
	}
	// Like `make builder`, without cgo: it is executed for each step.
	if err := goBuild([]string{"CGO_ENABLED=0"}, "-o", binaries+"/", "-trimpath", cmd+"slipway-runc"); err != nil {
		return err
	}
	if !racing() {
		return nil
	}
	if err := goBuild([]string{"CGO_ENABLED=1"}, "-race", "-gcflags=modernc.org/...=-race=false", "-o", instrumented(), cmd+"slipwayd"); err != nil {
		return err
	}
	// slipwayd looks for these programs in its own folder.
	for _, name := range []string{"slipway-runc", "buildkitd", "runc"} {
		if err := os.Symlink(filepath.Join("..", name), filepath.Join(filepath.Dir(instrumented()), name)); err != nil {
			return err
		}
	}
	return nil
}

// goBuild compiles like the Makefile does.
func goBuild(environ []string, args ...string) error {
	cmd := exec.Command("go", append([]string{"build", "-tags", "grpcnotrace", "-ldflags", "-s -w"}, args...)...)
	cmd.Env = append(os.Environ(), environ...)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("go build %s: %w\n%s", strings.Join(args, " "), err, out)
	}
	return nil
}

// racing reports whether programs run under the race detector, unless a test overrides it.
// `make e2e RACE=1` sets the variable.
func racing() bool { return os.Getenv("SLIPWAY_TEST_RACE") != "" }

// plain returns the released slipwayd, instrumented the one with the race detector.
func plain() string        { return filepath.Join(binaries, "slipwayd") }
func instrumented() string { return filepath.Join(binaries, "race", "slipwayd") }

// thisProgram is the setting of tests that always run the plain slipwayd: tests that measure
// memory or time, and tests that have run the same scenario under the race detector in another
// shape.
const thisProgram = "THIS_PROGRAM"

// ordinaryUser is the setting of tests that run slipwayd as an unprivileged user.
const ordinaryUser = "ORDINARY_USER"

// unraced returns the settings with the plain program.
func unraced(s settings) settings {
	out := settings{thisProgram: plain()}
	maps.Copy(out, s)
	return out
}

// settings are values of SLIPWAY_ variables by lower-case key; upper-case keys are for the
// tests.
type settings map[string]string

// environ returns an environment with the settings.
func (s settings) environ() []string {
	env := append(os.Environ(), "GORACE=halt_on_error=1")
	for k, v := range s {
		if k != strings.ToUpper(k) {
			k = "SLIPWAY_" + strings.ToUpper(k)
		}
		env = append(env, k+"="+v)
	}
	return env
}

// A process is a running slipwayd.
type process struct {
	t     testing.TB
	name  string
	args  []string
	env   settings
	admin string

	mu   sync.Mutex
	cmd  *exec.Cmd
	logs *bytes.Buffer
}

// start starts the process and waits until it is ready.
func (p *process) start() {
	p.t.Helper()
	if err := p.launch(); err != nil {
		p.t.Fatal(err)
	}
}

func (p *process) launch() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cmd = exec.Command(p.program(), append([]string{"serve"}, p.args...)...)
	p.cmd.Env = p.env.environ()
	if p.logs == nil {
		p.logs = &bytes.Buffer{}
	}
	p.cmd.Stderr = &lockedWriter{mu: &p.mu, w: p.logs}
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if p.env[ordinaryUser] != "" {
		p.cmd.SysProcAttr.Credential = &syscall.Credential{Uid: nobodyID, Gid: nobodyID}
	}
	if err := p.cmd.Start(); err != nil {
		return err
	}
	p.mu.Unlock()
	defer p.mu.Lock()
	return within(2*time.Minute, func() error { return get(p.admin + "/readyz") })
}

func (p *process) program() string {
	if racing() {
		return cmp.Or(p.env[thisProgram], instrumented())
	}
	return plain()
}

type lockedWriter struct {
	mu *sync.Mutex
	w  io.Writer
}

func (l *lockedWriter) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.Write(b)
}

// log returns the output of the process so far.
func (p *process) log() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.logs == nil {
		return ""
	}
	return p.logs.String()
}

// stop stops the process gracefully, and returns its exit error.
func (p *process) stop() error {
	p.mu.Lock()
	cmd := p.cmd
	p.cmd = nil
	p.mu.Unlock()
	if cmd == nil {
		return nil
	}
	_ = cmd.Process.Signal(syscall.SIGTERM)
	return cmd.Wait()
}

// kill kills the process like kill -9.
func (p *process) kill() {
	p.mu.Lock()
	cmd := p.cmd
	p.cmd = nil
	p.mu.Unlock()
	if cmd != nil {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}
}

// within calls ask until it succeeds, and returns its last error after d. The pauses grow with the
// time so far, since calls of a server take processor time from the other tests.
func within(d time.Duration, ask func() error) error {
	var err error
	for begun := time.Now(); time.Since(begun) < d; time.Sleep(min(max(time.Since(begun)/10, 10*time.Millisecond), 50*time.Millisecond)) {
		if err = ask(); err == nil {
			return nil
		}
	}
	return err
}

func get(url string) error {
	resp, err := http.Get(url)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	body, _ := io.ReadAll(resp.Body)
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s returned %d: %s", url, resp.StatusCode, body)
	}
	return nil
}

// A program is the whole service, in one of its shapes.
type program struct {
	t testing.TB
	// url is the base URL of clients; host is the same without the scheme.
	url, host string
	// platform is the platform's own base URL.
	platform string
	// replicas are the addresses of the processes that run the registry.
	replicas []string
	procs    []*process
	// The real servers; nil if embedded.
	redis, nats, postgres *testkit.Server
	token                 string
	// authority signs the roles' certificates, and addresses are the gRPC addresses of roles
	// by name; nil in one process.
	authority *authority
	addresses map[string]string
	// another starts a second gateway, which calls the second replicas, and returns its URL;
	// nil in one process.
	another func() string
}

// adminToken is the first user's access token in every test.
const adminToken = "eyJ0aWQiOjF9LjAxMjM0NTY3ODlhYmNkZWYwMTIzNDU2Nzg5YWJjZGVmMDEyMzQ1Njc="

// common returns the settings that every shape needs to reach registries on loopback.
func common(t testing.TB, plain []string, more settings) settings {
	t.Helper()
	file := filepath.Join(t.TempDir(), "admin-token")
	if err := os.WriteFile(file, []byte(adminToken), 0o600); err != nil {
		t.Fatal(err)
	}
	s := settings{
		"egress_allow": "127.0.0.0/8", "insecure_registries": strings.Join(plain, ","), "admin_token_file": file,
		"platform_url": "http://localhost:9091",
		"disk_reserve": "0", // the tests do not depend on the free space of the machine
	}
	maps.Copy(s, more)
	return s
}

// eachShape runs a scenario with a new program in every shape. plain are the registries with
// plain HTTP.
func eachShape(t *testing.T, plain []string, more settings, scenario func(t *testing.T, p *program)) {
	t.Helper()
	inEach(t, common(t, plain, more), processPerRole, scenario)
}

// inEach runs a scenario in one process and, with real servers, in the program that perRole
// starts. The latter runs without the race detector, since the former has checked the same
// code, and starting a dozen instrumented processes would take too long.
func inEach(t *testing.T, s settings, perRole func(testing.TB, settings) *program, scenario func(t *testing.T, p *program)) {
	t.Helper()
	t.Run("one process", func(t *testing.T) {
		t.Parallel()
		scenario(t, oneProcess(t, s))
	})
	if testkit.Real() {
		t.Run("process per role", func(t *testing.T) {
			scenario(t, perRole(t, unraced(s)))
		})
	}
}

func oneProcess(t testing.TB, s settings) *program {
	t.Helper()
	web, admin := "127.0.0.1:"+testkit.FreePort(t), "127.0.0.1:"+testkit.FreePort(t)
	env := settings{
		"http_addr": web, "admin_addr": admin, "public_url": "http://" + web, "data_dir": t.TempDir(),
		"store_addr": "127.0.0.1:" + testkit.FreePort(t), "platform_http_addr": "127.0.0.1:" + testkit.FreePort(t),
	}
	maps.Copy(env, s)
	p := &program{t: t, url: "http://" + web, platform: "http://" + env["platform_http_addr"], host: web, replicas: []string{web}, token: adminToken}
	p.add("all", admin, nil, env)
	return p
}

func (p *program) add(name, admin string, args []string, env settings) *process {
	p.t.Helper()
	proc := &process{t: p.t, name: name, args: args, env: env, admin: "http://" + admin}
	p.procs = append(p.procs, proc)
	p.t.Cleanup(func() {
		proc.kill()
		if p.t.Failed() {
			p.t.Logf("log of %s:\n%s", name, tail(withoutSettings(proc.log()), 3000))
		}
		if strings.Contains(proc.log(), "DATA RACE") {
			p.t.Errorf("%s has data races:\n%s", name, proc.log())
		}
	})
	proc.start()
	return proc
}

// withoutSettings removes the log line with the effective settings, which is longer than the
// rest of most logs.
func withoutSettings(log string) string {
	var out strings.Builder
	for line := range strings.Lines(log) {
		if !strings.Contains(line, `"msg":"Settings"`) {
			out.WriteString(line)
		}
	}
	return out.String()
}

func tail(s string, n int) string {
	if len(s) > n {
		return "…" + s[len(s)-n:]
	}
	return s
}

// process returns a process by name.
func (p *program) process(name string) *process {
	for _, proc := range p.procs {
		if proc.name == name {
			return proc
		}
	}
	p.t.Fatalf("there is no process %s", name)
	return nil
}

// registry returns the first process that runs the registry.
func (p *program) registry() *process {
	if len(p.procs) == 1 {
		return p.procs[0]
	}
	return p.process("registry-1")
}

// A reply is a response of the REST API.
type reply struct {
	status int
	header http.Header
	body   []byte
}

// json decodes the body as an object.
func (r reply) json(t testing.TB) map[string]any {
	t.Helper()
	var m map[string]any
	if err := json.Unmarshal(r.body, &m); err != nil {
		t.Fatalf("not a JSON object (status %d): %s", r.status, r.body)
	}
	return m
}

// call makes a REST call; body may be nil, a string, or a value to encode.
func (p *program) call(method, path string, body any, header ...string) reply {
	p.t.Helper()
	r := request(p.t, method, p.url+path, body, header...)
	documented(p.t, method, path, r)
	return r
}

// client follows no redirects. It does not share connections with http.DefaultClient, whose
// idle connections are closed by each httptest.Server that ends.
var client = &http.Client{
	Transport:     &http.Transport{},
	CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
}

func request(t testing.TB, method, url string, body any, header ...string) reply {
	t.Helper()
	var r io.Reader
	switch b := body.(type) {
	case nil:
	case string:
		r = strings.NewReader(b)
	default:
		raw, err := json.Marshal(b)
		if err != nil {
			t.Fatal(err)
		}
		r = bytes.NewReader(raw)
	}
	req, err := http.NewRequestWithContext(context.Background(), method, url, r)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := client.Do(req)
	if err != nil {
		t.Fatalf("%s %s: %v", method, url, err)
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Fatal(err)
	}
	return reply{resp.StatusCode, resp.Header, raw}
}

// submit requests an image, which must succeed, and returns its name.
func (p *program) submit(body map[string]any) (target string) {
	p.t.Helper()
	r := p.call(http.MethodPost, "/v1alpha2/container", body)
	if r.status != http.StatusOK {
		p.t.Fatalf("submitting %v: %d %s", body, r.status, r.body)
	}
	target, _ = r.json(p.t)["targetImage"].(string)
	return target
}

// v2 returns the registry URL of a target image, including its name.
func v2(target string) string {
	host, rest, _ := strings.Cut(target, "/")
	name := rest
	if i := strings.IndexByte(rest, '@'); i >= 0 {
		name = rest[:i]
	} else if i := strings.LastIndexByte(rest, ':'); i >= 0 {
		name = rest[:i]
	}
	return "http://" + host + "/v2/" + name
}

// tokenOf returns the token in a target image.
func tokenOf(target string) string { return strings.Split(target, "/")[2] }

// idOf returns the id of the request of a target image.
func idOf(target string) string { return fmt.Sprintf("%x", sha256.Sum256([]byte(tokenOf(target)))) }

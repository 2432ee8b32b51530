package e2e

import (
	"bytes"
	"cmp"
	"context"
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

// binaries is the folder of what is built once for all tests, by TestMain.
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
	// As `make builder` makes it: it starts anew for each step.
	if err := goBuild([]string{"CGO_ENABLED=0"}, "-o", binaries+"/", "-trimpath", cmd+"slipway-runc"); err != nil {
		return err
	}
	if !racing() {
		return nil
	}
	if err := goBuild([]string{"CGO_ENABLED=1"}, "-race", "-o", instrumented(), cmd+"slipwayd"); err != nil {
		return err
	}
	// What it looks for beside itself is there too.
	for _, name := range []string{"slipway-runc", "buildkitd", "runc"} {
		if err := os.Symlink(filepath.Join("..", name), filepath.Join(filepath.Dir(instrumented()), name)); err != nil {
			return err
		}
	}
	return nil
}

// goBuild builds as the Makefile does.
func goBuild(environ []string, args ...string) error {
	cmd := exec.Command("go", append([]string{"build", "-tags", "grpcnotrace", "-ldflags", "-s -w"}, args...)...)
	cmd.Env = append(os.Environ(), environ...)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("go build %s: %w\n%s", strings.Join(args, " "), err, out)
	}
	return nil
}

// racing says whether programs run under the race detector, where nothing else is
// said: it is set by `make e2e RACE=1`.
func racing() bool { return os.Getenv("SLIPWAY_TEST_RACE") != "" }

// plain is slipwayd as it is shipped, instrumented the one under the race detector.
func plain() string        { return filepath.Join(binaries, "slipwayd") }
func instrumented() string { return filepath.Join(binaries, "race", "slipwayd") }

// thisProgram is the setting of tests that run the plain slipwayd in any case: those
// that hold its memory or time against a bound, and those that have run the same
// scenario under the race detector in another shape.
const thisProgram = "THIS_PROGRAM"

// unraced are the settings, with the plain program.
func unraced(s settings) settings {
	out := settings{thisProgram: plain()}
	maps.Copy(out, s)
	return out
}

// settings are SLIPWAY_ variables by key, in lower case; those in upper case are as
// they are.
type settings map[string]string

// environ is the environment with the settings in it.
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

// process is one running slipwayd.
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

// start runs it and waits until it is ready.
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

// log is what the process has written so far.
func (p *process) log() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.logs == nil {
		return ""
	}
	return p.logs.String()
}

// stop ends the process in order, and says what it answered.
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

// kill ends it as kill -9 does.
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

func within(d time.Duration, ask func() error) error {
	var err error
	for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
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
		return fmt.Errorf("%s answered %d: %s", url, resp.StatusCode, body)
	}
	return nil
}

// program is the whole service, in one of its shapes.
type program struct {
	t testing.TB
	// url is where clients reach it; host is the same without the scheme.
	url, host string
	// platform is the platform's own base address.
	platform string
	// replicas are the addresses of processes that play the registry.
	replicas []string
	procs    []*process
	// The real servers; nil when embedded.
	redis, nats, postgres *testkit.Server
	token                 string
	// authority signs the roles' certificates, and rooms are the gRPC addresses of
	// processes by name; nil in one process.
	authority *authority
	rooms     map[string]string
	// another starts a second gateway, which calls the second replicas, and answers
	// its URL; nil in one process.
	another func() string
}

// token is the first user's access token in every test.
const adminToken = "eyJ0aWQiOjF9LjAxMjM0NTY3ODlhYmNkZWYwMTIzNDU2Nzg5YWJjZGVmMDEyMzQ1Njc="

// common is what every shape needs to reach registries on loopback.
func common(t testing.TB, plain []string, more settings) settings {
	t.Helper()
	file := filepath.Join(t.TempDir(), "admin-token")
	if err := os.WriteFile(file, []byte(adminToken), 0o600); err != nil {
		t.Fatal(err)
	}
	s := settings{
		"egress_allow": "127.0.0.0/8", "insecure_registries": strings.Join(plain, ","), "admin_token_file": file,
		"platform_url": "http://localhost:9091",
	}
	maps.Copy(s, more)
	return s
}

// eachShape runs a scenario against a fresh program in every shape. plain are
// registries that are spoken to in http.
func eachShape(t *testing.T, plain []string, more settings, scenario func(t *testing.T, p *program)) {
	t.Helper()
	inEach(t, common(t, plain, more), processPerRole, scenario)
}

// inEach runs a scenario in one process, and, with real servers, in what perRole
// starts: without the race detector, which has seen the same code in the former, and
// would make starting a dozen processes longer than the scenario.
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
			p.t.Errorf("%s raced:\n%s", name, proc.log())
		}
	})
	proc.start()
	return proc
}

// withoutSettings leaves out the line that each start writes, which is longer than what
// most processes say in a test.
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

// process finds a process by name.
func (p *program) process(name string) *process {
	for _, proc := range p.procs {
		if proc.name == name {
			return proc
		}
	}
	p.t.Fatalf("there is no process %s", name)
	return nil
}

// registry is the process that plays the registry, or the first that does.
func (p *program) registry() *process {
	if len(p.procs) == 1 {
		return p.procs[0]
	}
	return p.process("registry-1")
}

// reply is an answer of the REST API.
type reply struct {
	status int
	header http.Header
	body   []byte
}

// json reads the body as an object.
func (r reply) json(t testing.TB) map[string]any {
	t.Helper()
	var m map[string]any
	if err := json.Unmarshal(r.body, &m); err != nil {
		t.Fatalf("no JSON object (status %d): %s", r.status, r.body)
	}
	return m
}

// call makes a REST call; body may be nil, a string, or something to marshal.
func (p *program) call(method, path string, body any, header ...string) reply {
	p.t.Helper()
	r := request(p.t, method, p.url+path, body, header...)
	documented(p.t, method, path, r)
	return r
}

// client follows no redirect, and shares no connection with http.DefaultClient, whose
// idle ones each httptest.Server closes when it ends.
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

// submit asks for an image and answers its name; it must work.
func (p *program) submit(body map[string]any) (target string) {
	p.t.Helper()
	r := p.call(http.MethodPost, "/v1alpha2/container", body)
	if r.status != http.StatusOK {
		p.t.Fatalf("submitting %v: %d %s", body, r.status, r.body)
	}
	target, _ = r.json(p.t)["targetImage"].(string)
	return target
}

// v2 is the URL of a target image's registry API, up to and with its name.
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

// tokenOf is the token in a target image.
func tokenOf(target string) string { return strings.Split(target, "/")[2] }

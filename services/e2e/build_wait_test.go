package e2e

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"slipway.dev/services/internal/testkit"
)

// gate blocks the steps of builds until the test releases them.
type gate struct {
	url   string
	begun atomic.Int64 // number of started steps
	mu    sync.Mutex
	open  map[string]bool
}

func newGate(t testing.TB) *gate {
	t.Helper()
	g := &gate{open: map[string]bool{}}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		g.mu.Lock()
		defer g.mu.Unlock()
		switch {
		case r.URL.Path == "/begin":
			g.begun.Add(1)
		case !g.open[r.URL.Path[1:]]:
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}))
	t.Cleanup(server.Close)
	g.url = server.URL
	return g
}

// wait returns a command that blocks until the gate of a name is open. It sends its request
// through the proxy of builds.
func (g *gate) wait(name string) string {
	return "until " + g.ask(name) + " 2>/dev/null; do busybox sleep 0.2; done"
}

func (g *gate) ask(path string) string { return "busybox wget -q -O /dev/null " + g.url + "/" + path }

func (g *gate) release(names ...string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, n := range names {
		g.open[n] = true
	}
}

// step returns an instruction that blocks.
func (g *gate) step() string {
	return "RUN " + g.ask("begin") + " && echo waiting at the gate && " + g.wait("gate") + "; echo passed > /mark.txt"
}

// reached waits until the step runs.
func (g *gate) reached(t testing.TB) {
	t.Helper()
	if err := within(2*time.Minute, func() error {
		if g.begun.Load() == 0 {
			return errors.New("the step has not begun")
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}

// passed checks that the step ran once and that the image has its result.
func (g *gate) passed(t *testing.T, target string) {
	t.Helper()
	g.release("gate")
	if got := files(t, pull(t, target, "amd64"))["mark.txt"]; got != "passed\n" {
		t.Errorf("the image contains %q", got)
	}
	if n := g.begun.Load(); n != 1 {
		t.Errorf("the step ran %d times", n)
	}
}

// manifest returns the URL of a target's manifest.
func manifest(target string) string {
	return v2(target) + "/manifests/" + target[strings.LastIndexByte(target, ':')+1:]
}

// TestPullThatIsCut cuts a pull that waits for a build, as a proxy does with idle connections.
// The build must continue, and the next pull must wait for it.
func TestPullThatIsCut(t *testing.T) {
	t.Parallel()
	up := testkit.NewRegistry(t, testkit.Open)
	eachBuildShape(t, []string{up.Host}, nil, func(t *testing.T, p *program) {
		g := newGate(t)
		body := recipe("FROM "+up.Push(t, "base/busybox:1", busybox(t, true)), g.step())
		first := p.order(body)
		target := text(first, "targetImage")
		g.reached(t)
		for range 2 {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			req, err := http.NewRequestWithContext(ctx, http.MethodGet, manifest(target), nil)
			if err != nil {
				t.Fatal(err)
			}
			if resp, err := http.DefaultClient.Do(req); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("a pull does not wait: %v, %v", resp, err)
			}
			cancel()
		}
		if b := p.call(http.MethodGet, "/v1alpha1/builds/"+text(first, "buildId")+"/status", nil).json(t); b["status"] != "PENDING" {
			t.Errorf("after the cut the build is %v", b)
		}
		if again := p.order(body); again["buildId"] != first["buildId"] || again["cached"] != true || again["succeeded"] != nil {
			t.Errorf("the request returned %v, and repeated %v", first, again)
		}
		g.passed(t, target)
	})
}

// An outputBuffer records the output of a running program.
type outputBuffer struct{ testkit.Output }

// awaits waits until the output contains a text.
func (s *outputBuffer) awaits(t testing.TB, text string) {
	t.Helper()
	if err := within(2*time.Minute, func() error {
		if !strings.Contains(s.String(), text) {
			return fmt.Errorf("%q is not in %s", text, s.String())
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}

// background starts the command line in the background.
func (p *program) background(t testing.TB, args ...string) (cmd *exec.Cmd, out, errs *outputBuffer) {
	t.Helper()
	out, errs = &outputBuffer{}, &outputBuffer{}
	cmd = exec.CommandContext(t.Context(), filepath.Join(binaries, "slipway"), args...)
	cmd.Env = append(os.Environ(), "SLIPWAY_SERVER="+p.url, "SLIPWAY_TOKEN="+p.token)
	cmd.Stdout, cmd.Stderr = out, errs
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return cmd, out, errs
}

// TestCommandLineIsInterrupted sends Ctrl-C to a command that waits for a build, and resumes it
// with the printed command.
func TestCommandLineIsInterrupted(t *testing.T) {
	t.Parallel()
	up := testkit.NewRegistry(t, testkit.Open)
	eachBuildShape(t, []string{up.Host}, nil, func(t *testing.T, p *program) {
		g := newGate(t)
		file := writeFile(t, "Dockerfile", "FROM "+up.Push(t, "base/busybox:1", busybox(t, true))+"\n"+g.step()+"\n")
		cmd, out, errs := p.background(t, "build", "-f", file, "--await")
		errs.awaits(t, "waiting at the gate")
		if err := cmd.Process.Signal(os.Interrupt); err != nil {
			t.Fatal(err)
		}
		var exit *exec.ExitError
		if err := cmd.Wait(); !errors.As(err, &exit) || exit.ExitCode() != 1 || out.String() != "" {
			t.Errorf("interrupted, the process exited with %v and printed %q", err, out)
		}
		hint := regexp.MustCompile(`interrupted; the build continues[^\n]*\n  slipway (logs \S+ -f)\n  slipway (status \S+)\nThe image will be (\S+)\n$`).FindStringSubmatch(errs.String())
		if hint == nil {
			t.Fatalf("interrupted, it printed %s", errs)
		}
		if now, _, err := p.slipway(strings.Fields(hint[2])...); err != nil || !strings.Contains(now, "BUILDING") {
			t.Errorf("slipway %s: %v\n%s", hint[2], err, now)
		}
		back, log, trouble := p.background(t, strings.Fields(hint[1])...)
		log.awaits(t, "waiting at the gate")
		g.passed(t, hint[3])
		if err := back.Wait(); err != nil || !strings.Contains(log.String(), "exporting to image") {
			t.Errorf("slipway %s: %v\n%s%s", hint[1], err, log, trouble)
		}
	})
}

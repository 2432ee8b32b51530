package e2e

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"slipway.dev/services/internal/testkit"
)

// TestStopsLoseNothing stops the process that embeds all services in each way that users do:
// during a step, a push, the conversion to a Singularity image, and a pull. After the next
// start, every build must end as if it had not been interrupted.
func TestStopsLoseNothing(t *testing.T) {
	t.Parallel()
	needBuilds(t)
	needSif(t)
	w := &interrupted{up: testkit.NewRegistry(t, testkit.Open), own: testkit.NewRegistry(t, testkit.Basic), gate: newGate(t), holds: &retained{}}
	w.up.Intercept(w.holds.hold)
	w.own.Intercept(w.holds.hold)
	w.program = oneProcess(t, common(t, []string{w.up.Host, w.own.Host}, settings{
		"limit_builds_anonymous": "0", "build_concurrency": "3", "drain_timeout": "3s", "drain_builds": "3s",
		"admin_registry_auth_file": dockerConfig(t, map[string]string{w.own.Host: testkit.User + ":" + testkit.Password}),
	}))
	w.base = w.up.Push(t, "base/busybox:1", busybox(t, true))
	for i, end := range []struct {
		name    string
		do      func(*process) error
		orderly bool // running pulls are served to their end
	}{
		{"TERM", (*process).stop, true},
		{"INT", func(p *process) error { return p.signal(syscall.SIGINT) }, true},
		{"INT twice", func(p *process) error { return p.signal(syscall.SIGINT, syscall.SIGINT) }, false},
		{"KILL", func(p *process) error { p.kill(); return nil }, false},
	} {
		t.Run(end.name, func(t *testing.T) {
			w.t = t
			w.inTheMiddle(t, strconv.Itoa(i), end.do, end.orderly)
		})
	}
	w.t = t
}

// interrupted is a program that is stopped repeatedly.
type interrupted struct {
	*program
	up, own *testkit.Registry
	base    string
	gate    *gate
	holds   *retained
}

func (w *interrupted) inTheMiddle(t *testing.T, n string, end func(*process) error, orderly bool) {
	user := []string{"Authorization", "Bearer " + w.token}
	proc := w.procs[0]

	step := w.order(recipe("FROM "+w.base, "RUN echo at the gate of "+n+" && "+w.gate.wait("step-"+n)+"; echo "+n+" > /mark.txt"))
	pushed := recipe("FROM "+w.base, "RUN echo pushed "+n+" > /mark.txt")
	pushed["freeze"], pushed["buildRepository"] = true, w.own.Host+"/team/push-"+n
	push := w.order(pushed, user...)
	w.holds.close("/v2/team/push-" + n + "/blobs/uploads/")
	source, _ := w.image(t, "lib/sif-"+n)
	single := frozen(source, w.own.Host+"/team/sif-"+n, nil)
	single["format"] = "sif"
	sif := w.order(single, user...)
	image, layer := w.image(t, "lib/pull-"+n)
	target := w.submit(map[string]any{"containerImage": image})
	if r := w.call(http.MethodGet, strings.TrimPrefix(manifest(target), w.url), nil); r.status != http.StatusOK {
		t.Fatalf("the manifest got %d %s", r.status, r.body)
	}
	pulled := make(chan error, 1)
	go func() { pulled <- pullBlob(v2(target)+"/blobs/"+layer, layer) }()
	w.holds.reached(t, "/v2/team/push-"+n, "/v2/lib/sif-"+n, "/v2/lib/pull-"+n)
	if err := within(2*time.Minute, func() error {
		if log := w.logOf(step); !strings.Contains(log, "at the gate of "+n) {
			return fmt.Errorf("the step has not begun: %s", log)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}

	ended := make(chan error, 1)
	go func() { ended <- end(proc) }()
	if orderly {
		w.holds.open("/v2/lib/pull-" + n)
	}
	if err := <-ended; orderly && err != nil {
		t.Errorf("the process exited with %v: %s", err, tail(proc.log(), 600))
	}
	if err := <-pulled; orderly == (err != nil) {
		t.Errorf("the running pull returned %v", err)
	}
	w.gate.release("step-" + n)
	w.holds.open("/v2/team/push-"+n, "/v2/lib/sif-"+n, "/v2/lib/pull-"+n)
	proc.start()

	for what, answer := range map[string]map[string]any{"the step": step, "the push": push, "the SIF": sif} {
		if s := w.finished(t, answer); s["succeeded"] != true {
			t.Errorf("%s ended as %v\n%s", what, s, w.logOf(answer))
		}
	}
	if got := files(t, pull(t, text(step, "targetImage"), "amd64"))["mark.txt"]; got != n+"\n" {
		t.Errorf("the step wrote %q", got)
	}
	if got := files(t, ownImage(t, text(push, "targetImage")))["mark.txt"]; got != "pushed "+n+"\n" {
		t.Errorf("the pushed image contains %q", got)
	}
	pulledSif(t, text(sif, "targetImage"))
	if err := pullBlob(v2(target)+"/blobs/"+layer, layer); err != nil {
		t.Errorf("after the start, pulling the blob returned %v", err)
	}
}

// image pushes a new image whose first layer blocks half way. It returns the reference and the
// digest of this layer.
func (w *interrupted) image(t *testing.T, repo string) (ref, layer string) {
	t.Helper()
	img := testkit.Image(t, "amd64", true)
	layers, err := img.Layers()
	if err != nil {
		t.Fatal(err)
	}
	d, err := layers[0].Digest()
	if err != nil {
		t.Fatal(err)
	}
	ref = w.up.Push(t, repo+":1", img)
	w.holds.close("/v2/" + repo + "/blobs/" + d.String())
	return ref, d.String()
}

// pullBlob reads a blob to its end.
func pullBlob(url, digest string) error {
	resp, err := client.Get(url)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	h := sha256.New()
	if _, err := io.Copy(h, resp.Body); err != nil {
		return err
	}
	if got := "sha256:" + hex.EncodeToString(h.Sum(nil)); resp.StatusCode != http.StatusOK || got != digest {
		return fmt.Errorf("%d, %s", resp.StatusCode, got)
	}
	return nil
}

// signal sends signals one after the other, and returns the exit error of the process.
func (p *process) signal(signals ...syscall.Signal) error {
	p.mu.Lock()
	cmd := p.cmd
	p.cmd = nil
	p.mu.Unlock()
	for i, s := range signals {
		if i > 0 { // until the process has received the previous signal
			if err := within(time.Minute, func() error {
				if !strings.Contains(tail(p.log(), 2000), "Stopping: ") {
					return errors.New("it does not stop")
				}
				return nil
			}); err != nil {
				return err
			}
		}
		if err := cmd.Process.Signal(s); err != nil {
			return err
		}
	}
	return cmd.Wait()
}

// retained blocks requests of a registry except HEAD, by path prefix.
type retained struct {
	mu    sync.Mutex
	gates map[string]chan struct{} // gates that are open are closed channels
	met   map[string]bool
}

func (h *retained) close(path string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.gates == nil {
		h.gates, h.met = map[string]chan struct{}{}, map[string]bool{}
	}
	h.gates[path] = make(chan struct{})
}

// open releases the requests with these path prefixes.
func (h *retained) open(paths ...string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for gate, c := range h.gates {
		for _, p := range paths {
			if strings.HasPrefix(gate, p) {
				close(c)
				delete(h.gates, gate)
			}
		}
	}
}

// reached waits until a request is blocked below each path.
func (h *retained) reached(t *testing.T, paths ...string) {
	t.Helper()
	for _, p := range paths {
		if err := within(2*time.Minute, func() error {
			h.mu.Lock()
			defer h.mu.Unlock()
			for gate := range h.met {
				if strings.HasPrefix(gate, p) {
					return nil
				}
			}
			return fmt.Errorf("no request is blocked at %s", p)
		}); err != nil {
			t.Fatal(err)
		}
	}
}

func (h *retained) hold(_ http.ResponseWriter, r *http.Request) bool {
	h.mu.Lock()
	var wait chan struct{}
	for gate, c := range h.gates {
		if strings.HasPrefix(r.URL.Path, gate) && r.Method != http.MethodHead && r.Method != http.MethodPost {
			wait, h.met[gate] = c, true
		}
	}
	h.mu.Unlock()
	if wait != nil {
		select {
		case <-wait:
		case <-r.Context().Done():
		}
	}
	return false
}

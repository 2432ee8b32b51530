package e2e

import (
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"slipway.dev/services/internal/testkit"
)

// TestBuiltImageIsKept stops the process that embeds all services, gracefully and with kill -9.
// Built images must keep their names and digests.
func TestBuiltImageIsKept(t *testing.T) {
	t.Parallel()
	needBuilds(t)
	up := testkit.NewRegistry(t, testkit.Open)
	p := oneProcess(t, common(t, []string{up.Host}, nil))
	body := recipe("FROM "+up.Push(t, "base/busybox:1", busybox(t, true)), "RUN echo made > /mark.txt")
	first := p.order(body)
	target := text(first, "targetImage")
	want := digestOf(t, pull(t, target, "amd64"))
	log := p.call(http.MethodGet, "/v1alpha1/builds/"+text(first, "buildId")+"/logs", nil)
	for _, end := range []struct {
		name string
		do   func(*process)
	}{
		{"stopped", func(proc *process) {
			if err := proc.stop(); err != nil {
				t.Errorf("the process exited with %v", err)
			}
		}},
		{"killed", (*process).kill},
	} {
		t.Run(end.name, func(t *testing.T) {
			end.do(p.procs[0])
			p.procs[0].start()
			name := target[:strings.LastIndexByte(target, ':')]
			for _, ref := range []string{target, name + "@" + want} {
				img := pull(t, ref, "amd64")
				if got := digestOf(t, img); got != want || files(t, img)["mark.txt"] != "made\n" {
					t.Errorf("%s is %s, want %s", ref, got, want)
				}
			}
			if again := p.order(body); again["buildId"] != first["buildId"] || again["cached"] != true || again["succeeded"] != true {
				t.Errorf("the request returned %v, and repeated %v", first, again)
			}
			if now := p.call(http.MethodGet, "/v1alpha1/builds/"+text(first, "buildId")+"/logs", nil); string(now.body) != string(log.body) {
				t.Errorf("the log was\n%s\nand is now\n%s", log.body, now.body)
			}
		})
	}
}

// TestNothingCanBeBuilt removes buildkitd and its runtime. Recipes must be rejected with the
// reason, and all other features must work.
func TestNothingCanBeBuilt(t *testing.T) {
	t.Parallel()
	up := testkit.NewRegistry(t, testkit.Open)
	image := up.Push(t, "lib/tool:v1", testkit.Image(t, "amd64", true))
	dir := t.TempDir()
	p := oneProcess(t, common(t, []string{up.Host}, settings{"PATH": t.TempDir(), "runc_path": filepath.Join(dir, "runc"), "limit_requests_anonymous": "0"}))
	// The worker reports its engines shortly after its start. Until then requests are queued,
	// and repeated requests join them.
	asked := 0
	if err := within(time.Minute, func() error {
		asked++
		r := p.call(http.MethodPost, "/v1alpha2/container", recipe("FROM scratch", fmt.Sprintf("LABEL asked=%d", asked)))
		if r.status != http.StatusNotImplemented || !strings.Contains(string(r.body), "cannot build images: ") || !strings.Contains(string(r.body), "slipwayd doctor") || strings.Contains(string(r.body), dir) {
			return fmt.Errorf("a recipe got %d %s", r.status, r.body)
		}
		return nil
	}); err != nil {
		t.Error(err)
	}
	pull(t, p.submit(map[string]any{"containerImage": image}), "amd64")
}

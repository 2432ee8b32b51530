package e2e

import (
	"fmt"
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"slipway.dev/services/internal/testkit"
)

// TestAttackStoreNeverShrinks checks that the space of built images is released after their
// names have expired, also across a kill -9, and that they are built again when requested. An
// image with a valid name must stay.
func TestAttackStoreNeverShrinks(t *testing.T) {
	t.Parallel() // it waits for names to expire
	needBuilds(t)
	up := testkit.NewRegistry(t, testkit.Open)
	base := up.Push(t, "base/busybox:1", busybox(t, true))
	p := oneProcess(t, common(t, []string{up.Host}, settings{"token_ttl": "1m", "store_keep": "1m", "limit_builds_anonymous": "0"}))
	body := recipe("FROM "+base, "RUN busybox dd if=/dev/urandom of=/big bs=1M count=20")
	first := p.order(body)
	if s := p.finished(t, first); s["succeeded"] != true {
		t.Fatalf("the build ended as %v", s)
	}
	images := func(args ...string) string {
		cmd := exec.Command(filepath.Join(binaries, "slipwayd"), append([]string{"images"}, args...)...)
		cmd.Env = p.procs[0].env.environ()
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Errorf("slipwayd images %v: %v\n%s", args, err, out)
		}
		return string(out)
	}
	if held := images("list"); !strings.Contains(held, "sha256:") {
		t.Fatalf("the store lists %s", held)
	}
	if got := images("prune", "--unused-for", "1ms"); strings.Contains(got, "sha256:") || !strings.Contains(got, "0 images removed") {
		t.Errorf("an image with a valid name was removed: %s", got)
	}
	if r := request(t, http.MethodGet, manifest(text(first, "targetImage")), nil); r.status != http.StatusOK {
		t.Errorf("the manifest got %d", r.status)
	}
	p.procs[0].kill()
	p.procs[0].start()
	err := within(4*time.Minute, func() error {
		if now := images("list"); strings.Contains(now, "sha256:") {
			return fmt.Errorf("the store lists %s", now)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	again := p.order(body)
	if s := p.finished(t, again); s["succeeded"] != true || again["cached"] == true {
		t.Errorf("the repeated request returned %v: %v", again, s)
	}
	if r := request(t, http.MethodGet, manifest(text(again, "targetImage")), nil); r.status != http.StatusOK {
		t.Errorf("the rebuilt image got %d", r.status)
	}
}

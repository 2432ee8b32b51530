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

// TestAttackStoreNeverShrinks: images are built, their names end, and the space comes
// back, also across a kill -9; asked for again they are built again. An image whose
// name works stays.
func TestAttackStoreNeverShrinks(t *testing.T) {
	t.Parallel() // it waits for names to end
	needBuilds(t)
	up := testkit.NewRegistry(t, testkit.Open)
	base := up.Push(t, "base/busybox:1", busybox(t, true))
	p := oneProcess(t, common(t, []string{up.Host}, settings{"token_ttl": "1m", "store_keep": "1m", "limit_builds_anonymous": "0"}))
	body := recipe("FROM "+base, "RUN busybox dd if=/dev/urandom of=/big bs=1M count=20")
	first := p.order(body)
	if s := p.finished(t, first); s["succeeded"] != true {
		t.Fatalf("the build ends as %v", s)
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
		t.Errorf("while its name works, an image is removed: %s", got)
	}
	if r := request(t, http.MethodGet, manifest(text(first, "targetImage")), nil); r.status != http.StatusOK {
		t.Errorf("it is answered %d", r.status)
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
		t.Errorf("asked for again it is %v: %v", again, s)
	}
	if r := request(t, http.MethodGet, manifest(text(again, "targetImage")), nil); r.status != http.StatusOK {
		t.Errorf("built again it is answered %d", r.status)
	}
}

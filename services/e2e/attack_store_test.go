package e2e

import (
	"fmt"
	"net/http"
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
	held := func() string { return string(request(t, http.MethodGet, p.procs[0].admin+"/images", nil).body) }
	if !strings.Contains(held(), `"tag"`) {
		t.Fatalf("the store lists %s", held())
	}
	pruned := request(t, http.MethodPost, p.procs[0].admin+"/images/prune?unused_for=1ms", nil)
	if !strings.Contains(string(pruned.body), `"images":null`) {
		t.Errorf("while its name works, an image is removed: %s", pruned.body)
	}
	if r := request(t, http.MethodGet, manifest(text(first, "targetImage")), nil); r.status != http.StatusOK {
		t.Errorf("it is answered %d", r.status)
	}
	p.procs[0].kill()
	p.procs[0].start()
	err := within(4*time.Minute, func() error {
		if now := held(); strings.Contains(now, `"tag"`) {
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

package registry_test

import (
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"slipway.dev/services/internal/testkit"
	"slipway.dev/services/registry"
)

// TestTagFreshness checks that by default each pull resolves the tag. If TagFreshness is set,
// a result is reused for that long, and then the tag's new digest is served.
func TestTagFreshness(t *testing.T) {
	t.Parallel()
	for name, freshness := range map[string]time.Duration{"default": 0, "ten seconds": 10 * time.Second} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var later atomic.Int64 // in nanoseconds
			f := newFrontWith(t, 1000, func(d *registry.Deps) {
				d.TagFreshness = freshness
				d.Now = func() time.Time { return time.Now().Add(time.Duration(later.Load())) }
			})
			pull := func() (digest string, asked int) {
				f.up.Requests()
				w := f.ask(http.MethodGet, f.name+"/manifests/v1")
				if w.Code != http.StatusOK {
					t.Fatalf("it is answered %d: %s", w.Code, w.Body)
				}
				for _, r := range f.up.Requests() {
					if strings.HasSuffix(r, "/manifests/v1") {
						asked++
					}
				}
				return w.Header().Get("Docker-Content-Digest"), asked
			}
			want := 0
			if freshness == 0 {
				want = 1
			}
			if d, asked := pull(); d != f.index || asked != want {
				t.Errorf("soon after: %s, asked %d times, want %d", d, asked, want)
			}
			f.up.Push(t, "lib/tool:v1", testkit.Index(t, true, "amd64"))
			if d, _ := pull(); (d == f.index) != (freshness > 0) {
				t.Errorf("after the tag moved: %s, before %s", d, f.index)
			}
			later.Store(int64(11 * time.Second))
			if d, asked := pull(); d == f.index || asked != 1 {
				t.Errorf("in time: %s, asked %d times", d, asked)
			}
		})
	}
}

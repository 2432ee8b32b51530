package e2e

import (
	"errors"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"slipway.dev/services/internal/testkit"
)

// requestCounts counts the requests for the artifacts of a channel.
type requestCounts struct {
	mu sync.Mutex
	n  map[string]int
}

func (a *requestCounts) of(file string) int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.n[file]
}

// counting makes the channel count the requests for files. It blocks requests for the artifact
// hold until the channel until is closed.
func (a *artifacts) counting(hold string, until <-chan struct{}, files ...string) *requestCounts {
	out := &requestCounts{n: map[string]int{}}
	for _, file := range files {
		a.answer(file, func(w http.ResponseWriter, r *http.Request) {
			out.mu.Lock()
			out.n[file]++
			out.mu.Unlock()
			if file == hold {
				select {
				case <-until:
				case <-r.Context().Done():
					panic(http.ErrAbortHandler)
				}
			}
			http.ServeFile(w, r, filepath.Join(artifactsDir, file))
		})
	}
	return out
}

// TestCondaWorkerKilled kills a worker while it builds layers. All layers must still be built,
// and finished layers must not be built again: the worker finds them after its restart, or
// another worker uses them.
func TestCondaWorkerKilled(t *testing.T) {
	leaveToServers(t)
	t.Parallel()
	const last, zlib, curl = "c-ares-1.21.0-h31becfc_0.conda", "libzlib-1.2.13-h31becfc_5.conda", "libcurl-8.4.0-h4e8248e_0.conda"
	up := testkit.NewRegistry(t, testkit.Open)
	base := up.Push(t, "base/index:1", testkit.Index(t, true, "amd64", "arm64"))
	channel := newArtifacts(t)
	eachCopyShape(t, []string{up.Host}, bare(channel.URL), func(t *testing.T, p *program) {
		release := make(chan struct{})
		count := channel.counting(last, release, last, zlib, curl)
		answer := p.order(environment(base, "libcurl"))
		var worker *process
		err := within(time.Minute, func() error {
			for _, proc := range p.procs {
				if strings.Contains(proc.log(), "Worker starts a build") {
					worker = proc
				}
			}
			if worker == nil || !strings.Contains(p.logOf(answer), "2 of 3: ") {
				return errors.New("two layers are not made yet")
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		worker.kill()
		close(release)
		alone := len(p.procs) == 1
		if alone {
			worker.start()
		}
		if s := p.finished(t, answer); s["succeeded"] != true {
			t.Fatalf("the build ended as %v:\n%s", s, p.logOf(answer))
		}
		if count.of(last) != 2 || count.of(zlib) != 1 || count.of(curl) != 1 { // another worker uses the finished layers
			t.Errorf("the channel got %d, %d and %d requests", count.of(last), count.of(zlib), count.of(curl))
		}
		if log := p.logOf(answer); alone && !strings.Contains(log, "2 of 3 packages exist as layers; fetching the other 1") {
			t.Errorf("the log is\n%s", log)
		}
		p.judgeBuild(t, answer, files(t, pull(t, text(answer, "targetImage"), "amd64")), judged{})
	})
}

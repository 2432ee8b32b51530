package e2e

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"slipway.dev/services/internal/testkit"
)

// smallPackages returns packages of a few bytes each.
func smallPackages(n int) []madePackage {
	var out []madePackage
	for i := range n {
		name := fmt.Sprintf("tool-%d", i)
		out = append(out, madePackage{name: name, version: "1.0", subdir: "linux-64", files: []packedFile{
			{path: "share/" + name, content: name, mode: 0o644},
		}})
	}
	return out
}

// TestCondaConcurrentRequests sends many requests concurrently, like a pipeline, while the solver has
// little time for each. Every image must be assembled from layers, and have a lock.
func TestCondaConcurrentRequests(t *testing.T) {
	t.Parallel()
	const tools, at = 12, 40
	up := testkit.NewRegistry(t, testkit.Open)
	channel := madeChannel(t, smallPackages(tools)...)
	base := up.Push(t, "base/index:1", testkit.Index(t, true, "amd64", "arm64"))
	s := bare(channel.URL)
	s["conda_solve_wait"] = "50ms"
	s["limit_requests_anonymous"], s["limit_builds_anonymous"] = "0", "0"
	eachCopyShape(t, []string{up.Host}, s, func(t *testing.T, p *program) {
		entries := func(i int) []string {
			return []string{fmt.Sprintf("tool-%d", i%tools), fmt.Sprintf("tool-%d", (i/tools+i+1)%tools)}
		}
		answers := make([]map[string]any, at)
		var all sync.WaitGroup
		for i := range answers {
			all.Go(func() { answers[i] = p.order(environment(base, entries(i)...)) })
		}
		all.Wait()
		for i, answer := range answers {
			if got := p.finished(t, answer); got["succeeded"] != true {
				t.Fatalf("%d ended as %v:\n%s", i, got, p.logOf(answer))
			}
			id := text(answer, "buildId")
			if b := p.call(http.MethodGet, "/v1alpha1/builds/"+id, nil).json(t); b["containerFile"] != nil {
				t.Fatalf("%d was built from %v", i, b["containerFile"])
			}
			if lock := p.call(http.MethodGet, "/v1alpha1/builds/"+id+"/lock?format=explicit", nil); lock.status != http.StatusOK || !strings.Contains(string(lock.body), entries(i)[0]+"-1.0") {
				t.Fatalf("the lock of %d is %d %s", i, lock.status, lock.body)
			}
		}
		p.judgeBuild(t, answers[3], files(t, pull(t, text(answers[3], "targetImage"), "amd64")), judged{})
		again := p.order(environment(base, entries(3)...))
		if again["buildId"] != answers[3]["buildId"] || again["cached"] != true {
			t.Errorf("the repeated request returned %v, and before %v", again, answers[3])
		}
	})
}

// TestCondaColdChannel requests packages of a slow channel that was not used before. The image
// must equal the image of a server that had enough time to solve the request.
func TestCondaColdChannel(t *testing.T) {
	t.Parallel()
	up := testkit.NewRegistry(t, testkit.Open)
	channel := madeChannel(t, smallPackages(2)...)
	fast := channel.Config.Handler
	var slow sync.Once
	base := up.Push(t, "base/index:1", testkit.Index(t, true, "amd64", "arm64"))
	var digests []string
	for _, wait := range []string{"20s", "10ms"} {
		if wait == "10ms" {
			channel.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				slow.Do(func() { time.Sleep(2 * time.Second) })
				fast.ServeHTTP(w, r)
			})
		}
		s := bare(channel.URL)
		s["conda_solve_wait"] = wait
		p := oneProcess(t, common(t, []string{up.Host}, s))
		answer := p.order(environment(base, "tool-1"))
		if got := p.finished(t, answer); got["succeeded"] != true {
			t.Fatalf("waiting %s the build ended as %v:\n%s", wait, got, p.logOf(answer))
		}
		digests = append(digests, text(p.call(http.MethodGet, "/v1alpha1/builds/"+text(answer, "buildId"), nil).json(t), "digest"))
	}
	if digests[0] == "" || digests[0] != digests[1] {
		t.Errorf("one request has the digests %v", digests)
	}
}

package e2e

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"slipway.dev/services/internal/testkit"
)

// faulty is a program whose parts are ended while it builds.
type faulty struct {
	*program
	base   string
	images *testkit.Registry
	steps  int
}

// TestBuildFaults ends one part after the other with kill -9 while an image is
// built. No build is lost, none is made twice, and what cannot go on says so and
// recovers by itself.
func TestBuildFaults(t *testing.T) {
	needBuilds(t)
	up := testkit.NewRegistry(t, testkit.Open)
	p, images := buildersPerRole(t, []string{up.Host}, settings{"limit_builds_anonymous": "0", "build_concurrency": "2", "drain_timeout": "3s"})
	f := &faulty{program: p, base: up.Push(t, "base/busybox:1", busybox(t, true)), images: images}
	for _, tc := range []struct {
		name string
		test func(*faulty, *testing.T)
	}{
		{"same request on two replicas", (*faulty).twins},
		{"pulls wait on two registries", (*faulty).waitingPulls},
		{"delete cancels", (*faulty).deleteCancels},
		{"daemon", (*faulty).daemonDies},
		{"builder", (*faulty).builderDies},
		{"builder stops", (*faulty).builderStops},
		{"build services", (*faulty).buildServicesDie},
		{"NATS", (*faulty).natsDies},
		{"Redis", (*faulty).redisDies},
		{"PostgreSQL", (*faulty).postgresDies},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f.t = t
			tc.test(f, t)
		})
	}
	f.t = t
}

// slow is a request for an image that takes some seconds to build, unlike all
// others; its log counts them.
func (f *faulty) slow(seconds int) map[string]any {
	f.steps++
	return recipe("FROM "+f.base, fmt.Sprintf(
		"RUN for i in $(busybox seq 1 %d); do echo tick $i of %d; busybox sleep 1; done; echo %d > /mark.txt", seconds, f.steps, f.steps))
}

// begun orders a build and waits until its first step prints.
func (f *faulty) begun(t *testing.T, seconds int) map[string]any {
	t.Helper()
	answer := f.order(f.slow(seconds))
	f.prints(t, answer, "tick 2 of")
	return answer
}

func (f *faulty) prints(t *testing.T, answer map[string]any, text string) {
	t.Helper()
	if err := within(time.Minute, func() error {
		if log := f.log(answer); !strings.Contains(log, text) {
			return fmt.Errorf("the log has no %q: %s", text, tail(log, 500))
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}

func (f *faulty) log(answer map[string]any) string {
	return string(f.call(http.MethodGet, "/v1alpha1/builds/"+text(answer, "buildId")+"/logs", nil).body)
}

// succeeds waits for the end of a build, looks into the image, and at who made
// it.
func (f *faulty) succeeds(t *testing.T, answer map[string]any) {
	t.Helper()
	status := f.finished(t, answer)
	if status["succeeded"] != true {
		t.Fatalf("it ends as %v", status)
	}
	if got := files(t, pull(t, text(answer, "targetImage"), "amd64"))["mark.txt"]; got == "" {
		t.Error("the image is not the one that was asked for")
	}
	log := f.log(answer)
	if !strings.Contains(log, "tick 1 of") || !strings.Contains(log, "exporting to image") {
		t.Errorf("the log is %s", log)
	}
	f.madeOnce(t, answer)
}

// madeOnce counts how often an image was pushed by its name.
func (f *faulty) madeOnce(t *testing.T, answer map[string]any) {
	t.Helper()
	_, tag, _ := strings.Cut(text(answer, "targetImage")[len(f.host):], ":")
	var puts []string
	for _, r := range f.images.Requests() {
		if strings.HasPrefix(r, "PUT ") && strings.HasSuffix(r, "/manifests/"+tag) {
			puts = append(puts, r)
		}
	}
	if len(puts) != 1 {
		t.Errorf("the image was pushed %d times: %q", len(puts), puts)
	}
}

// worker is the builder that took a build last.
func (f *faulty) worker(t *testing.T, answer map[string]any) *process {
	t.Helper()
	for _, name := range []string{"builder-1", "builder-2"} {
		p := f.process(name)
		taken := 0
		for line := range strings.Lines(p.log()) {
			if !strings.Contains(line, text(answer, "buildId")) {
				continue
			}
			switch {
			case strings.Contains(line, `"Worker starts a build"`):
				taken++
			case strings.Contains(line, `"Worker ended a build"`), strings.Contains(line, "handed back"):
				taken--
			}
		}
		if taken > 0 {
			return p
		}
	}
	t.Fatal("no builder has the build")
	return nil
}

// twins sends the same request at the same time through two of everything.
func (f *faulty) twins(t *testing.T) {
	urls := []string{f.url, f.another()}
	for range 5 {
		body := f.slow(1)
		var all sync.WaitGroup
		begin := make(chan struct{})
		answers := make([]map[string]any, 6)
		for i := range answers {
			all.Go(func() {
				<-begin
				answers[i] = request(t, http.MethodPost, urls[i%2]+"/v1alpha2/container", body).json(t)
			})
		}
		close(begin)
		all.Wait()
		first := 0
		for _, a := range answers {
			if text(a, "buildId") == "" || a["buildId"] != answers[0]["buildId"] {
				t.Errorf("the requests are answered as %v", answers)
			}
			if a["cached"] == false {
				first++
			}
		}
		if first != 1 {
			t.Errorf("%d of the requests started the build", first)
		}
		f.succeeds(t, answers[0])
	}
}

func (f *faulty) waitingPulls(t *testing.T) {
	answer := f.begun(t, 5)
	target := text(answer, "targetImage")
	_, tag, _ := strings.Cut(target[len(f.host):], ":")
	var all sync.WaitGroup
	for _, replica := range f.replicas {
		all.Go(func() {
			url := strings.Replace(v2(target), f.host, replica, 1) + "/manifests/" + tag
			if r := request(t, http.MethodGet, url, nil); r.status != http.StatusOK {
				t.Errorf("%s answers %d %s", replica, r.status, r.body)
			}
		})
	}
	all.Wait()
	f.succeeds(t, answer)
}

func (f *faulty) deleteCancels(t *testing.T) {
	body := f.slow(600)
	one, two := f.order(body), f.order(body)
	f.prints(t, one, "tick 2 of")
	revoke := func(answer map[string]any) {
		t.Helper()
		if r := f.call(http.MethodDelete, "/v1alpha2/container/"+text(answer, "requestId"), nil); r.status != http.StatusNoContent {
			t.Fatalf("DELETE is answered %d %s", r.status, r.body)
		}
	}
	path := "/v1alpha1/builds/" + text(one, "buildId")
	worker := f.worker(t, one)
	revoke(one)
	f.prints(t, two, "tick 5 of") // it goes on
	if b := f.call(http.MethodGet, path, nil).json(t); b["status"] != "PENDING" {
		t.Errorf("another request waits for it, yet it is %v", b)
	}
	revoke(two)
	if err := within(10*time.Second, func() error {
		if b := f.call(http.MethodGet, path, nil).json(t); b["succeeded"] != false || b["reason"] != "cancelled" {
			return fmt.Errorf("nobody waits for it, yet it is %v", b)
		}
		for line := range strings.Lines(worker.log()) {
			if strings.Contains(line, `"Worker ended a build"`) && strings.Contains(line, text(one, "buildId")) {
				return nil
			}
		}
		return errors.New("its builder goes on")
	}); err != nil {
		t.Error(err)
	}
	again := f.order(body)
	if again["buildId"] == one["buildId"] {
		t.Errorf("a build that was cancelled is answered: %v", again)
	}
	revoke(again)
}

// daemonDies ends buildkitd while a step runs.
func (f *faulty) daemonDies(t *testing.T) {
	answer := f.begun(t, 6)
	worker := f.worker(t, answer)
	tree := descendants(worker.cmd.Process.Pid)
	if len(tree) < 3 { // the daemon, the runtime, the step
		t.Fatalf("the builder has the processes %v", tree)
	}
	if err := syscall.Kill(tree[0].pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if err := within(10*time.Second, func() error {
		if left := slices.DeleteFunc(slices.Clone(tree), func(p born) bool { return !p.lives() }); len(left) > 0 {
			return fmt.Errorf("left behind: %v of %v", left, tree)
		}
		return nil
	}); err != nil {
		t.Error(err)
	}
	f.succeeds(t, answer)
	if err := within(10*time.Second, func() error {
		if left := groupsOf(text(answer, "buildId")); len(left) > 0 {
			return fmt.Errorf("control groups are left: %v", left)
		}
		return nil
	}); err != nil {
		t.Error(err)
	}
}

// builderDies ends the worker that has the build; the other one finishes it.
func (f *faulty) builderDies(t *testing.T) {
	answer := f.begun(t, 5)
	worker := f.worker(t, answer)
	tree := descendants(worker.cmd.Process.Pid)
	worker.kill()
	if err := within(10*time.Second, func() error {
		if left := slices.DeleteFunc(slices.Clone(tree), func(p born) bool { return !p.lives() }); len(left) > 0 {
			return fmt.Errorf("left behind: %v of %v", left, tree)
		}
		return nil
	}); err != nil {
		t.Error(err)
	}
	f.succeeds(t, answer) // the bus waits half a minute for a sign of life
	worker.start()
}

// builderStops ends it in order: the other one gets the build at once.
func (f *faulty) builderStops(t *testing.T) {
	answer := f.begun(t, 20)
	worker := f.worker(t, answer)
	begin := time.Now()
	if err := worker.stop(); err != nil {
		t.Errorf("the builder ends with %v", err)
	}
	t.Logf("it took %s to stop", time.Since(begin))
	f.succeeds(t, answer)
	worker.start()
}

// buildServicesDie ends them while a step runs, and they come back when the step
// is over.
func (f *faulty) buildServicesDie(t *testing.T) {
	answer := f.begun(t, 5)
	for _, name := range []string{"build-1", "build-2"} {
		f.process(name).kill()
	}
	time.Sleep(6 * time.Second) // the worker is to want a login meanwhile
	for _, name := range []string{"build-1", "build-2"} {
		f.process(name).start()
	}
	f.succeeds(t, answer)
}

func (f *faulty) natsDies(t *testing.T) {
	answer := f.begun(t, 6)
	f.nats.Kill()
	time.Sleep(2 * time.Second)
	if err := f.nats.Start(); err != nil {
		t.Fatal(err)
	}
	f.succeeds(t, answer)
	log := f.log(answer)
	for i := range 6 {
		if n := strings.Count(log, fmt.Sprintf("tick %d of", i+1)); n != 1 {
			t.Errorf("tick %d is %d times in the log: %s", i+1, n, log)
		}
	}
}

func (f *faulty) redisDies(t *testing.T) {
	answer := f.begun(t, 4)
	f.redis.Kill()
	f.succeeds(t, answer)
	f.succeeds(t, f.begun(t, 2))
	if err := f.redis.Start(); err != nil {
		t.Fatal(err)
	}
	f.succeeds(t, f.begun(t, 2))
}

func (f *faulty) postgresDies(t *testing.T) {
	answer := f.begun(t, 6)
	f.postgres.Kill()
	r := f.call(http.MethodPost, "/v1alpha2/container", f.slow(1))
	if r.status != http.StatusServiceUnavailable || r.header.Get("Retry-After") == "" || strings.Contains(string(r.body), "dial") {
		t.Errorf("a request is answered %d %v %s", r.status, r.header, r.body)
	}
	time.Sleep(6 * time.Second) // the build ends meanwhile
	if r := f.call(http.MethodGet, "/v1alpha1/builds/"+text(answer, "buildId")+"/status", nil); r.status != http.StatusServiceUnavailable {
		t.Errorf("the build's status is answered %d %s", r.status, r.body)
	}
	if err := f.postgres.Start(); err != nil {
		t.Fatal(err)
	}
	if err := within(30*time.Second, func() error {
		if r := f.call(http.MethodGet, "/v1alpha2/container/"+text(answer, "requestId")+"/status", nil); r.status != http.StatusOK {
			return &unexpectedStatus{r.status}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	f.succeeds(t, answer)
	f.succeeds(t, f.begun(t, 2))
}

// born is a process that is told from a later one with the same number.
type born struct {
	pid  int
	name string
	at   string
}

func (b born) lives() bool { now, ok := lookAt(b.pid); return ok && now.at == b.at }

// lookAt answers a process that runs.
func lookAt(pid int) (born, bool) {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return born{}, false
	}
	begin, rest, ok := strings.Cut(string(raw), ") ")
	f := strings.Fields(rest)
	if !ok || len(f) < 20 || f[0] == "Z" {
		return born{}, false
	}
	return born{pid, begin[strings.IndexByte(begin, '(')+1:], f[19]}, true
}

// descendants are all processes that a process has started, its children first.
func descendants(pid int) (out []born) {
	for next := []int{pid}; len(next) > 0; next = next[1:] {
		lists, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", next[0]))
		for _, list := range lists {
			raw, _ := os.ReadFile(list)
			for _, field := range strings.Fields(string(raw)) {
				child, _ := strconv.Atoi(field)
				if p, ok := lookAt(child); ok {
					out, next = append(out, p), append(next, child)
				}
			}
		}
	}
	return out
}

// groupsOf are the control groups of a build.
func groupsOf(build string) (out []string) {
	for _, where := range []string{"/sys/fs/cgroup/slipway/*/*", "/sys/fs/cgroup/*/slipway/*/*"} {
		all, _ := filepath.Glob(where)
		for _, dir := range all {
			if strings.Contains(filepath.Base(dir), build) {
				out = append(out, dir)
			}
		}
	}
	return out
}

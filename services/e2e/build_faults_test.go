package e2e

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"slipway.dev/services/internal/testkit"
)

// faulty is a program whose processes are killed during builds.
type faulty struct {
	*program
	base   string
	images *testkit.Registry
	gate   *gate
	steps  int
}

// TestBuildFaults kills one process after the other with kill -9 during a build. No build may
// be lost or run twice, and all parts must report and recover from the failure without
// intervention.
func TestBuildFaults(t *testing.T) {
	needBuilds(t)
	up := testkit.NewRegistry(t, testkit.Open)
	p, images := buildersPerRole(t, common(t, []string{up.Host}, settings{"limit_builds_anonymous": "0", "build_concurrency": "2", "drain_timeout": "3s", "drain_builds": "3s"}))
	f := &faulty{program: p, base: up.Push(t, "base/busybox:1", busybox(t, true)), images: images, gate: newGate(t)}
	for _, tc := range []struct {
		name string
		test func(*faulty, *testing.T)
	}{
		{"the same request on two replicas", (*faulty).twins},
		{"pulls wait at two registries", (*faulty).waitingPulls},
		{"deleting all requests cancels their build", (*faulty).deleteCancels},
		{"buildkitd is killed", (*faulty).daemonDies},
		{"a builder is killed", (*faulty).builderDies},
		{"a builder is stopped", (*faulty).builderStops},
		{"the build services are killed", (*faulty).buildServicesDie},
		{"NATS is killed", (*faulty).natsDies},
		{"Redis is killed", (*faulty).redisDies},
		{"PostgreSQL is killed", (*faulty).postgresDies},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f.t = t
			tc.test(f, t)
		})
	}
	f.t = t
}

// slow returns a request for a new image. Its step prints six lines, and blocks after the
// second and the fourth line until it is released.
func (f *faulty) slow() map[string]any {
	f.steps++
	n := strconv.Itoa(f.steps)
	return recipe("FROM "+f.base, fmt.Sprintf(
		"RUN for i in 1 2 3 4 5 6; do echo tick $i of %[1]s; case $i in 2) %[2]s;; 4) %[3]s;; esac; done; echo %[1]s > /mark.txt",
		n, f.gate.wait(n+"-two"), f.gate.wait(n+"-four")))
}

// begun starts a build and waits until it blocks.
func (f *faulty) begun(t *testing.T) map[string]any {
	t.Helper()
	answer := f.order(f.slow())
	f.prints(t, answer, "tick 2 of")
	return answer
}

// goOn releases all builds that were started so far.
func (f *faulty) goOn() {
	for n := range f.steps {
		f.gate.release(strconv.Itoa(n+1)+"-two", strconv.Itoa(n+1)+"-four")
	}
}

func (f *faulty) prints(t *testing.T, answer map[string]any, text string) {
	t.Helper()
	if err := within(5*time.Minute, func() error {
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

// succeeds waits for the end of a build, and checks the image and its log.
func (f *faulty) succeeds(t *testing.T, answer map[string]any) {
	t.Helper()
	status := f.finished(t, answer)
	if status["succeeded"] != true {
		t.Fatalf("the build ended as %v", status)
	}
	if got := files(t, pull(t, text(answer, "targetImage"), "amd64"))["mark.txt"]; got == "" {
		t.Error("the image differs from the request")
	}
	log := f.log(answer)
	if !strings.Contains(log, "tick 1 of") || !strings.Contains(log, "exporting to image") {
		t.Errorf("the log is %s", log)
	}
	f.madeOnce(t, answer)
}

// madeOnce checks that an image was pushed once by its name.
func (f *faulty) madeOnce(t *testing.T, answer map[string]any) {
	t.Helper()
	target := text(answer, "targetImage")
	tag := target[strings.LastIndexByte(target, ':')+1:]
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

// worker returns the builder that last took a build.
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

// twins sends the same request concurrently through two replicas.
func (f *faulty) twins(t *testing.T) {
	urls := []string{f.url, f.another()}
	for range 5 {
		body := f.slow()
		f.goOn()
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
				t.Errorf("the requests got %v", answers)
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
	answer := f.begun(t)
	var all sync.WaitGroup
	for _, replica := range f.replicas {
		all.Go(func() {
			url := strings.Replace(manifest(text(answer, "targetImage")), f.host, replica, 1)
			if r := request(t, http.MethodGet, url, nil); r.status != http.StatusOK {
				t.Errorf("%s returned %d %s", replica, r.status, r.body)
			}
		})
	}
	f.goOn()
	all.Wait()
	f.succeeds(t, answer)
}

func (f *faulty) deleteCancels(t *testing.T) {
	body := f.slow()
	one, two := f.order(body), f.order(body)
	f.prints(t, one, "tick 2 of")
	revoke := func(answer map[string]any) {
		t.Helper()
		if r := f.call(http.MethodDelete, "/v1alpha2/container/"+text(answer, "containerToken"), nil); r.status != http.StatusNoContent {
			t.Fatalf("DELETE got %d %s", r.status, r.body)
		}
	}
	path := "/v1alpha1/builds/" + text(one, "buildId")
	worker := f.worker(t, one)
	revoke(one)
	f.gate.release(strconv.Itoa(f.steps) + "-two")
	f.prints(t, two, "tick 4 of") // the build continues
	if b := f.call(http.MethodGet, path, nil).json(t); b["status"] != "PENDING" {
		t.Errorf("another request waits for the build, but its status is %v", b)
	}
	revoke(two)
	if err := within(time.Minute, func() error {
		if b := f.call(http.MethodGet, path, nil).json(t); b["succeeded"] != false || b["reasonCode"] != "cancelled" {
			return fmt.Errorf("no request waits for the build, but its status is %v", b)
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
		t.Errorf("repeating a cancelled request returned: %v", again)
	}
	revoke(again)
}

// daemonDies kills buildkitd during a step.
func (f *faulty) daemonDies(t *testing.T) {
	answer := f.begun(t)
	worker := f.worker(t, answer)
	tree := descendants(worker.cmd.Process.Pid)
	if len(tree) < 3 { // the daemon, the runtime, the step
		t.Fatalf("the builder has the processes %v", tree)
	}
	if err := syscall.Kill(tree[0].pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	f.allEnd(t, tree)
	f.goOn()
	f.succeeds(t, answer)
	if err := within(time.Minute, func() error {
		if left := groupsInUse(); len(left) > 0 {
			return fmt.Errorf("control groups are in use: %v", left)
		}
		return nil
	}); err != nil {
		t.Error(err)
	}
}

// builderDies kills the worker of a build; another worker must finish the build.
func (f *faulty) builderDies(t *testing.T) {
	answer := f.begun(t)
	id := text(answer, "buildId")
	seen := f.events(t, f.host, id, "", 4)
	worker := f.worker(t, answer)
	tree := descendants(worker.cmd.Process.Pid)
	worker.kill()
	f.allEnd(t, tree)
	f.goOn()
	f.succeeds(t, answer) // the bus redelivers after half a minute without a heartbeat
	// A client that has read a part of the first delivery's log continues at the same line.
	rest, whole := f.events(t, f.host, id, seen[len(seen)-1].id, 100000), f.events(t, f.host, id, "", 100000)
	if got := append(seen, rest...); fmt.Sprint(got) != fmt.Sprint(whole) {
		t.Errorf("in two parts:\n%v\nin one part:\n%v", got, whole)
	}
	worker.start()
}

// builderStops stops the worker gracefully; another worker must take the build immediately.
func (f *faulty) builderStops(t *testing.T) {
	answer := f.begun(t)
	worker := f.worker(t, answer)
	begin := time.Now()
	if err := worker.stop(); err != nil {
		t.Errorf("the builder exited with %v", err)
	}
	t.Logf("it took %s to stop", time.Since(begin))
	f.goOn()
	f.succeeds(t, answer)
	worker.start()
}

// buildServicesDie kills the build services during a step, and restarts them some time after
// its end.
func (f *faulty) buildServicesDie(t *testing.T) {
	answer := f.begun(t)
	for _, name := range []string{"build-1", "build-2"} {
		f.process(name).kill()
	}
	f.goOn()
	time.Sleep(5 * time.Second) // the worker requests a login meanwhile
	for _, name := range []string{"build-1", "build-2"} {
		f.process(name).start()
	}
	f.succeeds(t, answer)
}

func (f *faulty) natsDies(t *testing.T) {
	answer := f.begun(t)
	f.nats.Kill()
	f.goOn()
	time.Sleep(2 * time.Second)
	if err := f.nats.Start(); err != nil {
		t.Fatal(err)
	}
	f.succeeds(t, answer)
	log := f.log(answer)
	for i := range 6 {
		if n := strings.Count(log, fmt.Sprintf("tick %d of", i+1)); n != 1 {
			t.Errorf("the log has tick %d %d times: %s", i+1, n, log)
		}
	}
}

func (f *faulty) redisDies(t *testing.T) {
	answer := f.begun(t)
	f.redis.Kill()
	f.goOn()
	f.succeeds(t, answer)
	f.fromStart(t)
	if err := f.redis.Start(); err != nil {
		t.Fatal(err)
	}
	f.fromStart(t)
}

// fromStart builds one more image.
func (f *faulty) fromStart(t *testing.T) {
	t.Helper()
	answer := f.begun(t)
	f.goOn()
	f.succeeds(t, answer)
}

func (f *faulty) postgresDies(t *testing.T) {
	answer := f.begun(t)
	f.postgres.Kill()
	r := f.call(http.MethodPost, "/v1alpha2/container", f.slow())
	if r.status != http.StatusServiceUnavailable || r.header.Get("Retry-After") == "" || strings.Contains(string(r.body), "dial") {
		t.Errorf("a request got %d %v %s", r.status, r.header, r.body)
	}
	f.goOn()
	time.Sleep(5 * time.Second) // the build ends meanwhile
	if r := f.call(http.MethodGet, "/v1alpha1/builds/"+text(answer, "buildId")+"/status", nil); r.status != http.StatusServiceUnavailable {
		t.Errorf("the build's status got %d %s", r.status, r.body)
	}
	if err := f.postgres.Start(); err != nil {
		t.Fatal(err)
	}
	if err := within(2*time.Minute, func() error {
		if r := f.call(http.MethodGet, "/v1alpha2/container/"+text(answer, "requestId")+"/status", nil); r.status != http.StatusOK {
			return &unexpectedStatus{r.status}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	f.succeeds(t, answer)
	f.fromStart(t)
}

// allEnd waits until all processes have ended.
func (f *faulty) allEnd(t *testing.T, tree []startedProcess) {
	t.Helper()
	if err := within(time.Minute, func() error {
		if left := slices.DeleteFunc(slices.Clone(tree), func(p startedProcess) bool { return !p.lives() }); len(left) > 0 {
			return fmt.Errorf("still running: %v of %v", left, tree)
		}
		return nil
	}); err != nil {
		t.Error(err)
	}
}

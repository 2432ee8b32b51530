package e2e

import (
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/v1/mutate"

	"slipway.dev/services/internal/testkit"
)

// growingImage returns busybox with ONBUILD triggers that let buildkitd expand a variable to
// ten times its length repeatedly, up to 10²³ bytes. A Dockerfile with this base image does not
// show the expansion.
func growingImage(t *testing.T, up *testkit.Registry) string {
	t.Helper()
	img := busybox(t, true)
	cf, err := img.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	cf = cf.DeepCopy()
	cf.Config.OnBuild = []string{"ENV A0=" + strings.Repeat("x", 1000)}
	for i := range 20 {
		cf.Config.OnBuild = append(cf.Config.OnBuild, fmt.Sprintf("ENV A%d=%s", i+1, strings.Repeat(fmt.Sprintf("$A%d", i), 10)))
	}
	if img, err = mutate.ConfigFile(img, cf); err != nil {
		t.Fatal(err)
	}
	return up.Push(t, "base/growing:1", img)
}

// TestAttackGrowthInDaemon builds on an image that would let buildkitd exceed its memory. The
// build must fail before the daemon expands the variable, and a concurrent build must succeed.
func TestAttackGrowthInDaemon(t *testing.T) {
	t.Parallel()
	needBuilds(t)
	up := testkit.NewRegistry(t, testkit.Open)
	base, growing := up.Push(t, "base/busybox:1", busybox(t, true)), growingImage(t, up)
	p := oneProcess(t, common(t, []string{up.Host}, settings{
		"build_concurrency": "2", "buildkit_memory": "512MiB", "build_timeout_anonymous": "90s",
	}))
	user := []string{"Authorization", "Bearer " + p.token}
	mine := p.order(recipe("FROM "+base, "RUN echo it began; busybox sleep 4; echo made > /mine.txt"), user...)
	p.awaits(t, mine, "it began")
	hostile := p.order(recipe("FROM "+growing, "RUN echo never"))
	s := p.finished(t, hostile)
	if message, _ := s["message"].(string); s["succeeded"] != false || s["reasonCode"] != "build" || !strings.Contains(message, "ONBUILD") {
		t.Errorf("the build that grows ended as %v", s)
	}
	if s := p.finished(t, mine); s["succeeded"] != true {
		t.Errorf("the concurrent build ended as %v: %s", s, p.buildLog(mine))
	}
	if s := p.finished(t, p.order(recipe("FROM "+base, "RUN echo afterwards"), user...)); s["succeeded"] != true {
		t.Errorf("the following build ended as %v", s)
	}
	if strings.Contains(p.procs[0].log(), "The build daemon ended") {
		t.Error("the daemon has exited")
	}
	if peak := p.procs[0].peak(); peak > max(640<<20, p.procs[0].memoryBound()) {
		t.Errorf("the program has used %d MiB", peak>>20)
	}
	t.Logf("the program's peak is %d MiB", p.procs[0].peak()>>20)
}

// TestAttackEndlessLog has a build step that prints as fast as possible until its timeout.
// Neither memory nor disk must fill up, and the build must end in time.
func TestAttackEndlessLog(t *testing.T) {
	needBuilds(t)
	const timeout, memory, disk = 15 * time.Second, 512 << 20, 256 << 20
	up := testkit.NewRegistry(t, testkit.Open)
	base := up.Push(t, "base/busybox:1", busybox(t, true))
	p := oneProcess(t, common(t, []string{up.Host}, settings{"build_memory": "128MiB", "build_timeout_anonymous": timeout.String()}))
	before, began := occupied(p.procs[0].env["data_dir"]), time.Now()
	answer := p.order(recipe("FROM "+base, "RUN busybox yes "+strings.Repeat("x", 1000)))
	var most int64
	var status map[string]any
	if err := within(timeout+time.Minute, func() error {
		most = max(most, occupied(p.procs[0].env["data_dir"])-before)
		status = p.call(http.MethodGet, "/v1alpha2/container/"+text(answer, "requestId")+"/status", nil).json(t)
		if text(status, "status") != "DONE" {
			return errors.New("it goes on")
		}
		return nil
	}); err != nil {
		t.Fatalf("after %s: %v", time.Since(began), err)
	}
	took := time.Since(began)
	if status["succeeded"] != false || !strings.Contains(text(status, "reasonCode"), "timeout") {
		t.Errorf("the build ended as %v", status)
	}
	if most > disk {
		t.Errorf("%d MiB were written to disk", most>>20)
	}
	peak := p.procs[0].peak()
	daemon := peakOf(t, daemonOf(t, p.procs[0]).pid)
	if peak > max(memory, p.procs[0].memoryBound()) || daemon > memory {
		t.Errorf("the program has used %d MiB, the daemon %d MiB", peak>>20, daemon>>20)
	}
	if log := p.buildLog(answer); !strings.Contains(log, "left out: the log is too long") || len(log) > 16<<20 {
		t.Errorf("the log has %d bytes and ends with %s", len(log), tail(log, 500))
	}
	t.Logf("it took %s, %d MiB on disk; the program's peak is %d MiB, the daemon's %d MiB", took, most>>20, peak>>20, daemon>>20)
}

// awaits waits until a build has printed a line with the given ending.
func (p *program) awaits(t testing.TB, answer map[string]any, words string) {
	t.Helper()
	if err := within(time.Minute, func() error {
		if log := p.buildLog(answer); !strings.Contains(log+"\n", words+"\n") {
			return fmt.Errorf("the log has no %q: %s", words, tail(log, 500))
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}

func (p *program) buildLog(answer map[string]any) string {
	return string(p.call(http.MethodGet, "/v1alpha1/builds/"+text(answer, "buildId")+"/logs", nil).body)
}

// daemonOf returns the buildkitd that a process has started.
func daemonOf(t testing.TB, p *process) startedProcess {
	t.Helper()
	for _, child := range descendants(p.cmd.Process.Pid) {
		if child.name == "buildkitd" {
			return child
		}
	}
	t.Fatal("there is no daemon")
	return startedProcess{}
}

// occupied returns the disk usage of the files below a folder.
func occupied(dir string) (sum int64) {
	_ = filepath.WalkDir(dir, func(_ string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return nil //nolint:nilerr // files may be deleted during the walk
		}
		if info, err := e.Info(); err == nil {
			if st, ok := info.Sys().(*syscall.Stat_t); ok {
				sum += st.Blocks * 512
			}
		}
		return nil
	})
	return sum
}

package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// TestAuditSink checks that the file of audit_sink gets each event once, as REST returns it, that
// events wait while the file cannot be written, which operators can see, and that none is lost
// when the file is rotated and when the process is killed.
func TestAuditSink(t *testing.T) {
	t.Parallel()
	one, roles := filepath.Join(t.TempDir(), "log"), filepath.Join(t.TempDir(), "log")
	for _, folder := range []string{one, roles} {
		if err := os.Mkdir(folder, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	s := common(t, nil, settings{"limit_platform": "0", "audit_sink": filepath.Join(one, "audit.jsonl")})
	perRole := func(t testing.TB, s settings) *program {
		s["audit_sink"] = filepath.Join(roles, "audit.jsonl")
		return processPerRole(t, s)
	}
	inEach(t, s, perRole, checkAuditSink)
}

func checkAuditSink(t *testing.T, p *program) {
	t.Helper()
	platform := p.procs[0]
	if len(p.procs) > 1 {
		platform = p.process("platform")
	}
	file := platform.env["audit_sink"]
	folder := filepath.Dir(file)
	hasAll := func(when string) {
		t.Helper()
		if err := within(3*time.Minute, func() error { return p.compareAudit(file+".1", file) }); err != nil {
			t.Fatalf("%s: %v", when, err)
		}
	}
	p.makeWorkspace("first", "bench")
	hasAll("at the start")
	if info, err := os.Stat(file); err != nil || info.Mode() != 0o600 {
		t.Errorf("the file: %v, %v", info, err)
	}

	rename(t, file, file+".1")
	if err := platform.cmd.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	p.makeWorkspace("rotated", "bench")
	hasAll("after a rotation")

	rename(t, folder, folder+".away")
	p.makeWorkspace("waiting", "bench")
	p.reportsAuditSink(t, platform)
	platform.kill()
	platform.start()
	rename(t, folder+".away", folder)
	hasAll("after the file could not be written")

	platform.kill()
	platform.start()
	p.makeWorkspace("killed", "bench")
	hasAll("after a kill")
}

func rename(t *testing.T, from, to string) {
	t.Helper()
	if err := os.Rename(from, to); err != nil {
		t.Fatal(err)
	}
}

// compareAudit returns an error unless the lines of files are all events of the audit trail.
func (p *program) compareAudit(files ...string) error {
	var got []any
	for _, f := range files {
		raw, err := os.ReadFile(f)
		if err != nil && !os.IsNotExist(err) {
			return err
		}
		for line := range strings.Lines(string(raw)) {
			var e any
			if err := json.Unmarshal([]byte(line), &e); err != nil {
				return fmt.Errorf("%q: %w", line, err)
			}
			got = append(got, e)
		}
	}
	r := p.call(http.MethodGet, "/api/admin/audit?max=1000", nil, "Authorization", "Bearer "+p.token)
	want, ok := r.json(p.t)["events"].([]any)
	if !ok || len(want) == 0 {
		return fmt.Errorf("the audit trail: %d %s", r.status, r.body)
	}
	slices.Reverse(want)
	if diff := cmp.Diff(want, got); diff != "" {
		return fmt.Errorf("%d events in the files, %d in the trail: %s", len(got), len(want), diff)
	}
	return nil
}

// reportsAuditSink checks where operators see that audit events wait.
func (p *program) reportsAuditSink(t *testing.T, platform *process) {
	t.Helper()
	wants := func(what, want string, ask func() string) {
		t.Helper()
		if err := within(time.Minute, func() error {
			if got := ask(); !strings.Contains(got, want) {
				return fmt.Errorf("%s has no %q: %s", what, want, tail(got, 3000))
			}
			return nil
		}); err != nil {
			t.Error(err)
		}
	}
	const problem = "audit_sink has not accepted "
	admin := func(path string) func() string {
		return func() string { return string(request(t, http.MethodGet, platform.admin+path, nil).body) }
	}
	wants("/readyz", problem, admin("/readyz"))
	for _, name := range []string{"age_seconds", "stalled_seconds", "waiting"} {
		wants("/metrics without zero", "\nslipway_audit_sink_"+name+" ", func() string {
			return strings.ReplaceAll(admin("/metrics")(), "\nslipway_audit_sink_"+name+" 0\n", "")
		})
	}
	wants("the log", "Audit events cannot be written to audit_sink", platform.log)
	if len(p.procs) == 1 {
		wants("the page of operators", problem, func() string {
			return string(p.call(http.MethodGet, "/v1alpha2/metrics/health", nil, "Authorization", "Bearer "+p.token).body)
		})
	}
	wants("slipwayd doctor", "stat "+filepath.Dir(platform.env["audit_sink"])+": no such file", func() string {
		cmd := exec.Command(plain(), "doctor")
		cmd.Env = platform.env.environ()
		out, err := cmd.CombinedOutput()
		if err == nil {
			return "no failure: " + string(out)
		}
		return string(out)
	})
}

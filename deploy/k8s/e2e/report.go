package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"time"
)

// heading starts the section of a run in the report.
const heading = "\n## Run of "

// A report is the result of a run in Markdown.
type report struct {
	began time.Time
	facts []string

	mu   sync.Mutex
	rows []string
}

func newReport() *report { return &report{began: time.Now()} }

// fact records the duration of a step.
func (r *report) fact(what string, took time.Duration) {
	r.facts = append(r.facts, fmt.Sprintf("%s after %.0f s", what, took.Seconds()))
	fmt.Printf("%s after %.1f s\n", what, took.Seconds())
}

// passed records a scenario.
func (r *report) passed(scenario, figures string, took time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.rows = append(r.rows, fmt.Sprintf("| %s | %s | %.0f s |", scenario, figures, took.Seconds()))
	fmt.Printf("PASS %s (%s) in %.0f s\n", scenario, figures, took.Seconds())
}

// write writes the report to a file. It appends to the report of an earlier run of the same
// commit.
func (r *report) write(ctx context.Context, path string) error {
	commit := output(ctx, "git", "rev-parse", "--short=12", "HEAD")
	old, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	before := ""
	if i := strings.LastIndex(string(old), heading); i >= 0 && strings.Contains(string(old[i:]), "commit "+commit) {
		before = string(old[i:])
	}
	var b strings.Builder
	b.WriteString("# Results of `make k8s-e2e`\n\nWritten by `make k8s-e2e` after a run without failures. The report lists all runs of the same commit.\n")
	fmt.Fprintf(&b, "Kubernetes v1.36.3, etcd v3.6.8, CoreDNS v1.15.0, prometheus-adapter v0.12.0, %s, %s; Linux %s, %d processors.\n",
		output(ctx, "sh", "-c", "containerd --version | cut -d' ' -f1,3"), output(ctx, "sh", "-c", "runc --version | head -1"), output(ctx, "sh", "-c", "uname -r | cut -d- -f1"), runtime.NumCPU())
	b.WriteString(before)
	fmt.Fprintf(&b, "%s%s, commit %s\n\n%.0f s: %s.\n\n| scenario | figures | took |\n|---|---|---|\n%s\n", heading, r.began.UTC().Format("2006-01-02 15:04 MST"), commit,
		time.Since(r.began).Seconds(), strings.Join(r.facts, ", "), strings.Join(r.rows, "\n"))
	return os.WriteFile(path, []byte(b.String()), 0o644) //nolint:gosec // for people
}

func output(ctx context.Context, name string, args ...string) string {
	out, err := exec.CommandContext(ctx, name, args...).Output()
	if err != nil {
		return "unknown"
	}
	return strings.TrimSpace(string(out))
}

package main

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"time"
)

// report is what was proven, for people.
type report struct {
	began time.Time
	rows  []string
	facts []string
}

func newReport() *report { return &report{began: time.Now()} }

// fact notes a figure.
func (r *report) fact(what string, took time.Duration) {
	r.facts = append(r.facts, fmt.Sprintf("%s: %.1f s", what, took.Seconds()))
	fmt.Printf("%s after %.1f s\n", what, took.Seconds())
}

// passed notes a scenario.
func (r *report) passed(scenario, figures string, took time.Duration) {
	r.rows = append(r.rows, fmt.Sprintf("| %s | %s | %.0f s |", scenario, figures, took.Seconds()))
	fmt.Printf("PASS %s (%s) in %.0f s\n", scenario, figures, took.Seconds())
}

func (r *report) write(path string) error {
	var b strings.Builder
	fmt.Fprintf(&b, "# What `make k8s-e2e` proved\n\nWritten by it; %s, %d processors, commit %s. Took %.0f s.\n\n", time.Now().UTC().Format("2006-01-02"),
		runtime.NumCPU(), output("git", "rev-parse", "--short=12", "HEAD"), time.Since(r.began).Seconds())
	fmt.Fprintf(&b, "Linux %s, Kubernetes v1.36.3, etcd v3.6.8, CoreDNS v1.15.0, %s, %s.\n\n", output("uname", "-r"), output("containerd", "--version"), output("sh", "-c", "runc --version | head -1"))
	for _, f := range r.facts {
		fmt.Fprintf(&b, "- %s\n", f)
	}
	b.WriteString("\n| scenario | figures | took |\n|---|---|---|\n" + strings.Join(r.rows, "\n") + "\n")
	return os.WriteFile(path, []byte(b.String()), 0o644) //nolint:gosec // for people
}

func output(name string, args ...string) string {
	out, err := exec.Command(name, args...).Output()
	if err != nil {
		return "unknown"
	}
	return strings.TrimSpace(string(out))
}

package app_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"

	"slipway.dev/services/internal/testkit"
)

const monitoring = "../../deploy/monitoring/"

// query is one expression of a dashboard or an alert.
type query struct{ from, expr string }

func dashboardQueries(t *testing.T) (out []query) {
	t.Helper()
	files, err := filepath.Glob(monitoring + "dashboards/*.json")
	if err != nil || len(files) == 0 {
		t.Fatalf("%v %v", files, err)
	}
	uids := map[string]bool{}
	for _, file := range files {
		var d struct {
			UID, Title string
			Panels     []struct {
				Type, Title string
				Targets     []struct{ Expr string }
			}
		}
		raw, err := os.ReadFile(file)
		if err == nil {
			err = json.Unmarshal(raw, &d)
		}
		if err != nil || d.UID == "" || d.Title == "" || uids[d.UID] {
			t.Fatalf("%s: %v, uid %q", file, err, d.UID)
		}
		uids[d.UID] = true
		for _, p := range d.Panels {
			if p.Type != "row" && len(p.Targets) == 0 {
				t.Errorf("%s: the panel %q asks nothing", file, p.Title)
			}
			for _, q := range p.Targets {
				out = append(out, query{d.Title + " / " + p.Title, q.Expr})
			}
		}
	}
	return out
}

func alertQueries(t *testing.T) (out []query) {
	t.Helper()
	var rules struct {
		Groups []struct {
			Rules []struct {
				Alert, Expr string
				Labels      map[string]string
				Annotations map[string]string
			}
		}
	}
	raw, err := os.ReadFile(monitoring + "alerts.yaml")
	if err == nil {
		err = yaml.Unmarshal(raw, &rules)
	}
	if err != nil || len(rules.Groups) == 0 {
		t.Fatal(err)
	}
	tests, err := os.ReadFile(monitoring + "alerts_test.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range rules.Groups[0].Rules {
		if r.Annotations["runbook"] == "" || r.Annotations["summary"] == "" || r.Labels["severity"] == "" {
			t.Errorf("the alert %s lacks a summary, a runbook line or a severity", r.Alert)
		}
		if !strings.Contains(string(tests), r.Alert) {
			t.Errorf("the alert %s has no test", r.Alert)
		}
		out = append(out, query{r.Alert, r.Expr})
	}
	return out
}

var (
	documented = regexp.MustCompile("(?m)^\\| `(slipway_[a-z_]+)` \\| ([a-z]+) \\| (.*?) \\|")
	series     = regexp.MustCompile(`\b((?:slipway|go|process)_[a-z_]+)(?:\{([^}]*)\})?`)
	matcher    = regexp.MustCompile(`([a-z_]+)(?:=~|!~|!=|=)"`)
)

// names returns the series that docs/operate/metrics.md describes, each with its labels.
func names(t *testing.T) map[string][]string {
	t.Helper()
	page, err := os.ReadFile("../../docs/operate/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	out := map[string][]string{}
	for _, m := range documented.FindAllStringSubmatch(string(page), -1) {
		labels := append(strings.Fields(strings.ReplaceAll(m[3], "`", "")), "job", "instance")
		if m[2] != "histogram" {
			out[m[1]] = labels
			continue
		}
		out[m[1]+"_count"], out[m[1]+"_sum"], out[m[1]+"_bucket"] = labels, labels, append(labels, "le")
	}
	if len(out) < 20 {
		t.Fatalf("the page describes %d series", len(out))
	}
	return out
}

// TestMonitoringUsesExistingMetrics compares every query of dashboards and alerts with
// docs/operate/metrics.md.
func TestMonitoringUsesExistingMetrics(t *testing.T) {
	t.Parallel()
	known := names(t)
	for _, q := range append(dashboardQueries(t), alertQueries(t)...) {
		found := series.FindAllStringSubmatch(q.expr, -1)
		if len(found) == 0 && !strings.Contains(q.expr, "up{") {
			t.Errorf("%s asks for nothing: %s", q.from, q.expr)
		}
		for _, m := range found {
			if !strings.HasPrefix(m[1], "slipway_") {
				continue // Go's, the process's or the database driver's
			}
			labels, ok := known[m[1]]
			if !ok {
				t.Errorf("%s asks for %s, which is not in docs/operate/metrics.md", q.from, m[1])
			}
			for _, l := range matcher.FindAllStringSubmatch(m[2], -1) {
				if !slices.Contains(labels, l[1]) {
					t.Errorf("%s asks for the label %s of %s, which has %v", q.from, l[1], m[1], labels)
				}
			}
		}
	}
}

// TestPromtool checks that the queries of dashboards and alerts are valid, and that alerts
// fire when they should.
func TestPromtool(t *testing.T) {
	t.Parallel()
	promtool, err := exec.LookPath("promtool")
	if err != nil && !testkit.Real() {
		t.Skip("there is no promtool")
	}
	if err != nil {
		t.Fatal(err)
	}
	var rules strings.Builder
	rules.WriteString("groups:\n- name: dashboards\n  rules:\n")
	for i, q := range dashboardQueries(t) {
		expr, err := json.Marshal(strings.ReplaceAll(q.expr, "$__rate_interval", "5m"))
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&rules, "  - {record: 'q%d', expr: %s}\n", i, expr)
	}
	file := filepath.Join(t.TempDir(), "dashboards.yaml")
	if err := os.WriteFile(file, []byte(rules.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{
		{"check", "rules", file}, {"check", "rules", monitoring + "alerts.yaml"}, {"test", "rules", monitoring + "alerts_test.yaml"},
	} {
		if out, err := exec.CommandContext(t.Context(), promtool, args...).CombinedOutput(); err != nil {
			t.Errorf("promtool %v: %v\n%s", args, err, out)
		}
	}
}

package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/spf13/pflag"

	"slipway.dev/services/internal/config"
)

// Measure is a metric, as the reference page describes it.
type Measure struct {
	Name, Kind, Help string
	Labels           []string
}

// Measures are all metrics of our own that a process with every role has, by name.
// It starts such a process in a folder that it removes.
func Measures(ctx context.Context) (out []Measure, err error) {
	dir, err := os.MkdirTemp("", "slipway-metrics-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	cfg, err := config.Load(pflag.NewFlagSet("", pflag.ContinueOnError), func(key string) (string, bool) {
		v, ok := map[string]string{
			"SLIPWAY_DATA_DIR": dir, "SLIPWAY_HTTP_ADDR": "127.0.0.1:0", "SLIPWAY_PLATFORM_HTTP_ADDR": "", "SLIPWAY_ADMIN_ADDR": "127.0.0.1:0",
			"SLIPWAY_PUBLIC_URL":       "http://localhost",
			"SLIPWAY_BUILD_REPOSITORY": "localhost:1/builds", "SLIPWAY_BUILDKIT_ADDR": "unix://" + dir + "/none",
		}[key]
		return v, ok
	})
	if err != nil {
		return nil, err
	}
	a, err := New(ctx, cfg, nil, Build{}, slog.New(slog.DiscardHandler))
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, a.close()) }()
	return a.reg.measures()
}

// description is how a prometheus.Desc prints: the library shows it in no other
// way.
var description = regexp.MustCompile(`^Desc\{fqName: "([^"]*)", help: ("(?:[^"\\]|\\.)*"),.* constLabels: \{(.*)\}, variableLabels: \{(.*)\}\}$`)

func (c *collected) measures() ([]Measure, error) {
	families, err := c.Gather()
	if err != nil {
		return nil, err
	}
	kinds := map[string]string{}
	for _, f := range families {
		kinds[f.GetName()] = strings.ToLower(dto.MetricType_name[int32(f.GetType())])
	}
	found := map[string]Measure{}
	for _, m := range c.all {
		for d := range described(m) {
			parts := description.FindStringSubmatch(d.String())
			if parts == nil {
				return nil, fmt.Errorf("%s cannot be read", d)
			}
			if !strings.HasPrefix(parts[1], "slipway_") {
				continue
			}
			var help string
			if _, err := fmt.Sscanf(parts[2], "%q", &help); err != nil {
				return nil, err
			}
			found[parts[1]] = Measure{Name: parts[1], Kind: kindOf(m, parts[1], kinds[parts[1]]), Help: help, Labels: labels(parts[3], parts[4])}
		}
	}
	return slices.SortedFunc(maps.Values(found), func(a, b Measure) int { return strings.Compare(a.Name, b.Name) }), nil
}

func described(m prometheus.Collector) <-chan *prometheus.Desc {
	ch := make(chan *prometheus.Desc)
	go func() { m.Describe(ch); close(ch) }()
	return ch
}

// kindOf is what a metric is that may have no value yet. What a collector of our own
// tells is named as Prometheus wants it: a counter ends in _total.
func kindOf(m prometheus.Collector, name, gathered string) string {
	switch m.(type) {
	case *prometheus.CounterVec:
		return "counter"
	case *prometheus.HistogramVec:
		return "histogram"
	case *prometheus.GaugeVec:
		return "gauge"
	}
	switch {
	case gathered != "":
		return gathered
	case strings.HasSuffix(name, "_total"):
		return "counter"
	}
	return "gauge"
}

// labels are the names in `a="b",c="d"` and in `e,f`.
func labels(constant, variable string) (names []string) {
	for _, part := range strings.Split(constant+","+variable, ",") {
		name, _, _ := strings.Cut(part, "=")
		if name != "" {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// labelMeanings says of each label what values it has. All are bounded: what
// clients, registries or builds could choose freely is one of a fixed list, or
// `other`.
func labelMeanings() map[string]string {
	return map[string]string{
		"architecture": "of a worker, such as `amd64`",
		"cache":        "`token` (what a token stands for), `document` (manifests from upstream), `image` (what is made of them), `layer` (added layers on disk)",
		"channel":      "a Conda channel that the settings name, or a well-known one; `other` for all others",
		"code":         "of HTTP the status; of gRPC the name of the code; of other registries the status, `other` or `error`",
		"dependency":   "`database`, `redis`, `nats`, or the role that is called",
		"engine":       "`buildkit`; the engines of the workers",
		"host":         "a registry that the settings name, or a well-known public one; `other` for all others",
		"kind":         "of a request to a registry: `manifest`, `blob`, `tags`, `referrers`, `ping`, `config`, `redirect`, `other`",
		"limit":        "what is limited: `pulls`, `builds`, and the like",
		"method":       "the HTTP method; `other` for an unknown one",
		"metric":       "`builds`, `pulls`, `filesystem`",
		"outcome":      "`new`, `joined`, `cached`; of Conda channels `fetched`, `unchanged`, `absent`, `failed`; of solves `solved`, `unsatisfiable`, `failed`",
		"phase":        "`queued`, `running`; at the worker `prepare`, `build`, `push`",
		"reason":       "why a build failed, as contract and API name it; `succeeded` or `ok` when it did not",
		"required":     "`true` where the process does not begin to work without it",
		"result":       "`hit`, `miss`",
		"route":        "the path as the API describes it, with `*` for what differs; `other` for one that is not served",
		"rpc":          "the full name of the gRPC method",
		"state":        "`queued`, `running`",
		"subdir":       "a platform's folder in a Conda channel, such as `linux-64`; `other` for those of other channels",
	}
}

// MetricsPage is the reference of all metrics in Markdown; deploy/metrics.md holds
// it.
func MetricsPage(ctx context.Context) (string, error) {
	all, err := Measures(ctx)
	if err != nil {
		return "", fmt.Errorf("listing the metrics: %w", err)
	}
	var b strings.Builder
	b.WriteString("# Metrics of slipwayd\n\n" +
		"Made by `slipwayd metrics` from what a process with all roles registers; not edited by hand.\n\n" +
		"Every process has them at `/metrics` of `admin_addr`, those of the roles it plays. Beside them are those of Go\n" +
		"(`go_…`), of the process (`process_…`), and of the database's connections (`go_sql_…`). A histogram `x` is the series\n" +
		"`x_bucket`, `x_sum` and `x_count`. Dashboards and alerts over them are in `deploy/monitoring`.\n\n" +
		"| name | kind | labels | meaning |\n|---|---|---|---|\n")
	used := map[string]bool{}
	for _, m := range all {
		var names []string
		for _, l := range m.Labels {
			used[l] = true
			names = append(names, "`"+l+"`")
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", m.Name, m.Kind, strings.Join(names, " "), m.Help)
	}
	b.WriteString("\nNo label has values without bound:\n\n| label | values |\n|---|---|\n")
	meanings := labelMeanings()
	for _, l := range slices.Sorted(maps.Keys(used)) {
		if meanings[l] == "" {
			return "", fmt.Errorf("the label %s is not described", l)
		}
		fmt.Fprintf(&b, "| `%s` | %s |\n", l, meanings[l])
	}
	return b.String(), nil
}

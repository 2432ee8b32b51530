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

// A Measure is a metric in the reference page.
type Measure struct {
	Name, Kind, Help string
	Labels           []string
}

// Measures returns all of our own metrics of a process with every role, by name. It starts
// such a process in a temporary folder.
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

// description matches the string form of a prometheus.Desc, which has no other accessor.
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

// kindOf returns the type of a metric that may have no value yet. Our own collectors follow
// Prometheus' naming: a counter ends in _total.
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

// labels returns the names in `a="b",c="d"` and in `e,f`.
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

// labelMeanings describes the values of each label. All are bounded: values that clients,
// registries or builds can choose freely are mapped to a fixed list, or `other`.
func labelMeanings() map[string]string {
	return map[string]string{
		"architecture": "of a worker, such as `amd64`",
		"cache":        "`token` (plans of tokens), `document` (manifests from upstream), `image` (served images), `layer` (added layers on disk)",
		"channel":      "a Conda channel that the settings name, or a well-known one; `other` for all others",
		"code":         "of HTTP the status; of gRPC the name of the code; of other registries the status, `other` or `error`",
		"consumer":     "of events on NATS `webhooks` (the platform), `container`, `metrics`",
		"dependency":   "`database`, `redis`, `nats`, `builds` (BuildKit in this process), `channels` (Conda channels), `disk` (free space), `certificates` (none expires within a week, or within an eighth of its lifetime), or the role that is called",
		"folder":       "`data_dir`, or `blob_cache` if it is a folder on another disk",
		"engine":       "`buildkit`; the engines of the workers",
		"host":         "a registry that the settings name, or a well-known public one; `other` for all others",
		"kind":         "of a request to a registry: `manifest`, `blob`, `tags`, `referrers`, `ping`, `config`, `redirect`, `other`",
		"limit":        "what is limited: `pulls`, `builds`, and the like",
		"method":       "the HTTP method; `other` for an unknown one",
		"metric":       "`builds`, `pulls`, `filesystem`",
		"outcome":      "`new`, `joined`, `cached`; of Conda channels `fetched`, `unchanged`, `absent`, `failed`; of solves `solved`, `unsatisfiable`, `failed`",
		"phase":        "`queued`, `running`; at the worker `prepare`, `build`, `push`",
		"pool":         "what clients share, such as `solves of Conda packages`",
		"mode":         "`enforce` or `warn`, the value of `policy_mode`",
		"rule":         "the setting with the rule, e.g. `policy_registries`",
		"reason":       "why a build failed, as in `reasonCode` of the API; `succeeded` or `ok` if it did not; of requests that a pool refused `client`, `queue`, `capacity`, `timeout`",
		"required":     "`true` if the process is not ready without it",
		"result":       "`hit`, `miss`; of messages to webhooks `accepted`, `rejected`, `unreachable`",
		"route":        "the path in the API's notation, with `*` for variables; `other` for unknown paths",
		"rpc":          "the full name of the gRPC method",
		"setting":      "the setting that names a certificate: `tls_cert_file`, `rpc_cert_file`, `buildkit_cert_file`",
		"state":        "of builds `queued`, `running`; of webhooks `enabled`, `failing`, `stopped`, `disabled`",
		"subdir":       "a platform's folder in a Conda channel, such as `linux-64`; `other` for those of other channels",
	}
}

// MetricsPage returns the reference of all metrics in Markdown, which docs/operate/metrics.md
// contains.
func MetricsPage(ctx context.Context) (string, error) {
	all, err := Measures(ctx)
	if err != nil {
		return "", fmt.Errorf("listing the metrics: %w", err)
	}
	var b strings.Builder
	b.WriteString("# Metrics of slipwayd\n\n" +
		"Generated by `slipwayd metrics` from the metrics of a process with all roles. Do not edit.\n\n" +
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
	b.WriteString("\nThe values of every label are bounded:\n\n| label | values |\n|---|---|\n")
	meanings := labelMeanings()
	for _, l := range slices.Sorted(maps.Keys(used)) {
		if meanings[l] == "" {
			return "", fmt.Errorf("the label %s is not described", l)
		}
		fmt.Fprintf(&b, "| `%s` | %s |\n", l, meanings[l])
	}
	return b.String(), nil
}

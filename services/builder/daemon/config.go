package daemon

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"slipway.dev/services/builder/daemon/step"
	"slipway.dev/services/internal/upstream"
)

// socket returns the path of a socket. It must be short: the system's limit is about a
// hundred bytes.
func (d *Daemon) socket(name string) string {
	path := filepath.Join(d.o.Dir, name+".sock")
	if len(path) < 100 {
		return path
	}
	return filepath.Join(os.TempDir(), fmt.Sprintf("slipway-%s-%d.sock", name, os.Getpid()))
}

// configure writes the daemon's configuration and returns its path.
func (d *Daemon) configure() (string, error) {
	path := filepath.Join(d.o.Dir, "buildkitd.toml")
	c := configuration{root: filepath.Join(d.o.Dir, "root"), addresses: []string{"unix://" + d.socket("buildkitd")}, wrapper: d.programs.wrapper, plain: d.o.Plain, mirrors: d.o.Mirrors}
	return path, os.WriteFile(path, []byte(c.String()), 0o600)
}

// configuration is the content of buildkitd's configuration file.
type configuration struct {
	root      string
	addresses []string
	wrapper   string   // the program that starts steps
	plain     []string // registries that use plain HTTP
	mirrors   []upstream.Mirror
	served    *served // nil for a private daemon
}

// served is the additional configuration of a daemon with remote users.
type served struct {
	traces             string // the path of its socket for traces
	rootless, sharePID bool
	cache              int64  // bytes
	more               string // of the operator
}

// reserve is how many bytes the cache always keeps, and the disk always has free.
const reserve = 2e9

// String returns the file, in TOML.
func (c configuration) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "root = %q\n", c.root)
	if c.served != nil {
		fmt.Fprintf(&b, "[log]\n  format = \"json\"\n[otel]\n  socketPath = %q\n", c.served.traces)
	}
	fmt.Fprintf(&b, "[grpc]\n  address = [%s]\n[worker.containerd]\n  enabled = false\n", quoted(c.addresses))
	// "host" is the daemon's own network; slipway-runc moves steps out of it.
	fmt.Fprintf(&b, "[worker.oci]\n  enabled = true\n  networkMode = \"host\"\n  binary = %q\n", c.wrapper)
	if s := c.served; s != nil {
		fmt.Fprintf(&b, "  rootless = %v\n  noProcessSandbox = %v\n  gc = true\n", s.rootless, s.sharePID)
		fmt.Fprintf(&b, "  reservedSpace = %d\n  minFreeSpace = %d\n  maxUsedSpace = %d\n", int64(reserve), int64(reserve), s.cache)
		fmt.Fprintf(&b, "[worker.oci.labels]\n  %q = %q\n", step.Label, step.LabelIsolated)
	}
	c.registries(&b)
	if c.served != nil {
		b.WriteString(c.served.more)
	}
	return b.String()
}

// registries writes the settings of each registry, in one table each.
func (c configuration) registries(b *strings.Builder) {
	mirrors := map[string][]string{}
	for _, m := range c.mirrors {
		mirrors[m.Registry] = append(mirrors[m.Registry], m.String())
	}
	hosts := slices.Concat(c.plain, slices.Collect(maps.Keys(mirrors)))
	slices.Sort(hosts)
	for _, host := range slices.Compact(hosts) {
		fmt.Fprintf(b, "[registry.%q]\n", host)
		if slices.Contains(c.plain, host) {
			b.WriteString("  http = true\n")
		}
		if len(mirrors[host]) > 0 {
			fmt.Fprintf(b, "  mirrors = [%s]\n", quoted(mirrors[host]))
		}
	}
}

func quoted(texts []string) string {
	var out []string
	for _, t := range texts {
		out = append(out, strconv.Quote(t))
	}
	return strings.Join(out, ", ")
}

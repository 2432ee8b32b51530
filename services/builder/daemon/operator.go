package daemon

import (
	"fmt"
	"os"
	"strings"
)

// ours are flags of buildkitd which would have steps started without slipway-runc,
// or which Serve gives itself.
func ours() []string {
	return []string{"config", "root", "addr", "oci-", "containerd-", "proxy-network", "allow-insecure-entitlement", "otel-socket-path", "rootless", "cdi-", "debugaddr"}
}

// checkArgs refuses those of an operator's flags for buildkitd that are ours.
func checkArgs(args []string) error {
	for _, a := range args {
		if !strings.HasPrefix(a, "--") || a == "--" {
			return fmt.Errorf("buildkitd's flags are given as --name=value, not %q", a)
		}
		for _, o := range ours() {
			if name, _, _ := strings.Cut(a[2:], "="); name == o || strings.HasSuffix(o, "-") && strings.HasPrefix(name, o) {
				return fmt.Errorf("buildkitd's flag --%s is not the operator's: it may start steps without slipway-runc", name)
			}
		}
	}
	return nil
}

// readMore reads what an operator adds to buildkitd's configuration; "" for no path.
// Each of its tables is one that says nothing of how steps are started.
func readMore(path string) (string, error) {
	if path == "" {
		return "", nil
	}
	raw, err := os.ReadFile(path)
	if err != nil {
		return "", fmt.Errorf("reading more of buildkitd's configuration: %w", err)
	}
	return "\n" + string(raw), checkMore(string(raw))
}

func checkMore(text string) error {
	begun := false
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		// Every table's head begins a line, so none is missed.
		if !strings.HasPrefix(line, "[") {
			if !begun {
				return fmt.Errorf("more of buildkitd's configuration must begin with a table, not %q", line)
			}
			continue
		}
		begun = true
		if !strings.HasPrefix(line, "[registry.") && !strings.HasPrefix(line, "[dns]") && !strings.HasPrefix(line, "[[worker.oci.gcpolicy]]") &&
			!strings.HasPrefix(line, "[history]") && !strings.HasPrefix(line, "[system]") {
			return fmt.Errorf("more of buildkitd's configuration may have [registry.…], [dns], [history], [system] and [[worker.oci.gcpolicy]], not %q", line)
		}
	}
	return nil
}

package daemon

import (
	"fmt"
	"os"
	"strings"
)

// reservedFlags returns flags of buildkitd that would start steps without slipway-runc, or that
// Serve sets itself.
func reservedFlags() []string {
	return []string{"config", "root", "addr", "oci-", "containerd-", "proxy-network", "allow-insecure-entitlement", "otel-socket-path", "rootless", "cdi-", "debugaddr"}
}

// checkArgs rejects flags of an operator that are reserved.
func checkArgs(args []string) error {
	for _, a := range args {
		if !strings.HasPrefix(a, "--") || a == "--" {
			return fmt.Errorf("buildkitd's flags are given as --name=value, not %q", a)
		}
		for _, o := range reservedFlags() {
			if name, _, _ := strings.Cut(a[2:], "="); name == o || strings.HasSuffix(o, "-") && strings.HasPrefix(name, o) {
				return fmt.Errorf("buildkitd's flag --%s is reserved: it may start steps without slipway-runc", name)
			}
		}
	}
	return nil
}

// readMore reads an operator's additional configuration for buildkitd; "" for no path. It
// only allows tables that do not affect how steps are started.
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
		// The head of each table begins a line, so that all are found.
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

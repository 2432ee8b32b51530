package daemon

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// socket is where the daemon listens. Its path must be short: the system allows
// about a hundred letters.
func (d *Daemon) socket() string {
	path := filepath.Join(d.o.Dir, "buildkitd.sock")
	if len(path) < 100 {
		return path
	}
	return filepath.Join(os.TempDir(), fmt.Sprintf("slipway-buildkitd-%d.sock", os.Getpid()))
}

// configure writes the daemon's configuration and answers its path.
func (d *Daemon) configure() (string, error) {
	path := filepath.Join(d.o.Dir, "buildkitd.toml")
	return path, os.WriteFile(path, []byte(configuration(d.o.Dir, d.socket(), d.runtime, d.o.Plain)), 0o600)
}

func configuration(dir, socket, runtime string, plain []string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "root = %q\n", filepath.Join(dir, "root"))
	fmt.Fprintf(&b, "[grpc]\n  address = [%q]\n", "unix://"+socket)
	// "host" is the cage's network, which the daemon shares with its steps.
	fmt.Fprintf(&b, "[worker.containerd]\n  enabled = false\n")
	fmt.Fprintf(&b, "[worker.oci]\n  enabled = true\n  networkMode = \"host\"\n  binary = %q\n", runtime)
	for _, host := range plain {
		fmt.Fprintf(&b, "[registry.%q]\n  http = true\n", host)
	}
	return b.String()
}

package daemon

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// socket is where something listens. Its path must be short: the system allows
// about a hundred letters.
func (d *Daemon) socket(name string) string {
	path := filepath.Join(d.o.Dir, name+".sock")
	if len(path) < 100 {
		return path
	}
	return filepath.Join(os.TempDir(), fmt.Sprintf("slipway-%s-%d.sock", name, os.Getpid()))
}

// configure writes the daemon's configuration and answers its path.
func (d *Daemon) configure() (string, error) {
	path := filepath.Join(d.o.Dir, "buildkitd.toml")
	return path, os.WriteFile(path, []byte(configuration(d.o.Dir, d.socket("buildkitd"), d.programs.wrapper, d.o.Plain)), 0o600)
}

func configuration(dir, socket, runtime string, plain []string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "root = %q\n", filepath.Join(dir, "root"))
	fmt.Fprintf(&b, "[grpc]\n  address = [%q]\n", "unix://"+socket)
	// "host" is the cage's network, which slipway-runc takes a step out of.
	fmt.Fprintf(&b, "[worker.containerd]\n  enabled = false\n")
	fmt.Fprintf(&b, "[worker.oci]\n  enabled = true\n  networkMode = \"host\"\n  binary = %q\n", runtime)
	for _, host := range plain {
		fmt.Fprintf(&b, "[registry.%q]\n  http = true\n", host)
	}
	return b.String()
}

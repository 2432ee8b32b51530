package app

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Banner says where the process listens and what is embedded, for a person, and
// what to try that works here.
func (a *App) Banner() string {
	var b strings.Builder
	fmt.Fprintf(&b, "slipwayd %s plays %s; %s\n", a.from.Version, strings.Join(a.names(), ", "), a.listeners.String())
	if e := a.embedded(); len(e) > 0 {
		fmt.Fprintf(&b, "Embedded: %s; data in %s\n", strings.Join(e, ", "), a.cfg.DataDir)
	}
	for _, p := range a.problems {
		fmt.Fprintln(&b, p)
	}
	if a.isWhole() {
		b.WriteString(a.suggestions(exec.LookPath))
	}
	return b.String()
}

// suggestions are commands for a first image: those whose programs are here, and
// builds only where they can be made.
func (a *App) suggestions(look func(string) (string, error)) string {
	var b strings.Builder
	slipway, server := ourClient(look), ""
	if strings.TrimRight(a.cfg.PublicURL, "/") != usualServer {
		server = " --server " + a.cfg.PublicURL
	}
	if slipway == "" {
		fmt.Fprintf(&b, `
Ask for an image with one more variable, and pull the targetImage of the answer:
  curl -s %s/v1alpha2/container -d '{"containerImage":"docker.io/library/alpine:3.20","containerConfig":{"env":["GREETING=hello"]}}'
`, a.cfg.PublicURL)
		return b.String()
	}
	fmt.Fprintf(&b, "\nA first image, with one more variable:\n  %s image docker.io/library/alpine:3.20 --env GREETING=hello%s\n", slipway, server)
	fmt.Fprintf(&b, "One with a Conda package:\n  %s conda samtools=1.20 --await%s\n", slipway, server)
	if a.canBuild {
		fmt.Fprintf(&b, "One of a Dockerfile:\n  %s build -f Dockerfile --context . --await%s\n", slipway, server)
	}
	for _, engine := range []string{"docker", "podman"} {
		if _, err := look(engine); err == nil {
			fmt.Fprintf(&b, "Each prints a name:\n  %s run --rm NAME\n", engine)
			break
		}
	}
	return b.String()
}

// usualServer is the one that the command line asks without being told.
const usualServer = "http://localhost:9090"

// ourClient is how a person here calls the command line; "" where it is not.
func ourClient(look func(string) (string, error)) string {
	if _, err := look("slipway"); err == nil {
		return "slipway"
	}
	self, err := os.Executable()
	if err != nil {
		return ""
	}
	path := filepath.Join(filepath.Dir(self), "slipway")
	if _, err := os.Stat(path); err != nil {
		return ""
	}
	if here, err := os.Getwd(); err == nil {
		if short, err := filepath.Rel(here, path); err == nil && !strings.HasPrefix(short, "..") {
			return short
		}
	}
	return path
}

package app

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Banner describes for users where the process listens and what is embedded, with example
// commands that work here.
func (a *App) Banner() string {
	var b strings.Builder
	fmt.Fprintf(&b, "slipwayd %s runs %s; %s\n", a.version.Version, strings.Join(a.names(), ", "), a.listeners.String())
	if e := a.embedded(); len(e) > 0 {
		fmt.Fprintf(&b, "Embedded: %s; data in %s\n", strings.Join(e, ", "), a.cfg.DataDir)
	}
	canBuild := false
	for _, p := range a.parts {
		canBuild = canBuild || p.builds
		for _, problem := range p.problems {
			fmt.Fprintln(&b, problem)
		}
	}
	if a.isWhole() {
		b.WriteString(a.suggestions(exec.LookPath, canBuild))
	}
	return b.String()
}

// suggestions returns commands for a first image: those whose programs are installed, and
// builds only if they work here.
func (e *env) suggestions(look func(string) (string, error), canBuild bool) string {
	var b strings.Builder
	slipway, server := clientCommand(look), ""
	if strings.TrimRight(e.cfg.PublicURL, "/") != defaultServer {
		server = " --server " + e.cfg.PublicURL
	}
	if slipway == "" {
		fmt.Fprintf(&b, `
Request an image with one more variable, and pull the targetImage of the response:
  curl -s %s/v1alpha2/container -d '{"containerImage":"docker.io/library/alpine:3.20","containerConfig":{"env":["GREETING=hello"]}}'
`, e.cfg.PublicURL)
		return b.String()
	}
	fmt.Fprintf(&b, "\nA first image, with one more variable:\n  %s image docker.io/library/alpine:3.20 --env GREETING=hello%s\n", slipway, server)
	fmt.Fprintf(&b, "One with a Conda package:\n  %s conda samtools=1.20 --await%s\n", slipway, server)
	if canBuild {
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

// defaultServer is the default server of the command line.
const defaultServer = "http://localhost:9090"

// clientCommand returns the command of the command-line client; "" if it is not installed.
func clientCommand(look func(string) (string, error)) string {
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

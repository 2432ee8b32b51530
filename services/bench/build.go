package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// The peers, by the packages that services/tools pins.
const (
	olaregPackage       = "github.com/olareg/olareg/cmd/olareg"
	distributionPackage = "github.com/distribution/distribution/v3/cmd/registry"
	buildctlPackage     = "github.com/moby/buildkit/cmd/buildctl"
)

// buildPeer makes the binary of a package of services/tools below dir, and answers
// its path. Go's cache makes the second time short.
func buildPeer(ctx context.Context, dir, pkg string) (string, error) {
	tools, err := filepath.Abs(filepath.Join("services", "tools"))
	if err != nil {
		return "", err
	}
	if _, err := os.Stat(filepath.Join(tools, "go.mod")); err != nil {
		return "", fmt.Errorf("the bench runs in the repository's root: %w", err)
	}
	out := filepath.Join(dir, filepath.Base(pkg))
	build := exec.CommandContext(ctx, "go", "build", "-C", tools, "-p", "2", "-trimpath", "-ldflags", "-s -w", "-o", out, pkg)
	build.Env = append(os.Environ(), "GOWORK=off", "CGO_ENABLED=0")
	if said, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("building %s: %w\n%s", pkg, err, said)
	}
	return out, nil
}

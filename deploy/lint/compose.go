package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/compose-spec/compose-go/v2/cli"
)

// checkCompose reads a compose file as docker compose does: its schema, its
// variables and what refers to what. It answers how many services there are.
func checkCompose(ctx context.Context, path string) (int, error) {
	o, err := cli.NewProjectOptions([]string{path}, cli.WithEnv([]string{"POSTGRES_PASSWORD=p", "REDIS_PASSWORD=r", "NATS_PASSWORD=n"}))
	if err != nil {
		return 0, err
	}
	project, err := o.LoadProject(ctx)
	if err != nil {
		return 0, err
	}
	for name, s := range project.Services {
		if !strings.Contains(s.Image, ":") || strings.HasSuffix(s.Image, ":latest") {
			return 0, fmt.Errorf("%s: the service %s has no image of a version", path, name)
		}
	}
	return len(project.Services), nil
}

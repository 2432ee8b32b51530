package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/compose-spec/compose-go/v2/cli"
)

// checkCompose loads a compose file like docker compose does, with its schema, variables and
// references. It returns the number of services.
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
			return 0, fmt.Errorf("%s: the service %s has no image with a version", path, name)
		}
		if s.MemLimit == 0 {
			return 0, fmt.Errorf("%s: the service %s has no mem_limit", path, name)
		}
	}
	return len(project.Services), nil
}

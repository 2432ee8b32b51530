package main

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
)

// quietLogs searches all logs for the secrets of secrets.sh and for issued tokens.
func quietLogs(ctx context.Context, w *world) (string, error) {
	secrets, err := secretValues(filepath.Join(w.dir, "secrets.yaml"))
	if err != nil {
		return "", err
	}
	out, err := w.kubectl(ctx, "get", "pods", "-A", "-l", "app.kubernetes.io/name", "-o", `jsonpath={range .items[*]}{.metadata.namespace} {.metadata.name}{"\n"}{end}`)
	if err != nil {
		return "", err
	}
	size := 0
	for line := range strings.Lines(out) {
		ns, pod, ok := strings.Cut(strings.TrimSpace(line), " ")
		if !ok {
			continue
		}
		logs, err := w.kubectl(ctx, "logs", "-n", ns, pod, "--all-containers")
		if err != nil && strings.Contains(err.Error(), `pods "`+pod+`" not found`) {
			continue // an earlier scenario has stopped it, and it has ended
		}
		if err != nil {
			return "", err
		}
		size += len(logs)
		for name, value := range secrets {
			if strings.Contains(logs, value) {
				return "", fmt.Errorf("the log of %s contains %s", pod, name)
			}
		}
	}
	return fmt.Sprintf("%d secrets, %d KB of logs", len(secrets), size>>10), nil
}

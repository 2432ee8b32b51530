package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// restricted checks that the API server enforces the restricted Pod Security Standard for every
// pod of the service. Only the namespace of BuildKit, which starts containers, is exempt.
func restricted(ctx context.Context, w *world) (string, error) {
	out, err := w.kubectl(ctx, "get", "namespaces", "-l", "pod-security.kubernetes.io/enforce=restricted", "-o", "jsonpath={.items[*].metadata.name}")
	if err != nil {
		return "", err
	}
	if !strings.Contains(" "+out+" ", " slipway ") {
		return "", fmt.Errorf("the namespaces that enforce the standard are %q", out)
	}
	// The admission plugin must reject a pod that violates the standard.
	pod, err := json.Marshal(object{
		"apiVersion": "v1", "kind": "Pod", "metadata": object{"name": "privileged", "namespace": "slipway"},
		"spec": object{"containers": []object{{"name": "c", "image": "docker.io/e2e/pause:1", "securityContext": object{"privileged": true}}}},
	})
	if err != nil {
		return "", err
	}
	switch _, err := w.kubectlWith(ctx, pod, "apply", "-f", "-"); {
	case err == nil:
		return "", errors.New("a privileged pod was accepted in the namespace slipway")
	case !strings.Contains(err.Error(), "violates PodSecurity"):
		return "", fmt.Errorf("a privileged pod in the namespace slipway: %w", err)
	}
	if out, err = w.kubectl(ctx, "-n", "slipway", "get", "pods", "-o", "jsonpath={.items[*].metadata.name}"); err != nil {
		return "", err
	}
	return fmt.Sprintf("the API server admitted %d pods to a namespace that enforces it, and refused a privileged one", len(strings.Fields(out))), nil
}

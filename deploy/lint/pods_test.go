package main

import (
	"strings"
	"testing"
)

const podsText = `
kind: Namespace
metadata: {name: slipway, labels: {pod-security.kubernetes.io/enforce: restricted}}
---
kind: Deployment
metadata: {name: gateway, namespace: slipway}
spec:
  template:
    spec:
      securityContext: {runAsNonRoot: true, seccompProfile: {type: RuntimeDefault}}
      containers:
        - name: slipwayd
          resources: {limits: {memory: 512Mi}}
          securityContext: {allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}}
---
kind: StatefulSet
metadata: {name: buildkit, namespace: slipway-buildkit}
spec:
  template:
    spec:
      containers:
        - name: buildkitd
          resources: {limits: {memory: 8Gi}}
          securityContext: {allowPrivilegeEscalation: true}
`

// TestPods accepts pods that meet the restricted standard, and reports each violation.
func TestPods(t *testing.T) {
	t.Parallel()
	if n, err := checkPods([]byte(podsText)); err != nil || n != 2 {
		t.Errorf("%d, %v", n, err)
	}
	for name, c := range map[string]struct{ old, new, want string }{
		"root":                 {"runAsNonRoot: true, ", "", "runAsNonRoot != true"},
		"capabilities":         {"drop: [ALL]", "drop: [ALL], add: [NET_ADMIN]", "NET_ADMIN"},
		"a volume of the node": {"      containers:\n", "      volumes: [{name: v, hostPath: {path: /}}]\n      containers:\n", "hostPath"},
		"another namespace":    {"namespace: slipway-buildkit", "namespace: slipway", "buildkit: allowPrivilegeEscalation"},
		"no memory limit":      {"{memory: 512Mi}", "{}", "slipwayd has no memory limit"},
		"no limit, exempt":     {"{memory: 8Gi}", "{}", "buildkitd has no memory limit"},
		"an open namespace":    {"enforce: restricted", "enforce: baseline", "Namespace slipway lacks"},
	} {
		changed := strings.Replace(podsText, c.old, c.new, 1)
		if changed == podsText {
			t.Fatalf("%s: the replacement changed nothing", name)
		}
		if _, err := checkPods([]byte(changed)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v; want %q", name, err, c.want)
		}
	}
}

package main

import (
	"strings"
	"testing"
)

const overlayText = `
kind: Namespace
metadata: {name: slipway}
---
kind: ConfigMap
metadata: {name: slipway-k2m4h7t9bd, namespace: slipway}
data: {A: b}
---
kind: Deployment
metadata: {name: gateway, namespace: slipway, labels: {app.kubernetes.io/name: slipway}}
spec:
  replicas: 2
  containers:
    - name: slipwayd
      envFrom: [{configMapRef: {name: slipway-k2m4h7t9bd}}]
      env: [{name: A, value: x}, {name: B, value: "y"}]
  volumes: [{name: rpc, secret: {defaultMode: 288}}]
`

const chartText = `
kind: ConfigMap
metadata: {name: slipway, namespace: slipway, labels: {helm.sh/chart: slipway-0.1.0}}
data: {A: b}
---
kind: Deployment
metadata: {name: gateway, namespace: slipway, labels: {app.kubernetes.io/name: slipway, helm.sh/chart: slipway-0.1.0}}
spec:
  replicas: 2
  containers:
    - name: slipwayd
      envFrom: [{configMapRef: {name: slipway}}]
      env: [{name: B, value: "y"}, {name: A, value: x}]
  volumes: [{name: rpc, secret: {defaultMode: 0440}}]
`

// TestSameObjects checks that each difference between a chart and its overlay is reported.
func TestSameObjects(t *testing.T) {
	t.Parallel()
	if err := sameObjects([]byte(overlayText), []byte(chartText)); err != nil {
		t.Errorf("the same: %v", err)
	}
	for name, c := range map[string]struct{ old, new, want string }{
		"a value":            {"value: x", "value: z", "env.A.value"},
		"one variable more":  {"{name: A, value: x}", "{name: A, value: x}, {name: C, value: d}", "env.C"},
		"a missing field":    {"  replicas: 2\n", "", "spec.replicas"},
		"another mode":       {"0440", "0400", "defaultMode"},
		"a label of our own": {"app.kubernetes.io/name: slipway, ", "", "app.kubernetes.io/name"},
		"another object":     {"kind: ConfigMap", "kind: Secret", "ConfigMap slipway/slipway is missing"},
	} {
		changed := strings.Replace(chartText, c.old, c.new, 1)
		if changed == chartText {
			t.Fatalf("%s: the replacement changed nothing", name)
		}
		if err := sameObjects([]byte(overlayText), []byte(changed)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v; want %q", name, err, c.want)
		}
	}
}

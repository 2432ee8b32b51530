package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
)

// metadata is the address at which clouds serve secrets to their machines.
const metadata = "169.254.169.254"

// policies checks which addresses a builder, a build step and an unrelated pod can reach.
func policies(ctx context.Context, w *world) (string, error) {
	name, err := w.client.submit(ctx, object{"containerImage": w.image, "containerConfig": object{"env": []string{"PROBE=1"}}})
	if err != nil {
		return "", err
	}
	image := "slipway.test/" + name
	open := []string{"nats.slipway.svc.cluster.local 4222", "build.slipway.svc.cluster.local 9095", "container.slipway.svc.cluster.local 9095",
		"image-registry.slipway.svc.cluster.local 5000", "buildkit.slipway-buildkit.svc.cluster.local 1234"}
	shut := []string{"postgres.slipway.svc.cluster.local 5432", "redis.slipway.svc.cluster.local 6379", "platform.slipway.svc.cluster.local 9095",
		"gateway.slipway.svc.cluster.local 80", "kubernetes.default.svc.cluster.local 443", metadata + " 80", "192.168.77.1 6443"}
	stranger, err := w.probe(ctx, image, "default", "{}", append([]string{metadata + " 80"}, open...))
	if err != nil {
		return "", err
	}
	if !stranger[metadata+" 80"] {
		return "", errors.New("an unrelated pod cannot reach the metadata address, so that the test proves nothing")
	}
	for _, target := range open[:3] {
		if stranger[target] {
			return "", fmt.Errorf("an unrelated pod reaches %s", target)
		}
	}
	seen, err := w.probe(ctx, image, "slipway", "{app.kubernetes.io/name: slipway, app.kubernetes.io/component: builder}", append(append([]string{}, open...), shut...))
	if err != nil {
		return "", err
	}
	for _, target := range open {
		if !seen[target] {
			return "", fmt.Errorf("a builder cannot reach %s", target)
		}
	}
	for _, target := range shut {
		if seen[target] {
			return "", fmt.Errorf("a builder reaches %s", target)
		}
	}
	// The step fails if it reaches any target. Its network has one interface and one port, the
	// proxy's: the proxy must accept connections, but reach none of the targets.
	steps := "[ $(wc -l </proc/net/dev) = 3 ] && [ $(wc -l </proc/net/tcp) = 2 ] && nc -w 3 127.0.0.1 3128 -e /bin/busybox true || exit 1\n"
	for _, target := range append(shut, open...) {
		host, port, _ := strings.Cut(target, " ")
		steps += "nc -w 3 " + target + " -e /bin/busybox true && echo " + host + " >> /reached &\n" +
			"http_proxy=http://127.0.0.1:3128 wget -q -T 5 -O /dev/null http://" + host + ":" + port + "/v2/ && echo " + host + " by the proxy >> /reached &\n"
	}
	if err := buildSteps(ctx, w, steps+"wait\n! cat /reached"); err != nil {
		return "", fmt.Errorf("a step of a build: %w", err)
	}
	return fmt.Sprintf("of %d addresses a builder reaches the %d that it needs, a build step none, nor through its proxy; an unrelated pod reaches the metadata address, builders and steps do not",
		len(open)+len(shut), len(open)), nil
}

// probe runs a pod that tries to connect to targets, and reports which connections succeeded.
func (c *cluster) probe(ctx context.Context, image, namespace, labels string, targets []string) (map[string]bool, error) {
	// Policies take effect shortly after the pod has its address.
	script := "sleep 5\n"
	for _, t := range targets {
		script += fmt.Sprintf("nc -w 3 %s -e /bin/busybox true && echo 'open %s' &\n", t, t)
	}
	script += "wait\n"
	pod := fmt.Sprintf(`apiVersion: v1
kind: Pod
metadata: {name: probe, namespace: %s, labels: %s}
spec:
  restartPolicy: Never
  automountServiceAccountToken: false
  securityContext: {runAsNonRoot: true, runAsUser: 65532, seccompProfile: {type: RuntimeDefault}}
  containers:
    - name: probe
      image: %s
      command: [/bin/sh, -c, %q]
      securityContext: {allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}}
`, namespace, labels, image, script+"echo done\n")
	if _, err := c.kubectlWith(ctx, []byte(pod), "apply", "-f", "-"); err != nil {
		return nil, err
	}
	var out string
	err := c.until(ctx, "the probe", 5*time.Minute, func() (err error) {
		if out, err = c.kubectl(ctx, "-n", namespace, "logs", "probe"); err == nil && !strings.Contains(out, "done\n") {
			err = errors.New(out)
		}
		return err
	})
	_, err2 := c.kubectl(ctx, "-n", namespace, "delete", "pod", "probe", "--now")
	seen := map[string]bool{}
	for line := range strings.Lines(out) {
		if target, ok := strings.CutPrefix(strings.TrimSpace(line), "open "); ok {
			seen[target] = true
		}
	}
	return seen, errors.Join(err, err2)
}

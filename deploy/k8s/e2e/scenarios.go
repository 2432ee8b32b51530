package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// world is what scenarios work with.
type world struct {
	*cluster
	client *client
	// image is in the cluster's registry.
	image string
}

// scenario proves one thing, and answers its figures.
type scenario struct {
	name, what string
	prove      func(context.Context, *world) (string, error)
}

func all() []scenario {
	return []scenario{
		{"pull", "first pull from cold, by a node's containerd: the pod runs", coldPull},
		{"build", "a build in the rootless BuildKit pod", buildOne},
		{"rollout", "rolling update of every Deployment under pull and build load", rollEverything},
		{"deletion", "deletion of one pod of each role under pull and build load", deleteEach},
		{"policy", "network policies: the builder reaches what it needs, nobody the metadata address", policies},
		{"stores", "deletion of NATS, Redis, PostgreSQL, the registry and BuildKit: everything works again by itself", deleteStores},
		{"drain", "drain of a node under pull and build load", drainNode},
		{"autoscaling", "builders come and go with the queue (HPA of production, prometheus-adapter)", autoscale},
		{"logs", "no log holds a secret", quietLogs},
	}
}

// scenarios deploys the service, and goes through those that are wanted.
func scenarios(ctx context.Context, c *cluster, r *report, only string) error {
	began := time.Now()
	w, err := deploy(ctx, c)
	if err != nil {
		return fmt.Errorf("deploying: %w", err)
	}
	r.fact("service ready", time.Since(began))
	var problems []error
	for _, s := range all() {
		if only != "" && !strings.Contains(","+only+",", ","+s.name+",") {
			continue
		}
		began := time.Now()
		figures, err := s.prove(ctx, w)
		if err != nil {
			fmt.Printf("FAIL %s (%s): %v\n", s.what, figures, err)
			problems = append(problems, fmt.Errorf("%s: %w", s.what, err))
			continue
		}
		r.passed(s.what, figures, time.Since(began))
	}
	return errors.Join(problems...)
}

// deploy applies the overlay, and waits until all of it is ready.
func deploy(ctx context.Context, c *cluster) (*world, error) {
	k8s := filepath.Join(c.repo, "deploy", "k8s")
	secrets, err := exec.CommandContext(ctx, filepath.Join(k8s, "secrets.sh"), "--dev", "--offline").Output()
	if err != nil {
		return nil, err
	}
	if err := os.WriteFile(filepath.Join(c.dir, "secrets.yaml"), secrets, 0o600); err != nil {
		return nil, err
	}
	if _, err := c.kubectlWith(ctx, secrets, "apply", "-f", "-"); err != nil {
		return nil, err
	}
	if _, err := c.kubectl(ctx, "apply", "-k", filepath.Join(k8s, "overlays", "e2e")); err != nil {
		return nil, err
	}
	if err := c.settled(ctx); err != nil {
		return nil, err
	}
	ip := func(service string) (string, error) {
		return c.kubectl(ctx, "-n", "slipway", "get", "service", service, "-o", "jsonpath={.spec.clusterIP}")
	}
	gateway, err1 := ip("gateway")
	registry, err2 := ip("registry")
	store, err3 := c.kubectl(ctx, "-n", "slipway", "get", "pod", "image-registry-0", "-o", "jsonpath={.status.podIP}")
	if err := errors.Join(err1, err2, err3); err != nil {
		return nil, err
	}
	// Nodes pull from slipway.test where the registry's Service is.
	dir := filepath.Join(c.dir, "certs.d", "slipway.test")
	hosts := fmt.Sprintf("server = \"http://%s\"\n[host.\"http://%s\"]\n  capabilities = [\"pull\", \"resolve\"]\n", registry, registry)
	if err := errors.Join(os.MkdirAll(dir, 0o750), os.WriteFile(filepath.Join(dir, "hosts.toml"), []byte(hosts), 0o600)); err != nil {
		return nil, err
	}
	content, err := layer(map[string]string{"bin/busybox": "/bin/busybox", "bin/sh": "/bin/busybox"})
	if err != nil {
		return nil, err
	}
	if err := push(ctx, store+":5000", "lib/tool", "v1", content); err != nil {
		return nil, err
	}
	return &world{c, newClient(gateway, registry), "image-registry.slipway.svc.cluster.local:5000/lib/tool:v1"}, nil
}

// settled waits until everything that was rolled is there.
func (c *cluster) settled(ctx context.Context) error {
	for _, ns := range []string{"slipway", "slipway-buildkit"} {
		out, err := c.kubectl(ctx, "-n", ns, "get", "statefulsets,deployments", "-o", "name")
		if err != nil {
			return err
		}
		for _, what := range strings.Fields(out) {
			if _, err := c.kubectl(ctx, "-n", ns, "rollout", "status", what, "--timeout=10m"); err != nil {
				return err
			}
		}
	}
	return nil
}

// coldPull asks for an image with additions and runs it as a pod: a node's
// containerd pulls the name.
func coldPull(ctx context.Context, w *world) (string, error) {
	began := time.Now()
	name, err := w.client.submit(ctx, object{"containerImage": w.image, "containerConfig": object{"env": []string{"GREETING=hello from slipway"}}})
	if err != nil {
		return "", err
	}
	pod := fmt.Sprintf(`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"first","namespace":"default"},"spec":{"restartPolicy":"Never",
		"automountServiceAccountToken":false,"containers":[{"name":"c","image":"slipway.test/%s","command":["/bin/sh","-c","echo $GREETING"]}]}}`, name)
	if _, err := w.kubectlWith(ctx, []byte(pod), "apply", "-f", "-"); err != nil {
		return "", err
	}
	err = w.until(ctx, "the pod's greeting", 5*time.Minute, func() error {
		out, err := w.kubectl(ctx, "logs", "first")
		if err == nil && !strings.Contains(out, "hello from slipway") {
			err = fmt.Errorf("it says %q", out)
		}
		return err
	})
	return fmt.Sprintf("request to output %.1f s", time.Since(began).Seconds()), err
}

// underLoad does something while four clients ask and pull, and two have images
// built and pull those; none may fail.
func underLoad(ctx context.Context, w *world, what string, do func() error) (string, error) {
	pulls := startLoad(ctx, 4, func(ctx context.Context, id string) error { return once(ctx, w.client, w.image, "LOAD="+what+id) })
	builds := startLoad(ctx, 2, func(ctx context.Context, id string) error { return build(ctx, w, what+id) })
	err := do()
	var figures []string
	for _, l := range []struct {
		name string
		*load
	}{{"pulls", pulls}, {"builds", builds}} {
		n, slowest, failed := l.end()
		figures = append(figures, fmt.Sprintf("%d %s, %d failed, slowest %.1f s", n, l.name, len(failed), slowest.Seconds()))
		if len(failed) > 0 {
			err = errors.Join(err, fmt.Errorf("%d of %d %s failed; the first: %w", len(failed), n, l.name, failed[0]))
		}
	}
	return strings.Join(figures, "; "), err
}

func roles() []string {
	return []string{"platform", "container", "build", "builder", "conda", "inspect", "metrics", "registry", "gateway"}
}

func rollEverything(ctx context.Context, w *world) (string, error) {
	return underLoad(ctx, w, "roll", func() error {
		// All at once, as an upgrade does it.
		if _, err := w.kubectl(ctx, "-n", "slipway", "rollout", "restart", "deployment"); err != nil {
			return err
		}
		return w.settled(ctx)
	})
}

func deleteEach(ctx context.Context, w *world) (string, error) {
	return underLoad(ctx, w, "delete", func() error {
		for _, role := range roles() {
			pod, err := w.kubectl(ctx, "-n", "slipway", "get", "pods", "-l", "app.kubernetes.io/component="+role, "-o", "jsonpath={.items[0].metadata.name}")
			if err != nil {
				return err
			}
			if _, err := w.kubectl(ctx, "-n", "slipway", "delete", "pod", pod, "--wait=false"); err != nil {
				return err
			}
			if _, err := w.kubectl(ctx, "-n", "slipway", "rollout", "status", "deployment/"+role, "--timeout=10m"); err != nil {
				return err
			}
		}
		return nil
	})
}

// buildSteps has an image built with one RUN, and pulls it.
func buildSteps(ctx context.Context, w *world, script string) error {
	dockerfile := fmt.Sprintf("FROM %s\nRUN [\"/bin/sh\", \"-c\", %q]\n", w.image, script)
	name, err := w.client.submit(ctx, object{"containerFile": encode(dockerfile)})
	if err != nil {
		return err
	}
	_, err = w.client.pull(ctx, name)
	return err
}

// build has an image built that was not there before.
func build(ctx context.Context, w *world, what string) error {
	return buildSteps(ctx, w, "sleep 2; echo "+what+" > /made")
}

func buildOne(ctx context.Context, w *world) (string, error) {
	began := time.Now()
	err := build(ctx, w, "first")
	return fmt.Sprintf("request to pulled %.1f s", time.Since(began).Seconds()), err
}

func deleteStores(ctx context.Context, w *world) (string, error) {
	var figures []string
	for _, store := range []string{"nats", "redis", "postgres", "image-registry", "buildkit"} {
		namespace := "slipway"
		if store == "buildkit" {
			namespace = "slipway-buildkit"
		}
		began := time.Now()
		if _, err := w.kubectl(ctx, "-n", namespace, "delete", "pod", store+"-0"); err != nil {
			return "", err
		}
		if _, err := w.kubectl(ctx, "-n", namespace, "rollout", "status", "statefulset/"+store, "--timeout=10m"); err != nil {
			return "", err
		}
		back := time.Now()
		if err := w.until(ctx, "requests after "+store, 3*time.Minute, func() error { return steady(ctx, w, "AFTER="+store) }); err != nil {
			return "", err
		}
		served := time.Now()
		try := 0
		if err := w.until(ctx, "a build after "+store, 3*time.Minute, func() error { try++; return build(ctx, w, fmt.Sprintf("after-%s-%d", store, try)) }); err != nil {
			return "", err
		}
		figures = append(figures, fmt.Sprintf("%s back after %.0f s, requests %.1f s later, a build then takes %.1f s",
			store, back.Sub(began).Seconds(), served.Sub(back).Seconds(), time.Since(served).Seconds()))
	}
	return strings.Join(figures, "; "), nil
}

// steady is when ten requests in a row succeed, so that every replica had some.
func steady(ctx context.Context, w *world, env string) error {
	for i := range 10 {
		if err := once(ctx, w.client, w.image, fmt.Sprintf("%s-%d", env, i)); err != nil {
			return err
		}
	}
	return nil
}

func drainNode(ctx context.Context, w *world) (string, error) {
	figures, err := underLoad(ctx, w, "drain", func() error {
		_, err := w.kubectl(ctx, "drain", "node2", "--ignore-daemonsets", "--delete-emptydir-data", "--force", "--timeout=10m")
		return errors.Join(err, w.settled(ctx))
	})
	_, err2 := w.kubectl(ctx, "uncordon", "node2")
	return figures, errors.Join(err, err2)
}

// quietLogs looks for every secret of secrets.sh, and every token that was given
// out, in all logs.
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
		if err != nil {
			return "", err
		}
		size += len(logs)
		for name, value := range secrets {
			if strings.Contains(logs, value) {
				return "", fmt.Errorf("the log of %s holds %s", pod, name)
			}
		}
	}
	return fmt.Sprintf("%d secrets, %d KB of logs", len(secrets), size>>10), nil
}

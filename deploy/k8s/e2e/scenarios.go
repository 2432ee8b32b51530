package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
)

// world is the state that scenarios share.
type world struct {
	*cluster
	client *client
	// image is in the cluster's registry.
	image string
}

// A scenario tests one property, and returns its figures.
type scenario struct {
	name, what string
	prove      func(context.Context, *world) (string, error)
}

// stages lists the scenarios. The scenarios of one stage run concurrently, since they mostly
// wait and do not disturb each other.
func stages() [][]scenario {
	return [][]scenario{
		{
			{"pull", "first pull without a cache, by a node's containerd: the pod runs", coldPull},
			{"build", "a build in the rootless BuildKit pod", buildOne},
			{"policy", "network policies: builders reach only what they need, and never the metadata address", policies},
			{"conda", "a Conda environment from a channel in the cluster, without a route out of it", condaImage},
			{"restricted", "every pod of the service meets the restricted Pod Security Standard", restricted},
		},
		{{"environments", "many different Conda environments requested concurrently", manyEnvironments}},
		{{"rollout", "rolling update of every Deployment under pull and build load", rollEverything}},
		{{"deletion", "deletion of one pod of each role under pull and build load", deleteEach}},
		{{"stores", "deletion of NATS, Redis, PostgreSQL, the registry and BuildKit: the service recovers without intervention", deleteStores}},
		{{"lost", "the registry's volume is lost: the next request rebuilds an image", loseRegistry}},
		{{"drain", "drain of a node under pull and build load", drainNode}},
		{{"autoscaling", "builders scale with the queue (HPA of production, prometheus-adapter)", autoscale}},
		{{"logs", "no log contains a secret", quietLogs}},
	}
}

// scenarios deploys the service, and runs the selected scenarios.
func scenarios(ctx context.Context, c *cluster, r *report, set settings) error {
	began := time.Now()
	w, err := deploy(ctx, c)
	if err != nil {
		return fmt.Errorf("deploying: %w", err)
	}
	r.fact("service ready", time.Since(began))
	var problems []error
	for _, stage := range stages() {
		var side sync.WaitGroup
		failed := make([]error, len(stage))
		for i, s := range stage {
			if set.only == "" || strings.Contains(","+set.only+",", ","+s.name+",") {
				side.Go(func() { failed[i] = run(ctx, w, r, s, set.tries) })
			}
		}
		side.Wait()
		problems = append(problems, failed...)
	}
	return errors.Join(problems...)
}

// run runs a scenario, and repeats it after a failure, up to a number of tries. It prints every
// failure.
func run(ctx context.Context, w *world, r *report, s scenario, tries int) error {
	for try := 1; ; try++ {
		began := time.Now()
		figures, err := s.prove(ctx, w)
		if err == nil {
			if try > 1 {
				figures += fmt.Sprintf("; at try %d", try)
			}
			r.passed(s.what, figures, time.Since(began))
			return nil
		}
		fmt.Printf("FAIL %s at try %d after %.0f s (%s): %v\n", s.what, try, time.Since(began).Seconds(), figures, err)
		if try >= tries || ctx.Err() != nil {
			return fmt.Errorf("%s: %w", s.what, err)
		}
		if err := w.settled(ctx); err != nil {
			return err
		}
	}
}

// deploy applies the overlay, and waits until all pods are ready.
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
	if err := c.serveChannel(ctx); err != nil {
		return nil, fmt.Errorf("starting the channel: %w", err)
	}
	if err := c.settled(ctx); err != nil {
		return nil, err
	}
	ip := func(service string) (string, error) {
		return c.kubectl(ctx, "-n", "slipway", "get", "service", service, "-o", "jsonpath={.spec.clusterIP}")
	}
	gateway, err1 := ip("gateway")
	registry, err2 := ip("registry")
	if err := errors.Join(err1, err2, c.pushBase(ctx)); err != nil {
		return nil, err
	}
	// Nodes pull slipway.test from the registry's Service.
	dir := filepath.Join(c.dir, "certs.d", "slipway.test")
	hosts := fmt.Sprintf("server = \"http://%s\"\n[host.\"http://%s\"]\n  capabilities = [\"pull\", \"resolve\"]\n", registry, registry)
	if err := errors.Join(os.MkdirAll(dir, 0o750), os.WriteFile(filepath.Join(dir, "hosts.toml"), []byte(hosts), 0o600)); err != nil {
		return nil, err
	}
	return &world{c, newClient(gateway, registry), "image-registry.slipway.svc.cluster.local:5000/lib/tool:v1"}, nil
}

// pushBase pushes the base image of all requests to the cluster's registry.
func (c *cluster) pushBase(ctx context.Context) error {
	content, err := layer(map[string]string{"bin/busybox": "/bin/busybox", "bin/sh": "/bin/busybox"})
	if err != nil {
		return err
	}
	store, err := c.kubectl(ctx, "-n", "slipway", "get", "pod", "image-registry-0", "-o", "jsonpath={.status.podIP}")
	if err != nil {
		return err
	}
	return push(ctx, store+":5000", "lib/tool", "v1", content)
}

// settled waits until all rollouts are complete.
func (c *cluster) settled(ctx context.Context) error {
	for _, ns := range []string{"slipway", "slipway-buildkit", "conda-channel"} {
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

// coldPull requests an image with additions and runs it as a pod, so that a node's containerd
// pulls it.
func coldPull(ctx context.Context, w *world) (string, error) {
	if _, err := w.kubectl(ctx, "delete", "pod", "first", "--ignore-not-found"); err != nil {
		return "", err
	}
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
			err = fmt.Errorf("the pod printed %q", out)
		}
		return err
	})
	return fmt.Sprintf("request to output %.1f s", time.Since(began).Seconds()), err
}

// underLoad calls do while four clients request and pull images, and two request and pull
// builds. No request may fail.
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
		// all Deployments together, like an upgrade
		if _, err := w.kubectl(ctx, "-n", "slipway", "rollout", "restart", "deployment"); err != nil {
			return err
		}
		return w.settled(ctx)
	})
}

func deleteEach(ctx context.Context, w *world) (string, error) {
	return underLoad(ctx, w, "delete", func() error {
		// a few roles together, like the failure of a node
		for some := range slices.Chunk(roles(), 3) {
			failed := make([]error, len(some))
			var side sync.WaitGroup
			for i, role := range some {
				side.Go(func() { failed[i] = w.deleteOne(ctx, role) })
			}
			side.Wait()
			if err := errors.Join(failed...); err != nil {
				return err
			}
		}
		return nil
	})
}

// deleteOne deletes a pod of a role, and waits until its replacement is ready. It does not choose
// pods that an earlier scenario has stopped and that have not ended.
func (w *world) deleteOne(ctx context.Context, role string) error {
	pods, err := w.pods(ctx, "app.kubernetes.io/component="+role)
	if err != nil {
		return err
	}
	i := slices.IndexFunc(pods, func(p pod) bool { return p.Metadata.DeletionTimestamp == "" })
	if i < 0 {
		return fmt.Errorf("%s has no pod", role)
	}
	if _, err = w.kubectl(ctx, "-n", "slipway", "delete", "pod", pods[i].Metadata.Name, "--wait=false"); err != nil {
		return err
	}
	_, err = w.kubectl(ctx, "-n", "slipway", "rollout", "status", "deployment/"+role, "--timeout=10m")
	return err
}

// buildSteps requests a build with one RUN, and pulls the image.
func buildSteps(ctx context.Context, w *world, script string) error {
	dockerfile := fmt.Sprintf("FROM %s\nRUN [\"/bin/sh\", \"-c\", %q]\n", w.image, script)
	name, err := w.client.submit(ctx, object{"containerFile": encode(dockerfile)})
	if err != nil {
		return err
	}
	_, err = w.client.pull(ctx, name)
	return err
}

// build requests a build of new content.
func build(ctx context.Context, w *world, what string) error {
	return buildSteps(ctx, w, "sleep 2; echo "+what+" > /made")
}

func buildOne(ctx context.Context, w *world) (string, error) {
	began := time.Now()
	err := build(ctx, w, "first")
	return fmt.Sprintf("request to pulled %.1f s", time.Since(began).Seconds()), err
}

func drainNode(ctx context.Context, w *world) (string, error) {
	figures, err := underLoad(ctx, w, "drain", func() error {
		_, err := w.kubectl(ctx, "drain", "node2", "--ignore-daemonsets", "--delete-emptydir-data", "--force", "--timeout=10m")
		return errors.Join(err, w.settled(ctx))
	})
	_, err2 := w.kubectl(ctx, "uncordon", "node2")
	return figures, errors.Join(err, err2)
}

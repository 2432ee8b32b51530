package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

const (
	// wanted is how many builders six builds need: a builder has two at once.
	wanted = 3
	// Builds of two lengths, in seconds: when the short ones are done there is a builder too many.
	short, long = 30, 180
)

// autoscale applies the autoscalers of production, with the metrics they need, and
// has builders come and go. One that is stopped while it builds must finish.
func autoscale(ctx context.Context, w *world) (string, error) {
	if err := w.measure(ctx); err != nil {
		return "", err
	}
	if _, err := w.kubectl(ctx, "apply", "-k", filepath.Join(w.repo, "deploy", "k8s", "overlays", "e2e-autoscaling")); err != nil {
		return "", err
	}
	if err := w.settled(ctx); err != nil {
		return "", err
	}
	// Pods that go know nothing of builders on demand.
	if err := w.until(ctx, "old pods to be gone", 5*time.Minute, func() error { return w.noneGoes(ctx) }); err != nil {
		return "", err
	}
	if err := w.builders(ctx, 0); err != nil {
		return "", err
	}
	began := time.Now()
	shorts, longs := w.submitAll(ctx, "short", short), w.submitAll(ctx, "long", long)
	if err := w.builders(ctx, wanted); err != nil {
		return "", err
	}
	there := time.Since(began)
	if err := <-shorts; err != nil {
		return "", fmt.Errorf("a short build: %w", err)
	}
	victim, running, err := w.stopped(ctx)
	if err != nil {
		return "", err
	}
	// It ends with the pod.
	said, err := w.kubectl(ctx, "-n", "slipway", "logs", "-f", victim)
	if err != nil {
		return "", err
	}
	if err := <-longs; err != nil {
		return "", fmt.Errorf("a long build: %w", err)
	}
	took := time.Since(began)
	if started, ended := strings.Count(said, "Worker starts a build"), strings.Count(said, "Worker ended a build"); started != ended {
		return "", fmt.Errorf("the builder that was stopped started %d builds and ended %d", started, ended)
	}
	idle := time.Now()
	err = w.builders(ctx, 0)
	return fmt.Sprintf("0 → %d builders %.0f s after 6 requests; one was stopped with %d running, and finished that; all 6 pulled after %.0f s (the longest takes %d s); 0 builders %.0f s later",
		wanted, there.Seconds(), running, took.Seconds(), long, time.Since(idle).Seconds()), err
}

// noneGoes is nil when no pod is being stopped.
func (w *world) noneGoes(ctx context.Context) error {
	pods, err := w.pods(ctx, "app.kubernetes.io/name=slipway")
	for _, p := range pods {
		if p.Metadata.DeletionTimestamp != "" {
			err = fmt.Errorf("%s is there", p.Metadata.Name)
		}
	}
	return err
}

// measure starts Prometheus and the adapter that tells autoscalers what it knows.
func (w *world) measure(ctx context.Context) error {
	targets, manifests := filepath.Join(w.dir, "targets"), filepath.Join(w.dir, "monitoring.yaml")
	err := errors.Join(os.Mkdir(targets, 0o750), os.Chmod(targets, 0o755), //nolint:gosec // Prometheus reads it
		render("files/monitoring.yaml", manifests, object{"Targets": targets}))
	if err != nil {
		return err
	}
	go w.discover(ctx, filepath.Join(targets, "pods.json"))
	if _, err := w.kubectl(ctx, "apply", "-f", manifests); err != nil {
		return err
	}
	rules := filepath.Join(w.repo, "deploy", "k8s", "components", "autoscaling-hpa", "adapter.yaml")
	if _, err := w.kubectl(ctx, "-n", "monitoring", "create", "configmap", "adapter", "--from-file=config.yaml="+rules); err != nil {
		return err
	}
	_, err = w.kubectl(ctx, "-n", "monitoring", "rollout", "status", "deployment/adapter", "--timeout=5m")
	_, err2 := w.kubectl(ctx, "-n", "monitoring", "rollout", "status", "deployment/prometheus", "--timeout=5m")
	return errors.Join(err, err2)
}

// discover writes for Prometheus which pods there are, once a second.
func (w *world) discover(ctx context.Context, file string) {
	for ctx.Err() == nil {
		pods, err := w.pods(ctx, "app.kubernetes.io/name=slipway")
		targets := []object{}
		for _, p := range pods {
			if p.Status.PodIP != "" {
				targets = append(targets, object{"targets": []string{p.Status.PodIP + ":9099"}, "labels": object{"namespace": "slipway", "pod": p.Metadata.Name}})
			}
		}
		raw, err2 := json.Marshal(targets)
		if err = errors.Join(err, err2); err == nil {
			err = errors.Join(os.WriteFile(file+".new", raw, 0o644), os.Rename(file+".new", file)) //nolint:gosec // Prometheus reads it
		}
		if err != nil && ctx.Err() == nil {
			fmt.Fprintln(os.Stderr, "telling Prometheus the pods:", err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(time.Second):
		}
	}
}

// submitAll has three images built, each of which takes some seconds, and pulls
// them; the channel tells when all are there.
func (w *world) submitAll(ctx context.Context, name string, seconds int) <-chan error {
	done, all := make(chan error, wanted), make(chan error, 1)
	for i := range wanted {
		go func() { done <- buildSteps(ctx, w, fmt.Sprintf("sleep %d; echo %s-%d > /made", seconds, name, i)) }()
	}
	go func() {
		var err error
		for range wanted {
			err = errors.Join(err, <-done)
		}
		all <- err
	}()
	return all
}

// builders waits until as many are ready, and no other is left.
func (w *world) builders(ctx context.Context, n int) error {
	return w.until(ctx, fmt.Sprintf("%d builders", n), 10*time.Minute, func() error {
		pods, err := w.pods(ctx, "app.kubernetes.io/component=builder")
		ready := slices.DeleteFunc(slices.Clone(pods), func(p pod) bool { return !p.ready() })
		if err == nil && (len(ready) != n || len(pods) != n) {
			err = fmt.Errorf("there are %d, %d of them ready", len(pods), len(ready))
		}
		return err
	})
}

// stopped marks builders by how much they have to do, so that the autoscaler stops
// the busiest, and answers which it stopped and how many builds that had then.
func (w *world) stopped(ctx context.Context) (name string, running int, err error) {
	err = w.until(ctx, "the long builds alone to run", time.Minute, func() error {
		n, err := w.running(ctx, "builder-.*")
		if err == nil && n != wanted {
			err = fmt.Errorf("%d run", n)
		}
		return err
	})
	if err != nil {
		return "", 0, err
	}
	pods, err := w.pods(ctx, "app.kubernetes.io/component=builder")
	if err != nil {
		return "", 0, err
	}
	for _, p := range pods {
		n, err := w.running(ctx, p.Metadata.Name)
		if err != nil {
			return "", 0, err
		}
		if _, err := w.kubectl(ctx, "-n", "slipway", "annotate", "pod", p.Metadata.Name, fmt.Sprintf("controller.kubernetes.io/pod-deletion-cost=%d", -n)); err != nil {
			return "", 0, err
		}
	}
	err = w.until(ctx, "a builder to be stopped", 3*time.Minute, func() error {
		pods, err := w.pods(ctx, "app.kubernetes.io/component=builder")
		if err != nil {
			return err
		}
		i := slices.IndexFunc(pods, func(p pod) bool { return p.Metadata.DeletionTimestamp != "" })
		if i < 0 {
			return errors.New("none is")
		}
		name = pods[i].Metadata.Name
		return nil
	})
	if err != nil {
		return "", 0, err
	}
	if running, err = w.running(ctx, name); err == nil && running == 0 {
		err = fmt.Errorf("%s was stopped and had nothing to do: nothing would be proven", name)
	}
	return name, running, err
}

// running asks Prometheus how many builds the builders have whose names match.
func (w *world) running(ctx context.Context, pods string) (int, error) {
	ip, err := w.kubectl(ctx, "-n", "monitoring", "get", "service", "prometheus-operated", "-o", "jsonpath={.spec.clusterIP}")
	if err != nil {
		return 0, err
	}
	query := url.QueryEscape(fmt.Sprintf("sum(slipway_builder_running{pod=~%q})", pods))
	raw, err := w.client.get(ctx, "http://"+ip+":9090/api/v1/query?query="+query, "")
	if err != nil {
		return 0, err
	}
	var answer struct {
		Data struct{ Result []struct{ Value [2]any } }
	}
	if err := json.Unmarshal(raw, &answer); err != nil {
		return 0, err
	}
	if len(answer.Data.Result) != 1 {
		return 0, fmt.Errorf("nothing is known of %s", pods)
	}
	return strconv.Atoi(fmt.Sprint(answer.Data.Result[0].Value[1]))
}

type pod struct {
	Metadata struct{ Name, DeletionTimestamp string }
	Status   struct {
		PodIP      string
		Conditions []struct{ Type, Status string }
	}
}

func (p pod) ready() bool {
	return slices.ContainsFunc(p.Status.Conditions, func(c struct{ Type, Status string }) bool { return c.Type == "Ready" && c.Status == "True" })
}

// pods are those of Slipway with a label.
func (w *world) pods(ctx context.Context, label string) ([]pod, error) {
	out, err := w.kubectl(ctx, "-n", "slipway", "get", "pods", "-l", label, "-o", "json")
	if err != nil {
		return nil, err
	}
	var list struct{ Items []pod }
	err = json.Unmarshal([]byte(out), &list)
	return list.Items, err
}

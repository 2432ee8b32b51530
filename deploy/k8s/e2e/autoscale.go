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
	// builds is the number of builds of each duration. A builder runs two concurrently.
	builds = 3
	// short is the duration of the short builds in seconds.
	short = 30
)

// errIdle is returned when no builder with running builds was stopped, so that the test proves
// nothing.
var errIdle = errors.New("no builder was stopped while it had builds")

// autoscale applies the autoscalers of production, with the metrics that they need. The number
// of builders must follow the queue, and a builder that is stopped must finish its builds.
func autoscale(ctx context.Context, w *world) (string, error) {
	measured := make(chan error, 1)
	go func() { measured <- w.measure(ctx) }()
	if err := errors.Join(w.applyAutoscalers(ctx), <-measured); err != nil {
		return "", err
	}
	// The autoscaler's delay depends on the machine: if the long builds ended first, the test
	// repeats with longer ones.
	for _, long := range []int{180, 500} {
		figures, err := scale(ctx, w, long)
		if !errors.Is(err, errIdle) {
			return figures, err
		}
		fmt.Printf("builds of %d s: %v\n", long, err)
	}
	return "", errIdle
}

// applyAutoscalers waits until the previous pods have stopped: pods of the role build start
// without support for on-demand builders.
func (w *world) applyAutoscalers(ctx context.Context) error {
	if _, err := w.kubectl(ctx, "apply", "-k", filepath.Join(w.repo, "deploy", "k8s", "overlays", "e2e-autoscaling")); err != nil {
		return err
	}
	if err := w.settled(ctx); err != nil {
		return err
	}
	return w.until(ctx, "the end of old pods", 5*time.Minute, func() error { return w.noneGoes(ctx) })
}

// scale requests three images whose builds take the number of seconds in long, and then three
// with short builds. When the short builds have ended, there is one builder too many.
func scale(ctx context.Context, w *world, long int) (string, error) {
	if err := w.builders(ctx, 0, 0); err != nil {
		return "", err
	}
	began := time.Now()
	ended := make(chan error, 1)
	waiting, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	longs := w.submitAll(ctx, "long", long)
	go func() { ended <- <-longs; stop(errIdle) }()
	victim, running, err := w.scaleDown(waiting)
	if err != nil {
		if context.Cause(waiting) == errIdle { //nolint:errorlint // the very value
			err = errors.Join(errIdle, <-ended)
		}
		return "", err
	}
	// The log is deleted with the pod.
	said, err := w.kubectl(ctx, "-n", "slipway", "logs", "-f", victim)
	if err != nil {
		return "", err
	}
	if err := <-ended; err != nil {
		return "", fmt.Errorf("a long build: %w", err)
	}
	took := time.Since(began)
	if starts, ends := strings.Count(said, "Worker starts a build"), strings.Count(said, "Worker ended a build"); starts != ends {
		return "", fmt.Errorf("the builder that was stopped started %d builds and ended %d", starts, ends)
	}
	idle := time.Now()
	err = w.builders(ctx, 0, 0)
	return fmt.Sprintf("0 → 3 builders for 6 builds; one was stopped with %d running, and finished them; all 6 pulled after %.0f s (the longest takes %d s); 0 builders %.0f s later",
		running, took.Seconds(), long, time.Since(idle).Seconds()), err
}

// scaleDown adds short builds to the running long ones, and waits until the autoscaler stops a
// builder. It returns the builder's name and the number of its long builds.
func (w *world) scaleDown(ctx context.Context) (name string, running int, err error) {
	had, err := w.mark(ctx)
	if err != nil {
		return "", 0, err
	}
	began, shorts := time.Now(), w.submitAll(ctx, "short", short)
	if err := w.builders(ctx, builds, 100); err != nil {
		return "", 0, err
	}
	three := time.Since(began)
	if err := <-shorts; err != nil {
		return "", 0, fmt.Errorf("a short build: %w", err)
	}
	fmt.Printf("%d builders after %.0f s, the short builds ended after %.0f s\n", builds, three.Seconds(), time.Since(began).Seconds())
	err = w.until(ctx, "a builder to be stopped", 10*time.Minute, func() error {
		pods, err := w.pods(ctx, "app.kubernetes.io/component=builder")
		if err != nil {
			return err
		}
		i := slices.IndexFunc(pods, func(p pod) bool { return p.Metadata.DeletionTimestamp != "" })
		if i < 0 {
			return errors.New("no builder is being stopped")
		}
		name = pods[i].Metadata.Name
		return nil
	})
	if err == nil && had[name] == 0 {
		err = fmt.Errorf("%w: %s had none, the marked ones had %v", errIdle, name, had)
	}
	return name, had[name], err
}

// mark waits until the builders run all long builds. Then it gives each builder a deletion
// cost, so that the autoscaler stops the busiest first, and returns the builders' numbers of
// builds.
func (w *world) mark(ctx context.Context) (map[string]int, error) {
	var had map[string]int
	err := w.until(ctx, "the long builds to run", 5*time.Minute, func() (err error) {
		had, err = w.running(ctx)
		n := 0
		for _, one := range had {
			n += one
		}
		if err == nil && n != builds {
			err = fmt.Errorf("%d run as far as Prometheus knows: %v", n, had)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	pods, err := w.pods(ctx, "app.kubernetes.io/component=builder")
	if err != nil {
		return nil, err
	}
	for _, p := range pods {
		name := p.Metadata.Name
		if _, err := w.kubectl(ctx, "-n", "slipway", "annotate", "pod", name, fmt.Sprintf("controller.kubernetes.io/pod-deletion-cost=%d", -had[name])); err != nil {
			return nil, err
		}
	}
	return had, nil
}

// noneGoes returns an error while a pod is being stopped.
func (w *world) noneGoes(ctx context.Context) error {
	pods, err := w.pods(ctx, "app.kubernetes.io/name=slipway")
	for _, p := range pods {
		if p.Metadata.DeletionTimestamp != "" {
			err = fmt.Errorf("%s is being stopped", p.Metadata.Name)
		}
	}
	return err
}

// measure starts Prometheus and the adapter that serves its metrics to autoscalers.
func (w *world) measure(ctx context.Context) error {
	targets, manifests := filepath.Join(w.dir, "targets"), filepath.Join(w.dir, "monitoring.yaml")
	err := errors.Join(os.MkdirAll(targets, 0o750), os.Chmod(targets, 0o755), //nolint:gosec // Prometheus reads it
		render("files/monitoring.yaml", manifests, object{"Targets": targets}))
	if err != nil {
		return err
	}
	go w.discover(ctx, filepath.Join(targets, "pods.json"))
	if _, err := w.kubectl(ctx, "apply", "-f", manifests); err != nil {
		return err
	}
	rules := filepath.Join(w.repo, "deploy", "k8s", "components", "autoscaling-hpa", "adapter.yaml")
	_, err = w.kubectl(ctx, "-n", "monitoring", "delete", "configmap", "adapter", "--ignore-not-found")
	_, err2 := w.kubectl(ctx, "-n", "monitoring", "create", "configmap", "adapter", "--from-file=config.yaml="+rules)
	if err := errors.Join(err, err2); err != nil {
		return err
	}
	_, err = w.kubectl(ctx, "-n", "monitoring", "rollout", "status", "deployment/adapter", "--timeout=5m")
	_, err2 = w.kubectl(ctx, "-n", "monitoring", "rollout", "status", "deployment/prometheus", "--timeout=5m")
	return errors.Join(err, err2)
}

// discover writes the pods to Prometheus' target file once a second.
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
			fmt.Fprintln(os.Stderr, "writing the targets of Prometheus:", err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(time.Second):
		}
	}
}

// submitAll requests three images whose builds take some seconds each, and pulls them. The
// channel receives the result when all are pulled.
func (w *world) submitAll(ctx context.Context, name string, seconds int) <-chan error {
	done, all := make(chan error, builds), make(chan error, 1)
	for i := range builds {
		go func() {
			done <- buildSteps(ctx, w, fmt.Sprintf("sleep %d; echo %s-%d-%d > /made", seconds, name, seconds, i))
		}()
	}
	go func() {
		var err error
		for range builds {
			err = errors.Join(err, <-done)
		}
		all <- err
	}()
	return all
}

// builders waits until the number of ready builders has reached least, and the number of all
// builders does not exceed most.
func (w *world) builders(ctx context.Context, least, most int) error {
	return w.until(ctx, fmt.Sprintf("%d builders", least), 10*time.Minute, func() error {
		pods, err := w.pods(ctx, "app.kubernetes.io/component=builder")
		ready := slices.DeleteFunc(slices.Clone(pods), func(p pod) bool { return !p.ready() })
		if err == nil && (len(ready) < least || len(pods) > most) {
			err = fmt.Errorf("there are %d, %d of them ready", len(pods), len(ready))
		}
		return err
	})
}

// running queries Prometheus for the number of running builds of each builder, all at the same time.
// A builder that has just started is missing. If a scrape fails on a busy machine, its series ends,
// so recent samples count as well.
func (w *world) running(ctx context.Context) (map[string]int, error) {
	ip, err := w.kubectl(ctx, "-n", "monitoring", "get", "service", "prometheus-operated", "-o", "jsonpath={.spec.clusterIP}")
	if err != nil {
		return nil, err
	}
	query := url.QueryEscape("sum by (pod) (last_over_time(slipway_builder_running[1m]))")
	raw, err := w.client.get(ctx, "http://"+ip+":9090/api/v1/query?query="+query, "")
	if err != nil {
		return nil, err
	}
	var answer struct {
		Data struct {
			Result []struct {
				Metric struct{ Pod string }
				Value  [2]any
			}
		}
	}
	if err := json.Unmarshal(raw, &answer); err != nil {
		return nil, err
	}
	had := map[string]int{}
	for _, r := range answer.Data.Result {
		if had[r.Metric.Pod], err = strconv.Atoi(fmt.Sprint(r.Value[1])); err != nil {
			return nil, err
		}
	}
	return had, nil
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

// pods returns the pods of Slipway with a label.
func (w *world) pods(ctx context.Context, label string) ([]pod, error) {
	out, err := w.kubectl(ctx, "-n", "slipway", "get", "pods", "-l", label, "-o", "json")
	if err != nil {
		return nil, err
	}
	var list struct{ Items []pod }
	err = json.Unmarshal([]byte(out), &list)
	return list.Items, err
}

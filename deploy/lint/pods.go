package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/goccy/go-yaml"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/policy"
)

// exempt is the namespace of BuildKit, which starts the containers of builds and therefore
// cannot meet the restricted standard.
const exempt = "slipway-buildkit"

// A workload is the checked part of a manifest: a namespace, or an object that creates pods.
type workload struct {
	Kind     string
	Metadata metav1.ObjectMeta
	Spec     struct{ Template *corev1.PodTemplateSpec }
}

// checkPods evaluates the pods of manifests against the restricted Pod Security Standard, as
// the API server does at admission, and checks that their namespaces enforce it. Every
// container must have a memory limit. It returns the number of objects that create pods.
func checkPods(manifests []byte) (int, error) {
	evaluator, err := policy.NewEvaluator(policy.DefaultChecks(), nil)
	if err != nil {
		return 0, err
	}
	level := api.LevelVersion{Level: api.LevelRestricted, Version: api.LatestVersion()}
	var problems []error
	n := 0
	decode := yaml.NewDecoder(bytes.NewReader(manifests))
	for {
		var o object
		switch err := decode.Decode(&o); {
		case errors.Is(err, io.EOF):
			return n, errors.Join(problems...)
		case err != nil:
			return n, err
		}
		raw, err := json.Marshal(o)
		if err != nil {
			return n, err
		}
		var w workload
		if err := json.Unmarshal(raw, &w); err != nil {
			return n, err
		}
		name := w.Kind + " " + w.Metadata.Name
		if w.Kind == "Namespace" && w.Metadata.Name != exempt && w.Metadata.Labels[api.EnforceLevelLabel] != string(api.LevelRestricted) {
			problems = append(problems, fmt.Errorf("%s lacks the label %s=%s", name, api.EnforceLevelLabel, api.LevelRestricted))
		}
		if w.Spec.Template == nil {
			continue
		}
		n++
		spec := &w.Spec.Template.Spec
		problems = append(problems, unlimited(name, spec))
		if w.Metadata.Namespace == exempt {
			continue
		}
		for _, r := range evaluator.EvaluatePod(level, &w.Spec.Template.ObjectMeta, spec) {
			if !r.Allowed {
				problems = append(problems, fmt.Errorf("%s: %s: %s", name, r.ForbiddenReason, r.ForbiddenDetail))
			}
		}
	}
}

// unlimited reports containers without a memory limit. slipwayd derives its own limits from its
// container's, and rejects work before the kernel would kill it.
func unlimited(name string, spec *corev1.PodSpec) error {
	var problems []error
	for _, c := range append(spec.InitContainers, spec.Containers...) {
		if c.Resources.Limits.Memory().IsZero() {
			problems = append(problems, fmt.Errorf("%s: the container %s has no memory limit", name, c.Name))
		}
	}
	return errors.Join(problems...)
}

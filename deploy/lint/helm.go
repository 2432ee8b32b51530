package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml"
)

const helm = "helm.sh/helm/v3/cmd/helm@v3.19.0"

// checkChart renders the chart of helm/ with each of its values files, and compares it with the
// overlay of the same name: their objects must be equal.
func checkChart(ctx context.Context, dir, schemas string, out io.Writer) error {
	chart := filepath.Join(dir, "helm", "slipway")
	values, err := filepath.Glob(filepath.Join(dir, "helm", "values", "*.yaml"))
	if err != nil || len(values) == 0 {
		return errors.Join(err, errors.New("the chart has no values files"))
	}
	var problems []error
	for _, file := range values {
		name := strings.TrimSuffix(filepath.Base(file), ".yaml")
		fromChart, err := tool(ctx, nil, helm, "template", "slipway", chart, "--namespace", "slipway", "--values", file, "--kube-version", "v1.36.0")
		if err != nil {
			return err
		}
		fromOverlay, err := tool(ctx, nil, kustomize, "build", filepath.Join(dir, "k8s", "overlays", name))
		if err != nil {
			return err
		}
		summary, invalid := tool(ctx, fromChart, kubeconform, "-strict", "-summary", "-schema-location",
			schemas+"/{{.ResourceKind}}{{.KindSuffix}}.json", "-")
		if err := errors.Join(invalid, sameObjects(fromOverlay, fromChart)); err != nil {
			problems = append(problems, fmt.Errorf("the chart with %s: %w", filepath.Base(file), err))
		}
		fmt.Fprintf(out, "the chart, %s: %s", name, summary)
	}
	return errors.Join(problems...)
}

// sameObjects reports the differences between the objects of the chart and those of the
// overlay.
func sameObjects(overlay, chart []byte) error {
	want, err := objects(overlay)
	if err != nil {
		return fmt.Errorf("the overlay: %w", err)
	}
	// Namespaces are created before the release, with their Secrets, by secrets.sh.
	delete(want, "Namespace slipway/slipway")
	delete(want, "Namespace slipway-buildkit/slipway-buildkit")
	got, err := objects(chart)
	if err != nil {
		return err
	}
	var problems []error
	for _, name := range slices.Sorted(maps.Keys(want)) {
		if got[name] == nil {
			problems = append(problems, fmt.Errorf("%s is missing", name))
			continue
		}
		problems = append(problems, differences(name, want[name], got[name])...)
	}
	for _, name := range slices.Sorted(maps.Keys(got)) {
		if want[name] == nil {
			problems = append(problems, fmt.Errorf("%s is not in the overlay", name))
		}
	}
	return errors.Join(problems...)
}

// objects parses manifests. The result maps kind, namespace and name to each object, without
// the labels of the tool that created it.
func objects(manifests []byte) (map[string]object, error) {
	out := map[string]object{}
	decode := yaml.NewDecoder(bytes.NewReader(generated.ReplaceAll(manifests, []byte("$1"))))
	for {
		var o object
		switch err := decode.Decode(&o); {
		case errors.Is(err, io.EOF):
			return out, nil
		case err != nil:
			return nil, err
		case o == nil:
			continue
		}
		meta, _ := o["metadata"].(object)
		namespace, _ := meta["namespace"].(string)
		if o["kind"] == "Namespace" {
			namespace, _ = meta["name"].(string)
		}
		name := fmt.Sprintf("%v %s/%v", o["kind"], namespace, meta["name"])
		if out[name] != nil {
			return nil, fmt.Errorf("%s is defined twice", name)
		}
		plain(o)
		out[name] = o
	}
}

// generated matches kustomize's names of ConfigMaps, which end in a hash of their contents. The
// chart has such a hash in the annotations of its pods.
var generated = regexp.MustCompile(`\b(slipway|slipway-registries|slipway-dashboards|buildkitd|nats|image-registry)-[2456789bcdfghkmt]{10}\b`)

// plain removes fields that only one of the tools writes, and sorts lists whose order has no
// effect by the names of their entries.
func plain(o object) {
	for key, value := range o {
		switch v := value.(type) {
		case object:
			if key == "labels" || key == "annotations" {
				for _, k := range []string{"helm.sh/chart", "app.kubernetes.io/managed-by", "checksum/settings"} {
					delete(v, k)
				}
			}
			plain(v)
			if len(v) == 0 && (key == "labels" || key == "annotations") {
				delete(o, key)
			}
		case []any:
			o[key] = plainList(v)
			if key == "values" { // of a selector, which is a set
				slices.SortFunc(v, func(a, b any) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
			}
		case string:
			// the chart writes file modes in octal
			if mode, err := strconv.ParseUint(v, 8, 32); err == nil && key == "defaultMode" {
				o[key] = mode
			}
		}
	}
}

func plainList(list []any) any {
	named := object{}
	for _, entry := range list {
		e, ok := entry.(object)
		if !ok {
			continue
		}
		plain(e)
		if name, ok := e["name"].(string); ok {
			path, _ := e["mountPath"].(string)
			named[strings.TrimSpace(name+" "+path)] = e
		}
	}
	if len(named) == len(list) && len(list) > 0 {
		return named
	}
	return list
}

// differences returns the paths at which two values differ.
func differences(path string, want, got any) []error {
	a, isObject := want.(object)
	b, both := got.(object)
	if !isObject || !both {
		if fmt.Sprint(want) == fmt.Sprint(got) {
			return nil
		}
		return []error{fmt.Errorf("%s is %v in the overlay, %v in the chart", path, want, got)}
	}
	var out []error
	keys := map[string]bool{}
	for k := range a {
		keys[k] = true
	}
	for k := range b {
		keys[k] = true
	}
	for _, k := range slices.Sorted(maps.Keys(keys)) {
		out = append(out, differences(path+"."+k, a[k], b[k])...)
	}
	return out
}

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

// checkChart renders the chart of helm/ with each of its files of values, and
// holds it against the overlay of the same name: both make the same objects.
func checkChart(ctx context.Context, dir, schemas string, out io.Writer) error {
	chart := filepath.Join(dir, "helm", "slipway")
	values, err := filepath.Glob(filepath.Join(dir, "helm", "values", "*.yaml"))
	if err != nil || len(values) == 0 {
		return errors.Join(err, errors.New("there are no values for the chart"))
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

// sameObjects says where the chart's objects are not those of the overlay.
func sameObjects(overlay, chart []byte) error {
	want, err := objects(overlay)
	if err != nil {
		return fmt.Errorf("the overlay: %w", err)
	}
	// Namespaces are there before a release, with their Secrets: secrets.sh makes them.
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

// objects reads manifests: each by its kind, namespace and name, without what says
// which tool made it.
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
			return nil, fmt.Errorf("%s is there twice", name)
		}
		plain(o)
		out[name] = o
	}
}

// generated are kustomize's names of ConfigMaps: it adds a hash of what is in them,
// as the chart has one in its pods' annotations.
var generated = regexp.MustCompile(`\b(slipway|slipway-registries|slipway-dashboards|buildkitd|nats|image-registry)-[2456789bcdfghkmt]{10}\b`)

// plain takes out what only one of both tools writes, and has lists whose order is of
// no account by the names of their entries.
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
			// Modes of files are octal for whoever writes them.
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

// differences lists where two values are not the same, by their path.
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

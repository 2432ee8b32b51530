package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"
)

// kubernetes is the release against whose API the manifests are validated.
const kubernetes = "k8s.io/kubernetes@v1.36.3"

// definitions maps modules to the folders of their custom resource definitions.
func definitions() map[string]string {
	return map[string]string{
		"github.com/kedacore/keda/v2@v2.21.0":                        "config/crd/bases",
		"sigs.k8s.io/gateway-api@v1.4.0":                             "config/crd/standard",
		"github.com/prometheus-operator/prometheus-operator@v0.85.0": "example/prometheus-operator-crd",
	}
}

type object = map[string]any

// makeSchemas writes a strict schema for every kind into dir, with the file names that
// kubeconform expects. It returns the number of schemas.
func makeSchemas(ctx context.Context, dir string) (int, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil { //nolint:gosec // nothing secret
		return 0, err
	}
	root, err := module(ctx, kubernetes)
	if err != nil {
		return 0, err
	}
	raw, err := os.ReadFile(filepath.Join(root, "api/openapi-spec/swagger.json"))
	if err != nil {
		return 0, err
	}
	var api struct{ Definitions map[string]object }
	if err := json.Unmarshal(raw, &api); err != nil {
		return 0, fmt.Errorf("reading swagger.json: %w", err)
	}
	c := converter{api.Definitions}
	n, err := c.builtin(dir)
	for mod, sub := range definitions() {
		var more int
		root, err2 := module(ctx, mod)
		if err2 == nil {
			more, err2 = c.custom(dir, filepath.Join(root, sub))
		}
		n, err = n+more, errors.Join(err, err2)
	}
	return n, err
}

// module returns the folder of a module's sources.
func module(ctx context.Context, mod string) (string, error) {
	cmd := exec.CommandContext(ctx, "go", "mod", "download", "-json", mod)
	cmd.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=")
	cmd.Dir = os.TempDir()
	raw, err := cmd.Output()
	var info struct{ Dir, Error string }
	if err2 := json.Unmarshal(raw, &info); err2 != nil || info.Dir == "" {
		return "", fmt.Errorf("downloading %s: %s: %w", mod, info.Error, errors.Join(err, err2))
	}
	return info.Dir, nil
}

// converter converts OpenAPI definitions to self-contained schemas.
type converter struct{ definitions map[string]object }

func (c converter) builtin(dir string) (int, error) {
	n := 0
	for name, def := range c.definitions {
		kinds, _ := def["x-kubernetes-group-version-kind"].([]any)
		if len(kinds) > 3 { // DeleteOptions and similar kinds, which every group has
			continue
		}
		for _, k := range kinds {
			gvk, _ := k.(object)
			group, version, kind := text(gvk["group"]), text(gvk["version"]), text(gvk["kind"])
			schema := c.object(def, []string{name})
			properties := properties(schema)
			properties["apiVersion"] = object{"enum": []string{strings.TrimPrefix(group+"/"+version, "/")}}
			properties["kind"] = object{"enum": []string{kind}}
			required, _ := schema["required"].([]any)
			schema["required"] = append(slices.Clone(required), "apiVersion", "kind")
			if err := write(dir, kind, group, version, schema); err != nil {
				return n, err
			}
			n++
		}
	}
	return n, nil
}

func (c converter) custom(dir, sources string) (int, error) {
	files, err := filepath.Glob(filepath.Join(sources, "*.yaml"))
	if err != nil || len(files) == 0 {
		return 0, errors.Join(err, fmt.Errorf("no definitions in %s", sources))
	}
	n := 0
	for _, f := range files {
		raw, err := os.ReadFile(f)
		if err != nil {
			return n, err
		}
		var crd struct {
			Kind string
			Spec struct {
				Group    string
				Names    struct{ Kind string }
				Versions []struct {
					Name   string
					Schema struct {
						OpenAPIV3Schema object `yaml:"openAPIV3Schema"`
					}
				}
			}
		}
		if err := yaml.Unmarshal(raw, &crd); err != nil {
			return n, fmt.Errorf("%s: %w", f, err)
		}
		if crd.Kind != "CustomResourceDefinition" {
			continue
		}
		for _, v := range crd.Spec.Versions {
			schema := c.object(v.Schema.OpenAPIV3Schema, nil)
			maps.Copy(properties(schema), object{
				"apiVersion": object{"type": "string"}, "kind": object{"type": "string"},
				"metadata": c.any(object{"$ref": "#/definitions/io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"}, nil),
			})
			if err := write(dir, crd.Spec.Names.Kind, crd.Spec.Group, v.Name, schema); err != nil {
				return n, err
			}
			n++
		}
	}
	return n, nil
}

// any converts one schema; stack lists the definitions that contain it.
func (c converter) any(v any, stack []string) any {
	switch v := v.(type) {
	case []any:
		out := make([]any, len(v))
		for i, x := range v {
			out[i] = c.any(x, stack)
		}
		return out
	case object:
		return c.object(v, stack)
	}
	return v
}

func (c converter) object(s object, stack []string) object {
	if ref := text(s["$ref"]); ref != "" {
		name := ref[strings.LastIndex(ref, "/")+1:]
		if slices.Contains(stack, name) {
			return object{} // the definition of JSON schema is recursive
		}
		return c.object(c.definitions[name], append(slices.Clone(stack), name))
	}
	switch {
	case strings.HasPrefix(text(s["description"]), "Quantity is a fixed-point"):
		return object{"type": []string{"string", "number"}}
	case text(s["format"]) == "int-or-string", s["x-kubernetes-int-or-string"] == true:
		return object{"type": []string{"string", "integer"}}
	}
	out := object{}
	for k, v := range s {
		switch k {
		case "properties":
			props := object{}
			named, _ := v.(object)
			for name, p := range named {
				props[name] = c.any(p, stack)
			}
			out[k] = props
		case "items", "additionalProperties", "allOf", "oneOf", "anyOf", "not":
			out[k] = c.any(v, stack)
		case "type", "enum", "required", "minimum", "maximum", "minLength", "maxLength", "minItems", "maxItems", "pattern":
			out[k] = v
		}
	}
	if out["properties"] != nil && out["additionalProperties"] == nil && s["x-kubernetes-preserve-unknown-fields"] != true {
		out["additionalProperties"] = false
	}
	return out
}

func properties(schema object) object {
	if p, ok := schema["properties"].(object); ok {
		return p
	}
	p := object{}
	schema["properties"] = p
	return p
}

func write(dir, kind, group, version string, schema object) error {
	name := kind
	if short, _, _ := strings.Cut(group, "."); short != "" {
		name += "-" + short
	}
	raw, err := json.Marshal(schema)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, strings.ToLower(name+"-"+version)+".json"), raw, 0o600)
}

func text(v any) string {
	s, _ := v.(string)
	return s
}

package layering

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/containerd/platforms"
	"github.com/opencontainers/go-digest"

	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/limits"
	"slipway.dev/services/internal/oci"
)

// defaultPath is the PATH of containers whose image sets none.
const defaultPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// history is an entry of an image's history.
type history struct {
	Created    string `json:"created,omitempty"`
	CreatedBy  string `json:"created_by,omitempty"`
	EmptyLayer bool   `json:"empty_layer,omitempty"`
}

// baseEnv returns the variables of the base image.
func (e Environment) baseEnv() ([]string, error) {
	var doc struct {
		Config struct{ Env []string }
	}
	err := oci.Decode(e.Base.Config, &doc)
	return doc.Config.Env, err
}

// config returns the configuration of the base image, changed for the environment: env are
// the variables of its containers, and refused the activation scripts that have no effect.
// Unknown fields are preserved.
func (e Environment) config(layers []Layer, labels map[string]string, env []string, refused []refusal) (raw []byte, err error) {
	var doc map[string]json.RawMessage
	if err := oci.Decode(e.Base.Config, &doc); err != nil {
		return nil, err
	}
	var known struct {
		OS           string
		Architecture string
		RootFS       struct {
			DiffIDs []digest.Digest `json:"diff_ids"`
		}
		History  []json.RawMessage
		Features []string `json:"os.features"`
	}
	if err := oci.Decode(e.Base.Config, &known); err != nil {
		return nil, err
	}
	if known.OS != e.Platform.OS || known.Architecture != e.Platform.Architecture {
		return nil, fmt.Errorf("it is for %.40s/%.40s instead of %s", known.OS, known.Architecture, platforms.Format(e.Platform))
	}
	created, ids := labels["org.opencontainers.image.created"], known.RootFS.DiffIDs
	for _, l := range layers {
		line, err := json.Marshal(history{Created: created, CreatedBy: l.By})
		if err != nil {
			return nil, err
		}
		ids, known.History = append(ids, l.DiffID), append(known.History, line)
	}
	runtime, err := runtime(doc["config"], labels, env, refused)
	if err != nil {
		return nil, err
	}
	if e.Compression.isErofs() {
		known.Features = oci.WithErofs(known.Features)
		if doc["os.features"], err = json.Marshal(known.Features); err != nil {
			return nil, err
		}
	}
	for name, value := range map[string]any{
		"created": created, "config": runtime, "history": known.History,
		"rootfs": map[string]any{"type": "layers", "diff_ids": ids},
	} {
		if doc[name], err = json.Marshal(value); err != nil {
			return nil, err
		}
	}
	return json.Marshal(doc)
}

// runtime returns the field "config" of an image configuration, with which containers
// start.
func runtime(base json.RawMessage, labels map[string]string, env []string, refused []refusal) (map[string]any, error) {
	out := map[string]any{}
	var known struct{ Labels map[string]string }
	if len(base) > 0 && string(base) != "null" {
		if err := json.Unmarshal(base, &out); err != nil {
			return nil, err
		}
		if err := json.Unmarshal(base, &known); err != nil {
			return nil, err
		}
	}
	out["Env"] = env
	all := map[string]string{}
	maps.Copy(all, known.Labels)
	maps.Copy(all, labels)
	delete(all, labelNotActivated) // the label of the base image
	var paths []string
	for _, r := range refused {
		paths = append(paths, r.path)
	}
	if len(paths) > 0 {
		all[labelNotActivated] = fault.Clip(strings.Join(paths, ","), limits.ActivationValue)
	}
	out["Labels"] = all
	return out, nil
}

// labelNotActivated is the label that lists the activation scripts that could not be
// evaluated.
const labelNotActivated = "dev.slipway.conda.activate.unsupported"

// merged returns variables in the format of an image configuration. The variables of the
// base image come first, in their order, except those that are no longer set.
func merged(base []string, set map[string]string) []string {
	var out []string
	left := maps.Clone(set)
	for _, v := range base {
		name, _, is := strings.Cut(v, "=")
		if value, ok := left[name]; ok && is {
			out = append(out, name+"="+value)
			delete(left, name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(left)) {
		out = append(out, name+"="+left[name])
	}
	return out
}

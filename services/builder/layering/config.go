package layering

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/containerd/platforms"
	"github.com/opencontainers/go-digest"

	"slipway.dev/services/internal/conda"
	"slipway.dev/services/internal/oci"
)

// defaultPath is what containers get where an image says nothing.
const defaultPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// history is a line of an image's history.
type history struct {
	Created    string `json:"created,omitempty"`
	CreatedBy  string `json:"created_by,omitempty"`
	EmptyLayer bool   `json:"empty_layer,omitempty"`
}

// config is the base's configuration with the environment on top. What it has that
// is not known here stays.
func (e Environment) config(layers []Layer, labels map[string]string) (raw []byte, notRun []string, err error) {
	var doc map[string]json.RawMessage
	if err := oci.Decode(e.Base.Config, &doc); err != nil {
		return nil, nil, err
	}
	var known struct {
		OS           string
		Architecture string
		RootFS       struct {
			DiffIDs []digest.Digest `json:"diff_ids"`
		}
		History []json.RawMessage
	}
	if err := oci.Decode(e.Base.Config, &known); err != nil {
		return nil, nil, err
	}
	if known.OS != e.Platform.OS || known.Architecture != e.Platform.Architecture {
		return nil, nil, fmt.Errorf("it is for %.40s/%.40s instead of %s", known.OS, known.Architecture, platforms.Format(e.Platform))
	}
	created, ids := labels["org.opencontainers.image.created"], known.RootFS.DiffIDs
	for _, l := range layers {
		line, err := json.Marshal(history{Created: created, CreatedBy: l.By})
		if err != nil {
			return nil, nil, err
		}
		ids, known.History = append(ids, l.DiffID), append(known.History, line)
	}
	runtime, notRun, err := e.runtime(doc["config"], labels)
	if err != nil {
		return nil, nil, err
	}
	for name, value := range map[string]any{
		"created": created, "config": runtime, "history": known.History,
		"rootfs": map[string]any{"type": "layers", "diff_ids": ids},
	} {
		if doc[name], err = json.Marshal(value); err != nil {
			return nil, nil, err
		}
	}
	raw, err = json.Marshal(doc)
	return raw, notRun, err
}

// runtime is what containers start with.
func (e Environment) runtime(base json.RawMessage, labels map[string]string) (map[string]any, []string, error) {
	out := map[string]any{}
	var known struct {
		Env    []string
		Labels map[string]string
	}
	if len(base) > 0 && string(base) != "null" {
		if err := json.Unmarshal(base, &out); err != nil {
			return nil, nil, err
		}
		if err := json.Unmarshal(base, &known); err != nil {
			return nil, nil, err
		}
	}
	set, notRun := variables(e.Packages)
	search := defaultPath
	for _, v := range known.Env {
		if p, ok := strings.CutPrefix(v, "PATH="); ok && p != "" {
			search = p
		}
	}
	set = append(set, "MAMBA_ROOT_PREFIX="+conda.Prefix, "CONDA_PREFIX="+conda.Prefix, "PATH="+conda.Prefix+"/bin:"+search)
	out["Env"] = merged(known.Env, set)
	all := map[string]string{}
	maps.Copy(all, known.Labels)
	maps.Copy(all, labels)
	out["Labels"] = all
	return out, notRun, nil
}

// merged replaces variables where they stand, and adds the others; the last value
// of one counts.
func merged(old, added []string) []string {
	out := slices.Clone(old)
	for _, v := range added {
		name, _, _ := strings.Cut(v, "=")
		at := slices.IndexFunc(out, func(o string) bool { return strings.HasPrefix(o, name+"=") })
		if at >= 0 {
			out[at] = v
		} else {
			out = append(out, v)
		}
	}
	return out
}

package oci

import (
	"encoding/json"
	"strings"
)

// config returns the image config with the augmentation applied, and the layers for its
// architecture.
func (a Augmentation) config(raw []byte) ([]byte, []Layer, error) {
	if err := Check(raw); err != nil {
		return nil, nil, err
	}
	o, err := parseObject(raw)
	if err != nil {
		return nil, nil, err
	}
	var arch string
	if err := json.Unmarshal(orNull(o.get("architecture")), &arch); err != nil {
		return nil, nil, err
	}
	var layers []Layer
	for _, l := range a.Layers {
		if l.Architecture == "" || l.Architecture == arch {
			layers = append(layers, l)
		}
	}
	if err := addToRootFS(o, layers); err != nil {
		return nil, nil, err
	}
	if err := a.setRuntime(o); err != nil {
		return nil, nil, err
	}
	out, err := o.MarshalJSON()
	return out, layers, err
}

func addToRootFS(o *object, layers []Layer) error {
	if len(layers) == 0 {
		return nil
	}
	rootfs, err := parseObject(orEmpty(o.get("rootfs")))
	if err != nil {
		return err
	}
	if rootfs.get("type") == nil {
		if err := rootfs.set("type", "layers"); err != nil {
			return err
		}
	}
	diffIDs, err := elements(rootfs.get("diff_ids"))
	if err != nil {
		return err
	}
	history, err := elements(o.get("history"))
	if err != nil {
		return err
	}
	for _, l := range layers {
		id, err := encode(l.TarDigest)
		if err != nil {
			return err
		}
		diffIDs = append(diffIDs, id)
		entry, err := encode(map[string]string{"created_by": l.created()})
		if err != nil {
			return err
		}
		history = append(history, entry)
	}
	if err := rootfs.set("diff_ids", array(diffIDs)); err != nil {
		return err
	}
	if err := o.set("rootfs", rootfs); err != nil {
		return err
	}
	return o.set("history", array(history))
}

// setRuntime applies the augmentation to the defaults for containers.
func (a Augmentation) setRuntime(o *object) error {
	config, err := parseObject(orEmpty(o.get("config")))
	if err != nil {
		return err
	}
	var old struct{ Entrypoint, Env []string }
	if err := json.Unmarshal(orNull(config.get("Entrypoint")), &old.Entrypoint); err != nil {
		return err
	}
	if err := json.Unmarshal(orNull(config.get("Env")), &old.Env); err != nil {
		return err
	}
	env := mergeEnv(old.Env, a.Env)
	if len(a.Entrypoint) > 0 {
		if env, err = keepEntrypoint(env, old.Entrypoint); err != nil {
			return err
		}
	}
	for _, m := range []struct {
		key   string
		isSet bool
		value any
	}{
		{"Entrypoint", len(a.Entrypoint) > 0, a.Entrypoint},
		{"Cmd", len(a.Cmd) > 0, a.Cmd},
		{"WorkingDir", a.WorkingDir != "", a.WorkingDir},
		{"Env", len(env) > 0, env},
	} {
		if !m.isSet {
			continue
		}
		if err := config.set(m.key, m.value); err != nil {
			return err
		}
	}
	return o.set("config", config)
}

// mergeEnv replaces variables at their position and appends new ones.
func mergeEnv(old, added []string) []string {
	at := map[string]int{}
	out := make([]string, 0, len(old)+len(added)+1)
	for _, list := range [][]string{old, added} {
		for _, kv := range list {
			name, _, _ := strings.Cut(kv, "=")
			if i, ok := at[name]; ok {
				out[i] = kv
				continue
			}
			at[name] = len(out)
			out = append(out, kv)
		}
	}
	return out
}

// keepEntrypoint appends the variable with the replaced entrypoint.
func keepEntrypoint(env, entrypoint []string) ([]string, error) {
	if len(entrypoint) == 0 {
		return env, nil
	}
	value := entrypoint[0]
	if len(entrypoint) > 1 {
		raw, err := encode(entrypoint)
		if err != nil {
			return nil, err
		}
		value = string(raw)
	}
	out := env[:0]
	for _, kv := range env {
		if name, _, _ := strings.Cut(kv, "="); name != entryChain {
			out = append(out, kv)
		}
	}
	return append(out, entryChain+"="+value), nil
}

func orNull(raw json.RawMessage) json.RawMessage {
	if raw == nil {
		return json.RawMessage("null")
	}
	return raw
}

func orEmpty(raw json.RawMessage) json.RawMessage {
	if raw == nil {
		return json.RawMessage("{}")
	}
	return raw
}

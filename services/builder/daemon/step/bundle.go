package step

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// capabilities returns the maximum capabilities of a step: Docker's default capabilities
// except three. NET_RAW can read the traffic of others, MKNOD creates device nodes, and
// AUDIT_WRITE writes to the machine's audit log. apt, useradd, su, sudo, setcap and tar
// need none of them.
func capabilities() []string {
	return []string{
		"CAP_CHOWN", "CAP_DAC_OVERRIDE", "CAP_FOWNER", "CAP_FSETID", "CAP_KILL", "CAP_NET_BIND_SERVICE",
		"CAP_SETFCAP", "CAP_SETGID", "CAP_SETPCAP", "CAP_SETUID", "CAP_SYS_CHROOT",
	}
}

// tracingSocket is the path of BuildKit's own tracing service, which accepts any data.
const tracingSocket = "/dev/otel-grpc.sock"

// object is a JSON object that is changed in part.
type object = map[string]any

// Bundle is the config.json of a container (OCI runtime specification), or the process.json
// of an additional process in it.
type Bundle struct {
	path string
	root object
	// Token is the token that BuildKit has for the build, or "".
	Token string
}

// ReadBundle reads the configuration of a container in a folder.
func ReadBundle(dir string) (*Bundle, error) { return read(filepath.Join(dir, "config.json")) }

// RestrictProcess removes privileges that steps do not need from a process in a file.
func RestrictProcess(path string, noNewPrivileges bool) error {
	b, err := read(path)
	if err != nil {
		return err
	}
	b.restrict(b.root, noNewPrivileges)
	return b.Write()
}

func read(path string) (*Bundle, error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("reading the configuration that BuildKit wrote for a step: %w", err)
	}
	b := &Bundle{path: path}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber() // numbers stay as they are written
	if err := d.Decode(&b.root); err != nil {
		return nil, fmt.Errorf("reading the configuration that BuildKit wrote for a step: %w", err)
	}
	return b, nil
}

// Write replaces the file.
func (b *Bundle) Write() error {
	raw, err := json.Marshal(b.root)
	if err != nil {
		return err
	}
	return os.WriteFile(b.path, raw, 0o600)
}

// Restrict removes privileges that steps do not need from the container, and finds the
// Token. The result network is false if the step must have no network.
func (b *Bundle) Restrict(noNewPrivileges bool) (network bool, err error) {
	process, _ := b.root["process"].(object)
	linux, _ := b.root["linux"].(object)
	if process == nil || linux == nil {
		return false, errors.New("a step without a process")
	}
	b.restrict(process, noNewPrivileges)
	mounts, _ := b.root["mounts"].([]any)
	b.root["mounts"] = slices.DeleteFunc(mounts, func(m any) bool {
		mount, _ := m.(object)
		return mount["destination"] == tracingSocket
	})
	if _, has := namespace(linux, "pid"); !has {
		if err := separate(linux); err != nil {
			return false, err
		}
	}
	path, has := namespace(linux, "network")
	if path != "" {
		return false, errors.New("a step with a foreign network namespace")
	}
	return !has, nil // with a namespace, the runtime creates an empty network
}

// namespace returns the path of a container's namespace of a kind, and whether it has one.
func namespace(linux object, kind string) (path string, has bool) {
	namespaces, _ := linux["namespaces"].([]any)
	for _, n := range namespaces {
		if ns, _ := n.(object); ns["type"] == kind {
			path, _ = ns["path"].(string)
			return path, true
		}
	}
	return "", false
}

// separate isolates a step from processes outside if it has no /proc of its own and so sees
// them. In a PID namespace it cannot signal them, and as root of its own user namespace it
// cannot read their data. Users have the same ids as outside.
func separate(linux object) error {
	namespaces, _ := linux["namespaces"].([]any)
	linux["namespaces"] = append(namespaces, object{"type": "pid"}, object{"type": "user"})
	for key, file := range map[string]string{"uidMappings": "/proc/self/uid_map", "gidMappings": "/proc/self/gid_map"} {
		raw, err := os.ReadFile(file)
		if err != nil {
			return fmt.Errorf("reading the user mappings: %w", err)
		}
		var all []any
		for line := range strings.Lines(string(raw)) {
			var first, outside, count uint32
			if _, err := fmt.Sscan(line, &first, &outside, &count); err != nil {
				return fmt.Errorf("reading the user mappings: %w", err)
			}
			all = append(all, object{"containerID": first, "hostID": first, "size": count})
		}
		linux[key] = all
	}
	return nil
}

// Place sets the container's control group and, unless it is "", the network that it joins.
func (b *Bundle) Place(parent, id, network string) {
	linux, _ := b.root["linux"].(object)
	if parent == "" {
		delete(linux, "cgroupsPath")
	} else {
		linux["cgroupsPath"] = filepath.Join(parent, id)
	}
	if network == "" {
		return
	}
	namespaces, _ := linux["namespaces"].([]any)
	linux["namespaces"] = append(namespaces, object{"type": "network", "path": network})
}

func (b *Bundle) restrict(process object, noNewPrivileges bool) {
	keep := capabilities()
	sets, _ := process["capabilities"].(object)
	for set, have := range sets {
		list, _ := have.([]any)
		sets[set] = slices.DeleteFunc(list, func(c any) bool {
			name, _ := c.(string)
			return !slices.Contains(keep, name)
		})
	}
	if noNewPrivileges {
		process["noNewPrivileges"] = true
	}
	env, _ := process["env"].([]any)
	process["env"] = slices.DeleteFunc(env, func(e any) bool {
		text, _ := e.(string)
		name, value, _ := strings.Cut(text, "=")
		if strings.EqualFold(name, "ALL_PROXY") && strings.HasPrefix(value, TokenPrefix) {
			b.Token = value // BuildKit adds it last, after the image's variables
			return true
		}
		return name == "OTEL_TRACES_EXPORTER" || name == "TRACEPARENT" || name == "TRACESTATE" ||
			strings.HasPrefix(name, "OTEL_EXPORTER_OTLP_TRACES_")
	})
}

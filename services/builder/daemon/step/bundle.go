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

// capabilities are those that a step has at most. Of Docker's default, three are
// missing: NET_RAW, which reads what others send; MKNOD, which makes device nodes;
// and AUDIT_WRITE, which writes to the machine's audit log. apt, useradd, su, sudo,
// setcap and tar need none of them.
func capabilities() []string {
	return []string{
		"CAP_CHOWN", "CAP_DAC_OVERRIDE", "CAP_FOWNER", "CAP_FSETID", "CAP_KILL", "CAP_NET_BIND_SERVICE",
		"CAP_SETFCAP", "CAP_SETGID", "CAP_SETPCAP", "CAP_SETUID", "CAP_SYS_CHROOT",
	}
}

// tracingSocket is where BuildKit puts its own service for traces, which takes
// whatever it is sent.
const tracingSocket = "/dev/otel-grpc.sock"

// object is a JSON object, of which we change a part and keep the rest.
type object = map[string]any

// Bundle is the config.json of a container (OCI runtime specification), or the
// process.json of one more process in it.
type Bundle struct {
	path string
	root object
	// Token is what BuildKit was given for the build; "" where it was given none.
	Token string
}

// ReadBundle reads the configuration of a container in a folder.
func ReadBundle(dir string) (*Bundle, error) { return read(filepath.Join(dir, "config.json")) }

// RestrictProcess takes from a process in a file what no step needs.
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
		return nil, fmt.Errorf("reading what BuildKit wrote of a step: %w", err)
	}
	b := &Bundle{path: path}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber() // a number stays as it is written
	if err := d.Decode(&b.root); err != nil {
		return nil, fmt.Errorf("reading what BuildKit wrote of a step: %w", err)
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

// Restrict takes from the container what no step needs, and finds the Token.
// network is false where the step is to have none.
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
		return false, errors.New("a step with somebody else's network")
	}
	return !has, nil // the runtime makes an empty one
}

// namespace returns the path of a container's namespace of a kind, and whether it
// has one at all.
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

// separate keeps a step from the processes outside, which it sees where the machine
// allows it no /proc of its own: in a namespace of processes it can send them no
// signals, and as root of a user namespace of its own it cannot look into them.
// Users have the numbers that they have outside.
func separate(linux object) error {
	namespaces, _ := linux["namespaces"].([]any)
	linux["namespaces"] = append(namespaces, object{"type": "pid"}, object{"type": "user"})
	for key, file := range map[string]string{"uidMappings": "/proc/self/uid_map", "gidMappings": "/proc/self/gid_map"} {
		raw, err := os.ReadFile(file)
		if err != nil {
			return fmt.Errorf("reading which users there are: %w", err)
		}
		var all []any
		for line := range strings.Lines(string(raw)) {
			var first, outside, count uint32
			if _, err := fmt.Sscan(line, &first, &outside, &count); err != nil {
				return fmt.Errorf("reading which users there are: %w", err)
			}
			all = append(all, object{"containerID": first, "hostID": first, "size": count})
		}
		linux[key] = all
	}
	return nil
}

// Place says where the container's control group goes and, unless it is "", which
// network it joins.
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
			b.Token = value // BuildKit adds it last, after those of the image
			return true
		}
		return name == "OTEL_TRACES_EXPORTER" || name == "TRACEPARENT" || name == "TRACESTATE" ||
			strings.HasPrefix(name, "OTEL_EXPORTER_OTLP_TRACES_")
	})
}

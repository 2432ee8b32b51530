package layering

import (
	"archive/tar"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"slipway.dev/services/conda/spec"
)

// own writes the environment's own layer: conda-meta/history, from which conda and mamba
// read the requested packages; conda-meta/state, from which conda reads the environment's
// variables; the lock; and a profile for login shells. base and env are the variables of
// the base image and of the environment.
func (e Environment) own(out io.Writer, lock []byte, base, env []string) (Layer, error) {
	t, err := newTarball(out, spec.Prefix, e.Compression.encoding(false, e.Scratch))
	if err != nil {
		return Layer{}, err
	}
	files, err := e.ownFiles(lock, base, env)
	if err != nil {
		return Layer{}, err
	}
	for _, f := range files {
		h := &tar.Header{Typeflag: tar.TypeReg, Name: f.name, Mode: 0o644, ModTime: e.created(), Size: int64(len(f.text))}
		if err := t.entry(h, strings.NewReader(f.text)); err != nil {
			return Layer{}, err
		}
	}
	p, err := t.close()
	p.By = spec.EnvironmentHistory
	return p.Layer, err
}

// An ownFile is a file of an environment that is in no package, with its path from the root.
type ownFile struct{ name, text string }

// ownFiles returns the files of the environment's own layer.
func (e Environment) ownFiles(lock []byte, base, env []string) ([]ownFile, error) {
	meta := strings.TrimPrefix(spec.Prefix, "/") + "/conda-meta/"
	files := []ownFile{{meta + "history", e.history()}}
	if len(e.Variables) > 0 {
		state, err := json.Marshal(map[string]any{"version": 1, "env_vars": e.Variables})
		if err != nil {
			return nil, err
		}
		files = append(files, ownFile{meta + "state", string(state) + "\n"})
	}
	return append(files, ownFile{spec.LockFile, string(lock)}, ownFile{profilePath, profile(pathOf(base), pathOf(env))}), nil
}

// profilePath is read by login shells, which first reset PATH. Without it, `bash -lc` finds
// no program of the environment.
const profilePath = "etc/profile.d/slipway-conda.sh"

// profile returns a script that adds to PATH the folders that the environment adds to the
// base image's PATH, unless PATH has them: the folders before the base image's go to the
// front, the others to the end.
func profile(base, environment string) string {
	before := strings.Split(base, ":")
	var first []string
	last := ""
	isFirst := true
	for _, folder := range strings.Split(environment, ":") {
		switch {
		case slices.Contains(before, folder):
			isFirst = false
		case isFirst:
			first = append(first, folder)
		default:
			last += ifMissing(folder, "$PATH:"+folder, `"$PATH":`+shellQuoted(folder))
		}
	}
	slices.Reverse(first) // each goes before the previous one
	var b strings.Builder
	for _, folder := range first {
		b.WriteString(ifMissing(folder, folder+":$PATH", shellQuoted(folder)+`:"$PATH"`))
	}
	return b.String() + last
}

// ifMissing returns shell code that sets PATH if it lacks a folder. The new value is plain
// if the folder's name needs no quotes, and quoted otherwise.
func ifMissing(folder, plain, quoted string) string {
	pattern, value := folder, `"`+plain+`"`
	if strings.Trim(folder, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/._+-") != "" {
		pattern, value = shellQuoted(folder), quoted
	}
	return "case \":$PATH:\" in\n*:" + pattern + ":*) ;;\n*) PATH=" + value + " && export PATH ;;\nesac\n"
}

func shellQuoted(text string) string { return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'" }

// pathOf returns the value of PATH; defaultPath if it is not set.
func pathOf(env []string) string {
	path := ""
	for _, v := range env {
		if value, is := strings.CutPrefix(v, "PATH="); is {
			path = value
		}
	}
	return cmp.Or(path, defaultPath)
}

// history returns one revision that adds all packages.
func (e Environment) history() string {
	var b strings.Builder
	fmt.Fprintf(&b, "==> %s <==\n# cmd: slipway\n", e.created().Format("2006-01-02 15:04:05"))
	packages, _ := spec.Split(e.Records) // conda finds wheels by their own metadata
	for _, r := range packages {
		fmt.Fprintf(&b, "+%s::%s-%s-%s\n", channelOf(r), r.Name, r.Version, r.Build)
	}
	var specs []string
	for _, s := range e.Specs {
		specs = append(specs, quoted(s))
	}
	fmt.Fprintf(&b, "# update specs: [%s]\n", strings.Join(specs, ", "))
	return b.String()
}

// channelOf returns a record's channel and platform in the format of history.
func channelOf(r spec.Record) string {
	if r.Subdir == "" || strings.HasSuffix(r.Channel, "/"+r.Subdir) {
		return r.Channel
	}
	return strings.TrimSuffix(r.Channel, "/") + "/" + r.Subdir
}

// quoted returns a string in the syntax of a Python list.
func quoted(text string) string {
	return "'" + strings.NewReplacer(`\`, `\\`, `'`, `\'`, "\n", `\n`, "\r", `\r`).Replace(text) + "'"
}

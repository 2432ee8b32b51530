package sif

import (
	"archive/tar"
	"bytes"
	"context"
	"embed"
	"encoding/json"
	"io"
	"io/fs"
	"path"
	"regexp"
	"strings"
	"time"

	"slipway.dev/services/builder/flatten"
	"slipway.dev/services/internal/oci"
)

// scripts are the same in every image. They are for runtimes that have no scripts of their
// own.
//
//go:embed scripts
var scripts embed.FS

// shellName matches the names of shell variables.
var shellName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// layers returns the layers that a Singularity image has in addition to those of the
// container image. The bottom layer has mount points for a runtime, which entries of the
// image replace. The top layer has the scripts that run the image.
func (c config) layers() (bottom, top flatten.Layer, err error) {
	below := newArchive()
	for _, dir := range []string{"dev", "etc", "home", "proc", "root", "sys", "var"} {
		below.dir(dir, 0o755)
	}
	below.dir("tmp", 0o1777)
	below.dir("var/tmp", 0o1777)
	for _, file := range []string{"etc/hosts", "etc/resolv.conf"} {
		below.file(file, 0o644, "")
	}
	below.link("environment", ".singularity.d/env/90-environment.sh")
	below.link("singularity", ".singularity.d/runscript")
	for _, action := range []string{"exec", "run", "shell", "test"} {
		below.link("."+action, ".singularity.d/actions/"+action)
	}
	above := newArchive()
	for _, dir := range []string{"", "/actions", "/env", "/libs"} {
		above.dir(".singularity.d"+dir, 0o755)
	}
	err = fs.WalkDir(scripts, "scripts", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := scripts.ReadFile(name)
		to := above
		if path.Base(name) == "90-environment.sh" && c.Config.Labels[oci.DefinitionLabel] != "" {
			to = below
		}
		to.file(path.Join(".singularity.d", strings.TrimPrefix(name, "scripts/")), 0o755, string(text))
		return err
	})
	if err != nil {
		return bottom, top, err
	}
	above.file(".singularity.d/env/10-docker2singularity.sh", 0o755, c.environment())
	own := above
	if c.Config.Labels[oci.DefinitionLabel] != "" { // the bottom layer, so that the image's own scripts win
		own = below
	}
	own.file(".singularity.d/runscript", 0o755, c.runscript())
	own.file(".singularity.d/startscript", 0o755, "#!/bin/sh\nexec /.singularity.d/runscript \"$@\"\n")
	above.file(".singularity.d/labels.json", 0o644, c.labels())
	if bottom, err = below.layer("of the mount points"); err == nil {
		top, err = above.layer("of the scripts")
	}
	return bottom, top, err
}

// environment returns a script that sets the image's variables, except those that the
// caller has set. PATH is always the image's.
func (c config) environment() string {
	out := &strings.Builder{}
	out.WriteString("#!/bin/sh\n")
	for _, kv := range c.Config.Env {
		name, value, _ := strings.Cut(kv, "=")
		switch {
		case !shellName.MatchString(name): // no shell can set it
		case name == "PATH":
			out.WriteString("export PATH=" + quote(value) + "\n")
		default:
			out.WriteString("[ -n \"${" + name + ":-}\" ] || export " + name + "=" + quote(value) + "\n")
		}
	}
	return out.String()
}

// runscript returns a script that starts the image like a container engine: it runs the
// entrypoint with the caller's arguments, or with the image's command if the caller passes
// none.
func (c config) runscript() string {
	out := "#!/bin/sh\n"
	cmd := c.Config.Cmd
	if len(cmd) == 0 && len(c.Config.Entrypoint) == 0 {
		cmd = []string{"/bin/sh"}
	}
	if len(cmd) > 0 {
		out += "[ $# -gt 0 ] || set --" + quoteArguments(cmd) + "\n"
	}
	return out + "exec" + quoteArguments(c.Config.Entrypoint) + " \"$@\"\n"
}

func quoteArguments(list []string) string {
	out := ""
	for _, w := range list {
		out += " " + quote(w)
	}
	return out
}

// quote quotes a string as one shell word.
func quote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

func (c config) labels() string {
	all := map[string]string{"org.label-schema.schema-version": "1.0", "org.label-schema.usage.singularity.deffile.bootstrap": "docker"}
	for k, v := range c.Config.Labels {
		all[k] = v
	}
	raw, err := json.MarshalIndent(all, "", "\t")
	if err != nil {
		panic(err) // only strings, which always encode
	}
	return string(raw) + "\n"
}

// archive is a small tar in memory.
type archive struct {
	buf bytes.Buffer
	out *tar.Writer
	err error
}

func newArchive() *archive {
	a := &archive{}
	a.out = tar.NewWriter(&a.buf)
	return a
}

func (a *archive) add(h *tar.Header, content string) {
	h.ModTime = time.Unix(0, 0)
	if a.err == nil {
		a.err = a.out.WriteHeader(h)
	}
	if a.err == nil {
		_, a.err = io.WriteString(a.out, content)
	}
}

func (a *archive) dir(name string, mode int64) {
	a.add(&tar.Header{Typeflag: tar.TypeDir, Name: name + "/", Mode: mode}, "")
}

func (a *archive) file(name string, mode int64, content string) {
	a.add(&tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: mode, Size: int64(len(content))}, content)
}

func (a *archive) link(name, to string) {
	a.add(&tar.Header{Typeflag: tar.TypeSymlink, Name: name, Linkname: to, Mode: 0o777}, "")
}

func (a *archive) layer(name string) (flatten.Layer, error) {
	if a.err == nil {
		a.err = a.out.Close()
	}
	raw := a.buf.Bytes()
	return flatten.Layer{Name: name, Size: int64(len(raw)), Open: func(context.Context) (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(raw)), nil
	}}, a.err
}

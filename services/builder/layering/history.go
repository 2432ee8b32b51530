package layering

import (
	"archive/tar"
	"fmt"
	"io"
	"strings"

	"slipway.dev/services/builder/artifact"
	"slipway.dev/services/internal/conda"
)

// own writes the layer that only this environment has: conda-meta/history, from
// which conda and mamba read what was asked for.
func (e Environment) own(out io.Writer) (Layer, error) {
	t, err := newTarball(out, conda.Prefix, e.Compression)
	if err != nil {
		return Layer{}, err
	}
	text := e.history()
	entry := artifact.Entry{Path: "conda-meta/history", Type: tar.TypeReg, Mode: 0o644, ModTime: e.created(), Size: int64(len(text))}
	if err := t.Put(entry, strings.NewReader(text)); err != nil {
		return Layer{}, err
	}
	p, err := t.close()
	p.By = "conda: history"
	return p.Layer, err
}

// history is a revision in which all packages came.
func (e Environment) history() string {
	var b strings.Builder
	fmt.Fprintf(&b, "==> %s <==\n# cmd: slipway\n", e.created().Format("2006-01-02 15:04:05"))
	for _, r := range e.Records {
		fmt.Fprintf(&b, "+%s::%s-%s-%s\n", channelOf(r), r.Name, r.Version, r.Build)
	}
	var specs []string
	for _, s := range e.Specs {
		specs = append(specs, quoted(s))
	}
	fmt.Fprintf(&b, "# update specs: [%s]\n", strings.Join(specs, ", "))
	return b.String()
}

// channelOf is a record's channel and platform, as history names them.
func channelOf(r conda.Record) string {
	if r.Subdir == "" || strings.HasSuffix(r.Channel, "/"+r.Subdir) {
		return r.Channel
	}
	return strings.TrimSuffix(r.Channel, "/") + "/" + r.Subdir
}

// quoted is a text as a list in Python has it.
func quoted(text string) string {
	return "'" + strings.NewReplacer(`\`, `\\`, `'`, `\'`, "\n", `\n`, "\r", `\r`).Replace(text) + "'"
}

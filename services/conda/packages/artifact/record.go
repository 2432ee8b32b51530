package artifact

import (
	"bufio"
	"bytes"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"

	"slipway.dev/services/conda/spec"
)

// RecordName returns the path of the conda-meta file that records the package as installed.
func (in *Installed) RecordName() string {
	return fmt.Sprintf("conda-meta/%s-%s-%s.json", in.index.Name, in.index.Version, in.index.Build)
}

// pathData is an entry of paths_data, as conda writes it.
type pathData struct {
	Path           string `json:"_path"`
	Kind           string `json:"path_type"`
	Mode           string `json:"file_mode,omitempty"`
	Placeholder    string `json:"prefix_placeholder,omitempty"`
	NoLink         bool   `json:"no_link,omitempty"`
	SHA256         string `json:"sha256,omitempty"`
	SHA256InPrefix string `json:"sha256_in_prefix,omitempty"`
	Size           int64  `json:"size_in_bytes,omitempty"`
}

// WriteRecord writes the package's conda-meta record: the channel's record, the list of
// files, and the facts about each.
func (in *Installed) WriteRecord(out io.Writer, rec spec.Record) error {
	rec = in.index.complete(rec)
	rec.Channel = rec.ChannelURL()
	head, err := encode(rec)
	if err != nil {
		return err
	}
	w := bufio.NewWriter(out)
	_, _ = w.Write(bytes.TrimSuffix(head, []byte("}"))) // the writer keeps its first error
	_, _ = w.WriteString(`,"link":{"source":"","type":1},"files":[`)
	for i := range in.paths {
		if err := element(w, i, in.paths[i].path); err != nil {
			return err
		}
	}
	_, _ = w.WriteString(`],"paths_data":{"paths_version":1,"paths":[`)
	for i := range in.paths {
		if err := element(w, i, in.data(&in.paths[i])); err != nil {
			return err
		}
	}
	_, _ = w.WriteString("]}}\n")
	return w.Flush()
}

func element(w *bufio.Writer, i int, v any) error {
	raw, err := encode(v)
	if err != nil {
		return err
	}
	if i > 0 {
		_ = w.WriteByte(',')
	}
	_, err = w.Write(raw)
	return err
}

func (in *Installed) data(p *listed) pathData {
	d := pathData{
		Path: p.path, Kind: p.kind, Mode: p.Mode, Placeholder: p.Placeholder, NoLink: p.NoLink, Size: p.Size,
		SHA256: digits(p.SHA256), SHA256InPrefix: digits(p.sha256),
	}
	return d
}

// digits returns a digest in hex; "" if unknown.
func digits(sum [32]byte) string {
	if sum == [32]byte{} {
		return ""
	}
	return hex.EncodeToString(sum[:])
}

// encode is json.Marshal without HTML escaping.
func encode(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(v)
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), err
}

package artifact

import (
	"encoding/hex"
	"encoding/json"
	"io"
	"strings"

	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/limits"
)

// Kinds of paths, as in conda-meta.
const (
	kindFile       = "hardlink"
	kindLink       = "softlink"
	kindDirectory  = "directory"
	kindEntryPoint = "unix_python_entry_point"
)

// modeBinary replaces a prefix without changing the length.
const modeBinary = "binary"

// paths holds the paths that a package lists, in their order.
type paths struct {
	list []listed
	at   map[string]int // index by path in the archive
	// placeholders holds each distinct placeholder of the package once: mostly one, used by
	// thousands of paths.
	placeholders map[string]string
	names        int // total length of all names
}

// listed is one path of a package, with the facts found while it is installed.
type listed struct {
	// Path is the path in the archive, relative to the prefix.
	Path string
	// Kind is the kind that the package states, or "".
	Kind string
	// Mode is how Placeholder is replaced by the prefix; both are "" for an unchanged file.
	Mode, Placeholder string
	// NoLink requests that installers copy the file.
	NoLink bool
	// SHA256 is the digest of the packed file; zero is unknown. Size is its size in bytes.
	SHA256 [32]byte
	Size   int64

	fact
}

// fact is the result of installing a path.
type fact struct {
	path   string // relative to the prefix; "" until installed
	kind   string
	sha256 [32]byte
	target string // a link's target
}

func newPaths() *paths {
	return &paths{at: map[string]int{}, placeholders: map[string]string{}}
}

// add adds a path, which must not be listed yet.
func (p *paths) add(l listed) error {
	clean, err := local(l.Path)
	if err != nil {
		return err
	}
	if _, twice := p.at[clean]; twice {
		return invalid("%s is listed twice", clip(clean))
	}
	if p.names += len(clean); len(p.list) >= limits.ArtifactEntries || p.names > limits.ArtifactNames {
		return invalid("it lists more than %d files, or names of more than %d MiB", limits.ArtifactEntries, limits.ArtifactNames>>20)
	}
	l.Path = clean
	if l.Placeholder, err = p.intern(l.Placeholder); err != nil {
		return err
	}
	p.at[clean] = len(p.list)
	p.list = append(p.list, l)
	return nil
}

// intern returns the stored copy of a placeholder.
func (p *paths) intern(text string) (string, error) {
	if text == "" {
		return "", nil
	}
	if one, ok := p.placeholders[text]; ok {
		return one, nil
	}
	const most = 1000
	if len(text) > limits.ArtifactPath || strings.ContainsRune(text, 0) || len(p.placeholders) == most {
		return "", invalid("it has a malformed prefix placeholder, or more than %d", most)
	}
	p.placeholders[text] = text
	return text, nil
}

// readPaths parses info/paths.json (CEP 34), one path at a time.
func readPaths(in io.Reader) (*paths, error) {
	ahead := &lookahead{in: in}
	out, dec := newPaths(), json.NewDecoder(ahead)
	ahead.decoded = dec.InputOffset
	if err := expect(dec, json.Delim('{')); err != nil {
		return nil, err
	}
	for dec.More() {
		key, err := dec.Token()
		if err != nil {
			return nil, malformed(err)
		}
		if key == "paths" {
			err = readList(dec, out)
		} else {
			var skipped json.RawMessage
			err = malformed(dec.Decode(&skipped))
		}
		if err != nil {
			return nil, err
		}
	}
	return out, expect(dec, json.Delim('}'))
}

// lookahead bounds the size of a value that a decoder buffers.
type lookahead struct {
	in      io.Reader
	decoded func() int64
	read    int64
}

func (l *lookahead) Read(p []byte) (int, error) {
	if l.read-l.decoded() > limits.ArtifactInfo {
		return 0, invalid("a value is longer than %d MiB", limits.ArtifactInfo>>20)
	}
	n, err := l.in.Read(p)
	l.read += int64(n)
	return n, err
}

func readList(dec *json.Decoder, out *paths) error {
	if err := expect(dec, json.Delim('[')); err != nil {
		return err
	}
	for dec.More() {
		var l struct {
			Path        string `json:"_path"`
			Kind        string `json:"path_type"`
			Mode        string `json:"file_mode"`
			Placeholder string `json:"prefix_placeholder"`
			NoLink      bool   `json:"no_link"`
			SHA256      string `json:"sha256"`
			Size        int64  `json:"size_in_bytes"`
		}
		if err := dec.Decode(&l); err != nil {
			return malformed(err)
		}
		path := listed{Path: l.Path, Kind: kindOf(l.Kind), Mode: modeOf(l.Mode, l.Placeholder), Placeholder: l.Placeholder, NoLink: l.NoLink, Size: l.Size}
		if len(l.SHA256) == hex.EncodedLen(len(path.SHA256)) {
			_, _ = hex.Decode(path.SHA256[:], []byte(l.SHA256)) // a malformed digest stays unknown
		}
		if err := out.add(path); err != nil {
			return err
		}
	}
	return expect(dec, json.Delim(']'))
}

// kindOf and modeOf return constants for words that occur thousands of times.
func kindOf(word string) string {
	for _, k := range []string{kindFile, kindLink, kindDirectory} {
		if k == word {
			return k
		}
	}
	return ""
}

func modeOf(word, placeholder string) string {
	switch {
	case placeholder == "":
		return ""
	case word == modeBinary:
		return modeBinary
	}
	return "text"
}

func expect(dec *json.Decoder, want json.Delim) error {
	t, err := dec.Token()
	if err != nil {
		return malformed(err)
	}
	if t != want {
		return invalid("it is malformed: there is %v where %v should be", t, want)
	}
	return nil
}

func malformed(err error) error {
	if _, ok := fault.As(err); ok || err == nil {
		return err
	}
	return fault.Invalid.New("it is malformed", err)
}

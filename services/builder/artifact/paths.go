package artifact

import (
	"encoding/hex"
	"encoding/json"
	"io"
	"strings"

	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/limits"
)

// Kinds of a path, as conda-meta writes them.
const (
	kindFile       = "hardlink"
	kindLink       = "softlink"
	kindDirectory  = "directory"
	kindEntryPoint = "unix_python_entry_point"
)

// modeBinary is the way to replace a prefix that keeps the length.
const modeBinary = "binary"

// paths is what a package lists, in its order.
type paths struct {
	list []listed
	at   map[string]int // by the path in the archive
	// holders are the placeholders of the package: mostly one, in thousands of paths.
	holders map[string]string
	names   int // their length together
}

// listed is one path of a package, and what is found out of it.
type listed struct {
	// Path is the one in the archive, below the prefix.
	Path string
	// Kind is what the package says that it is; "" where it does not.
	Kind string
	// Mode is how Placeholder is replaced by the prefix; both "" for a file that is
	// not changed.
	Mode, Placeholder string
	// NoLink asks installers to copy the file.
	NoLink bool
	// SHA256 is of the packed file; zero is unknown. Size is in bytes, packed.
	SHA256 [32]byte
	Size   int64

	fact
}

// fact is what a path became.
type fact struct {
	path   string // below the prefix; "" until it came
	kind   string
	sha256 [32]byte
	target string // of a link
}

func newPaths() *paths {
	return &paths{at: map[string]int{}, holders: map[string]string{}}
}

// add takes a path, once.
func (p *paths) add(l listed) error {
	clean, err := local(l.Path)
	if err != nil {
		return err
	}
	if _, twice := p.at[clean]; twice {
		return bad("%s is listed twice", clip(clean))
	}
	if p.names += len(clean); len(p.list) >= limits.ArtifactEntries || p.names > limits.ArtifactNames {
		return bad("it lists more than %d files, or names of more than %d MiB", limits.ArtifactEntries, limits.ArtifactNames>>20)
	}
	l.Path = clean
	if l.Placeholder, err = p.holder(l.Placeholder); err != nil {
		return err
	}
	p.at[clean] = len(p.list)
	p.list = append(p.list, l)
	return nil
}

// holder keeps one copy of a placeholder.
func (p *paths) holder(text string) (string, error) {
	if text == "" {
		return "", nil
	}
	if one, ok := p.holders[text]; ok {
		return one, nil
	}
	const most = 1000
	if len(text) > limits.ArtifactPath || strings.ContainsRune(text, 0) || len(p.holders) == most {
		return "", bad("it has a malformed prefix placeholder, or more than %d", most)
	}
	p.holders[text] = text
	return text, nil
}

// readPaths reads info/paths.json (CEP 34), one path at a time.
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

// lookahead keeps a decoder from holding a value of any length.
type lookahead struct {
	in      io.Reader
	decoded func() int64
	read    int64
}

func (l *lookahead) Read(p []byte) (int, error) {
	if l.read-l.decoded() > limits.ArtifactInfo {
		return 0, bad("a value is longer than %d MiB", limits.ArtifactInfo>>20)
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
			_, _ = hex.Decode(path.SHA256[:], []byte(l.SHA256)) // what is no digest stays unknown
		}
		if err := out.add(path); err != nil {
			return err
		}
	}
	return expect(dec, json.Delim(']'))
}

// kindOf and modeOf keep one copy of the words that come thousands of times.
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
		return bad("it is malformed: there is %v where %v should be", t, want)
	}
	return nil
}

func malformed(err error) error {
	if _, ok := fault.As(err); ok || err == nil {
		return err
	}
	return fault.Invalid.New("it is malformed", err)
}

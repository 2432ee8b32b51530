package batch

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"regexp"
	"strings"
	"sync"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	containerv1 "slipway.dev/proto/gen/slipway/container/v1"
)

// Bounds of one run.
const (
	maxEntries = 10_000
	maxInput   = 32_000_000 // bytes of an input
	maxFile    = 1 << 20    // bytes of an environment file
	maxFiles   = 256 << 20  // bytes of all environment files
)

// An entry is a container that an input lists: a request, or the path of the environment file that
// the request is made from.
type entry struct {
	// name is what the user calls it, e.g. the path of a file or the name of a process.
	name    string
	path    string
	request *containerv1.ContainerRequest
	// isProcess reports whether the name is that of a process of Nextflow.
	isProcess bool
	// record is the record of a lock file that is an input itself, and text the lock of its
	// packages; nil for other inputs.
	record *locked
	text   string
	// err is why the container cannot be requested; nil if it can.
	err error
}

// parse returns the entries of an input, whose format follows from its content: container
// requests as lines of JSON, the output of `nextflow inspect -format json` or of
// `snakemake --list-conda-envs`, an environment file or a lock, or else a list of paths of such
// files. The entries of lines of JSON have the name of the input and their number.
func parse(name string, raw []byte) ([]entry, error) {
	text := bytes.TrimSpace(bytes.TrimPrefix(raw, []byte("\ufeff")))
	var out []entry
	var err error
	switch {
	case len(text) == 0:
		err = errors.New("it is empty")
	case bytes.HasPrefix(bytes.ReplaceAll(text[:min(len(text), 100)], []byte(" "), nil), []byte("[{")):
		err = errors.New("it is a list in JSON; give each container request as a value of its own, e.g. with jq -c '.[]'")
	case text[0] == '{':
		out, err = parseJSON(name, text)
	case isEnvironment(text):
		out = []entry{{name: name, request: environmentRequest(raw)}}
	default:
		out, err = parseLines(string(text))
	}
	switch {
	case err != nil:
		return nil, fmt.Errorf("reading %s: %w", name, err)
	case len(out) == 0:
		return nil, fmt.Errorf("reading %s: it lists no containers", name)
	case len(out) > maxEntries:
		return nil, fmt.Errorf("reading %s: it lists more than %d containers", name, maxEntries)
	}
	return out, nil
}

// parseJSON parses the output of Nextflow, or lines of JSON.
func parseJSON(name string, text []byte) ([]entry, error) {
	var inspected struct {
		Processes []process `json:"processes"`
	}
	if err := json.Unmarshal(text, &inspected); err == nil && inspected.Processes != nil {
		return processEntries(inspected.Processes), nil
	}
	var out []entry
	values := json.NewDecoder(bytes.NewReader(text))
	for n := 1; n <= maxEntries+1; n++ {
		var raw json.RawMessage
		err := values.Decode(&raw)
		if errors.Is(err, io.EOF) {
			break
		}
		r := &containerv1.ContainerRequest{}
		if err == nil {
			err = protojson.Unmarshal(raw, r)
		}
		if err != nil { // the library's messages have spaces that vary
			return nil, fmt.Errorf("number %d is not a container request: %s", n, strings.ReplaceAll(err.Error(), "\u00a0", " "))
		}
		out = append(out, entry{name: fmt.Sprintf("%s:%d", name, n), request: r})
	}
	return out, nil
}

// A process is a process of a Nextflow pipeline.
type process struct {
	Name      string `json:"name"`
	Container string `json:"container"`
}

// errNoContainer is the error of a process for which Nextflow lists no container.
var errNoContainer = errors.New("the process has no container; set one, or remove the process from the list")

func processEntries(list []process) []entry {
	out := make([]entry, 0, len(list))
	for _, p := range list {
		e := entry{name: p.Name, isProcess: true, request: &containerv1.ContainerRequest{ContainerImage: imageOf(p.Container)}}
		if p.Container == "" {
			e.err = errNoContainer
		}
		out = append(out, e)
	}
	return out
}

// imageOf returns the name of an image without the scheme that Singularity requires.
func imageOf(container string) string { return strings.TrimPrefix(container, "docker://") }

// condaEnvsHeader is the first line of `snakemake --list-conda-envs`, which may follow messages.
const condaEnvsHeader = "environment\tcontainer\tlocation"

// parseLines parses the output of Snakemake, or a list of paths.
func parseLines(text string) ([]entry, error) {
	if before, rows, ok := strings.Cut("\n"+text, "\n"+condaEnvsHeader); ok && !strings.Contains(before, "\t") {
		return parseCondaEnvs(rows)
	}
	var out []entry
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
			out = append(out, fileEntry(line))
		}
		if len(out) > maxEntries {
			break
		}
	}
	return out, nil
}

// parseCondaEnvs parses the rows of Snakemake: the environment file, the container that its rule
// runs in, and the folder of the environment.
func parseCondaEnvs(rows string) ([]entry, error) {
	var out []entry
	for row := range strings.Lines(rows) {
		if row = strings.TrimRight(row, "\r\n"); strings.TrimSpace(row) == "" {
			continue
		}
		cells := strings.Split(row, "\t")
		if len(cells) != 3 || cells[0] == "" {
			return nil, fmt.Errorf("a row of snakemake has an environment, a container and a location, not %q", row)
		}
		e := fileEntry(cells[0])
		if cells[1] != "" {
			e.request = &containerv1.ContainerRequest{Packages: &containerv1.Packages{CondaOpts: &containerv1.CondaOptions{BaseImage: imageOf(cells[1])}}}
		}
		if out = append(out, e); len(out) > maxEntries {
			break
		}
	}
	return out, nil
}

// fileEntry returns the entry of an environment file.
func fileEntry(path string) entry {
	if strings.Contains(path, "://") { // of a wrapper of Snakemake
		return entry{name: path, request: &containerv1.ContainerRequest{}, err: errors.New("the environment file has an address; download it, and give the file")}
	}
	path = filepath.Clean(path)
	return entry{name: filepath.ToSlash(path), path: path}
}

// environment matches the lines by which environment files, manifests and locks of Conda packages
// are known.
var environment = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`(?m)^(dependencies|channels|packages|package|environments|metadata|name|version|prefix)[ \t]*:|^@EXPLICIT[ \t]*\r?$|^\[[a-zA-Z"]`)
})

func isEnvironment(text []byte) bool { return environment().Match(text) }

// environmentRequest returns the request for an environment file or a lock.
func environmentRequest(text []byte) *containerv1.ContainerRequest {
	return &containerv1.ContainerRequest{Packages: &containerv1.Packages{Type: "CONDA", Environment: base64.StdEncoding.EncodeToString(text)}}
}

// withDefaults returns a request with the fields of defaults that it does not set itself. Fields
// about Conda packages apply to requests for packages only.
func withDefaults(r, defaults *containerv1.ContainerRequest) *containerv1.ContainerRequest {
	out := proto.CloneOf(r)
	defaults = proto.CloneOf(defaults)
	packages := defaults.GetPackages()
	defaults.Packages = nil
	if !hasPackages(out) {
		defaults.AsOf, defaults.MinAge, defaults.MinAgeExcept, defaults.Refresh = "", "", nil, false
	}
	fillIn(out, defaults)
	if out.GetPackages() != nil && packages != nil {
		fillIn(out.GetPackages(), packages)
	}
	return out
}

func hasPackages(r *containerv1.ContainerRequest) bool {
	return r.GetPackages() != nil || r.GetCondaFile() != "" && r.GetContainerFile() == ""
}

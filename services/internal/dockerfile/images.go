package dockerfile

import (
	"strconv"
	"strings"

	"github.com/moby/buildkit/frontend/dockerfile/instructions"
	"github.com/moby/buildkit/frontend/dockerfile/parser"
	"github.com/moby/buildkit/frontend/dockerfile/shell"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/limits"
	"slipway.dev/services/internal/oci"
)

// Images returns the images that a build for a platform reads, each once, in the order of
// their first mention: those of FROM, then those of COPY --from and RUN --mount=from=,
// including unreachable stages and ONBUILD. Stages and scratch are not images. It returns
// fault.Invalid, with the line, for a name that is malformed or that only the engine can
// know.
func (f *File) Images(p ocispec.Platform) ([]oci.Reference, error) {
	r := imageReader{
		lex: shell.NewLex(f.escape), args: newArguments(p),
		seen: map[oci.Reference]bool{}, names: map[string]bool{}, stages: len(f.stages),
	}
	for i := range f.args {
		if err := r.args.declare(r.lex, &f.args[i]); err != nil {
			return nil, atLine(f.args[i].Location(), err)
		}
	}
	for i := range f.stages {
		if err := r.from(&f.stages[i]); err != nil {
			return nil, atLine(f.stages[i].Location, err)
		}
	}
	// Stages are known by name in the whole file, so instructions that copy from them are
	// read afterwards.
	for _, s := range f.stages {
		for _, c := range s.Commands {
			if err := r.command(c); err != nil {
				return nil, atLine(c.Location(), err)
			}
		}
	}
	if len(r.images) > limits.DockerfileImages {
		return nil, fault.Invalid.Newf("the Dockerfile names %d images; the maximum is %d", len(r.images), limits.DockerfileImages)
	}
	return r.images, nil
}

// imageReader reads a Dockerfile in the order of BuildKit's dockerfile2llb.
type imageReader struct {
	lex  *shell.Lex
	args *arguments
	// names are the names of the stages read so far, in lower case; stages is the number of all
	// stages.
	names  map[string]bool
	stages int
	images []oci.Reference
	seen   map[oci.Reference]bool
}

// from reads the base of a stage. It is an earlier stage only if it equals the lower-case name
// of that stage.
func (r *imageReader) from(s *instructions.Stage) error {
	image, err := r.args.expand(r.lex, s.BaseName)
	switch {
	case err != nil:
		return err
	case image == "":
		return fault.Invalid.Newf("%s expands to nothing; FROM needs an image", fault.Quote(s.BaseName))
	case !r.names[image]:
		if err := r.add(image); err != nil {
			return err
		}
	}
	if s.Name != "" {
		r.names[strings.ToLower(s.Name)] = true
	}
	return nil
}

// command reads the images that an instruction copies from or mounts.
func (r *imageReader) command(c instructions.Command) error {
	switch c := c.(type) {
	case *instructions.CopyCommand:
		return r.copyFrom(c.From)
	case *instructions.RunCommand:
		for _, m := range instructions.GetMounts(c) {
			if err := r.stageOrImage(m.From); err != nil {
				return err
			}
		}
	case *instructions.OnbuildCommand:
		commands, err := trigger(c.Expression)
		if err != nil {
			return err
		}
		for _, c := range commands {
			if err := r.command(c); err != nil {
				return err
			}
		}
	}
	return nil
}

// trigger parses an ONBUILD instruction as the engine does: separately, and with the escape
// character `\` whatever the file's is.
func trigger(expression string) ([]instructions.Command, error) {
	parsed, err := parser.Parse(strings.NewReader(expression))
	if err != nil {
		return nil, unreadable(err)
	}
	commands := make([]instructions.Command, 0, len(parsed.AST.Children))
	for _, n := range parsed.AST.Children {
		c, err := instructions.ParseCommand(n)
		if err != nil {
			return nil, unreadable(err)
		}
		commands = append(commands, c)
	}
	return commands, nil
}

// copyFrom resolves the source of COPY --from. Only this source may be the number of a stage.
// The engine rejects variables.
func (r *imageReader) copyFrom(from string) error {
	word, _, err := r.lex.ProcessWord(from, shell.EnvsFromSlice(nil))
	if err != nil || word != from {
		return fault.Invalid.New("--from="+fault.Quote(from)+" must be a stage or the full name of an image; to use a variable, put it in a FROM", err)
	}
	n, err := strconv.Atoi(from)
	if err != nil {
		return r.stageOrImage(from)
	}
	if n < 0 || n >= r.stages {
		return fault.Invalid.Newf("--from=%d: there is no such stage", n)
	}
	return nil
}

func (r *imageReader) stageOrImage(from string) error {
	if from == "" || r.names[strings.ToLower(from)] {
		return nil
	}
	return r.add(from)
}

func (r *imageReader) add(image string) error {
	if image == "scratch" {
		return nil
	}
	ref, err := oci.ParseReference(image)
	if err != nil {
		return err
	}
	if !r.seen[ref] {
		r.seen[ref] = true
		r.images = append(r.images, ref)
	}
	return nil
}

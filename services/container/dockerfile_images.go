package container

import (
	"strconv"
	"strings"

	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/oci"
)

// maxImages is how many different images a recipe may name: each is looked up.
const maxImages = 50

// imagesOf lists the images that a build of a Dockerfile reads, each once, in the
// order of their first mention: those of FROM, COPY --from and RUN --mount=from=.
// Stages and scratch are none. fault.Invalid, naming the line, for what is
// malformed or what we cannot be sure of (see sourceFile).
func imagesOf(text string, p oci.Platform) ([]oci.Reference, error) {
	d, err := readDockerfile(text)
	if err != nil {
		return nil, err
	}
	r := imageReader{
		seen: map[oci.Reference]bool{},
		vars: variables{
			escape: d.escape, unsure: map[string]bool{},
			values: map[string]string{"TARGETOS": p.OS, "TARGETARCH": p.Architecture},
		},
	}
	for _, in := range d.instructions {
		if err := r.stage(in); err != nil {
			return nil, atLine(in.line, err)
		}
	}
	if r.stages == 0 {
		return nil, fault.Invalid.Newf("the Dockerfile has no FROM")
	}
	// Stages are known by name from anywhere in the file, so that what copies from
	// them is read afterwards.
	for _, in := range d.instructions {
		if err := r.copies(in); err != nil {
			return nil, atLine(in.line, err)
		}
	}
	if len(r.images) > maxImages {
		return nil, fault.Invalid.Newf("the Dockerfile names %d images; %d are the most", len(r.images), maxImages)
	}
	return r.images, nil
}

// imageReader goes through a Dockerfile.
type imageReader struct {
	vars   variables
	images []oci.Reference
	seen   map[oci.Reference]bool
	stages int
	names  map[string]bool
}

// stage reads FROM, and the ARGs before the first.
func (r *imageReader) stage(in instruction) error {
	switch {
	case in.name == "FROM":
		return r.from(in)
	case r.stages > 0:
		return nil
	case in.name == "ARG":
		r.vars.set(in.rest)
		return nil
	}
	return fault.Invalid.Newf("%s must not stand before FROM", in.name)
}

func (r *imageReader) from(in instruction) error {
	words := strings.Fields(in.rest)
	if len(words) != 1 && (len(words) != 3 || !strings.EqualFold(words[1], "AS")) {
		return fault.Invalid.Newf("FROM must be written FROM image, or FROM image AS name")
	}
	image, err := r.vars.expand(words[0])
	if err != nil {
		return err
	}
	if !r.names[strings.ToLower(image)] {
		if err := r.add(image); err != nil {
			return err
		}
	}
	r.stages++
	if len(words) == 1 {
		return nil
	}
	name := strings.ToLower(words[2])
	if !isStageName(name) {
		return fault.Invalid.Newf("%q is no name for a stage", clip(words[2]))
	}
	if r.names == nil {
		r.names = map[string]bool{}
	}
	r.names[name] = true
	return nil
}

func isStageName(s string) bool {
	return s[0] >= 'a' && s[0] <= 'z' && strings.Trim(s, "abcdefghijklmnopqrstuvwxyz0123456789-_.") == ""
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

// copies reads from where an instruction copies or mounts.
func (r *imageReader) copies(in instruction) error {
	if in.name == "ONBUILD" {
		inner, err := readInstruction(in.rest)
		if err != nil {
			return err
		}
		in = inner
	}
	for _, flag := range in.flags {
		name, value, _ := strings.Cut(strings.TrimPrefix(flag, "--"), "=")
		var err error
		switch strings.ToLower(name) {
		case "from":
			err = r.copyFrom(value)
		case "mount":
			err = r.mount(value)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// copyFrom is the only place where a stage goes by its number too.
func (r *imageReader) copyFrom(from string) error {
	n, err := strconv.Atoi(from)
	if err != nil {
		return r.stageOrImage(from)
	}
	if n < 0 || n >= r.stages {
		return fault.Invalid.Newf("from=%d: there is no such stage", n)
	}
	return nil
}

// mount reads a list of key=value with commas between.
func (r *imageReader) mount(list string) error {
	if strings.ContainsAny(list, "\"'") {
		return fault.Invalid.Newf("write --mount without quotes inside")
	}
	for field := range strings.SplitSeq(list, ",") {
		key, value, _ := strings.Cut(field, "=")
		if strings.ToLower(strings.TrimSpace(key)) != "from" || value == "" {
			continue
		}
		if err := r.stageOrImage(value); err != nil {
			return err
		}
	}
	return nil
}

// stageOrImage is the name of a stage, or an image. Variables do not work here.
func (r *imageReader) stageOrImage(from string) error {
	if strings.Trim(from, wordLetters+"/:@+") != "" {
		return fault.Invalid.Newf("from=%s must be a stage or an image, written out; give a variable to a FROM instead", clip(from))
	}
	if from == "" || r.names[strings.ToLower(from)] {
		return nil
	}
	return r.add(from)
}

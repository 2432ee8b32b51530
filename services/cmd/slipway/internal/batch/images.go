package batch

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	containerv1 "slipway.dev/proto/gen/slipway/container/v1"
	"slipway.dev/services/cmd/slipway/internal/session"
	"slipway.dev/services/cmd/slipway/internal/usage"
)

// Flags are the flags of a command that needs the images of inputs, as Images returns them.
type Flags struct {
	flags
	// Sif is set if Singularity images of all images are requested, too.
	Sif bool
}

// Add adds the flags.
func (f *Flags) Add(cmd *cobra.Command, s *session.Settings) {
	f.AddTarget(cmd, s)
	f.conda.AddOptions(cmd)
	cmd.Flags().StringVar(&f.lock, "lock", "slipway.lock", "The lock `file` of slipway batch, which is used if it exists; empty for none.")
	cmd.Flags().Lookup("progress").Usage = "How progress is shown: plain, one line at the end; tty, on a line that is replaced; auto, depending on the terminal."
}

// An Image is the image of one container that inputs list.
type Image struct {
	// Name is what the user calls the container, e.g. the path of a file. IsProcess reports
	// whether it is the name of a process of Nextflow.
	Name      string
	IsProcess bool
	// Request is the digest of the request.
	Request string
	// Source is the name of the image that the input or the lock file lists; "" for an image that
	// is built, and is in no lock file.
	Source string
	// Target is the name to pull the image by.
	Target string
	// IsSif reports whether it is a Singularity image, and Sif is the Singularity image with the same
	// content as another image; nil if it was not requested.
	IsSif bool
	Sif   *Image
	// Lock is the digest of the lock of its packages, and LockText that lock; "" for none.
	Lock, LockText string
	// Note is what the user should know about the image; "" for nothing.
	Note string
	// Err is why the image does not exist; nil if it exists.
	Err error

	record locked // of the lock file; only its digest is known to be that of the image
	// mayDiffer reports whether the lock file does not determine the digest.
	mayDiffer bool
	hint      string
}

// Check compares the digest of the image with that of the lock file. An image that was built again
// from the lock of its packages may differ, which is noted.
func (i *Image) Check(digest string) error {
	switch {
	case i.record.Digest == "" || i.record.Digest == digest:
		return nil
	case i.mayDiffer:
		i.Note = strings.TrimPrefix(i.Note+"; "+differing(digest, i.record), "; ")
		return nil
	}
	return fmt.Errorf("the image is %s, and the lock file has %s; %s", digest, i.record.Digest, i.hint)
}

// errOptions is the error of a record whose image has something that its lock lacks.
var errOptions = errors.New("it was requested with other options, such as a base image, a platform or added layers; give the same options, or the inputs of slipway batch instead of the lock file")

// Images requests the containers of inputs, waits for their builds, and returns their images. Inputs
// are those of `slipway batch`, and also names of images and lock files. A lock file is only read.
func (f *Flags) Images(cmd *cobra.Command, s *session.Settings, c *session.Client, inputs []string) ([]Image, error) {
	entries, err := readImages(cmd, c.Base.Host, inputs)
	if err != nil {
		return nil, err
	}
	defaults, err := f.defaults(cmd, s, c)
	if err != nil {
		return nil, err
	}
	if f.Sif && strings.Contains(defaults.GetContainerPlatform(), ",") {
		return nil, usage.Errorf("a Singularity image is for one platform: give one to --platform, and make a bundle for each")
	}
	used, err := readLock(f.lock)
	if err != nil {
		return nil, err
	}
	r := newRun(c, newProgress(cmd.ErrOrStderr(), f.IsLive(cmd, s), len(entries)))
	r.direct = true
	r.request(cmd.Context(), entries, defaults, used)
	r.finish(cmd.Context(), true, r.lockOf)
	if err := r.progress.end(); err != nil {
		return nil, err
	}
	if f.Sif {
		return r.withSifs(cmd, f.IsLive(cmd, s), used)
	}
	out := make([]Image, 0, len(r.all))
	for _, one := range r.all {
		out = append(out, one.image())
	}
	return out, nil
}

func (c *container) image() Image {
	source := c.request.GetContainerImage()
	if source == "" && c.fromLock || strings.Contains(source, "@") { // the lock file has the name with the tag
		source = cmp.Or(c.record.Image, source)
	}
	out := Image{
		Name: c.name, IsProcess: c.isProcess, Request: cmp.Or(c.record.Request, requestDigest(c.request)), Source: source, Target: c.result.GetResponse().GetTargetImage(),
		Lock: c.record.Lock, LockText: c.text, Note: c.note, IsSif: c.isSif(),
	}
	if !c.adds() { // the recorded digest is that of the image without them
		out.record, out.mayDiffer, out.hint = c.locked, c.request.GetContainerImage() == "" && !c.isInput, "slipway batch --update accepts the new one"
	}
	if c.isInput {
		out.hint = "give the inputs of slipway batch instead of the lock file"
	}
	switch {
	case c.failed():
		out.Err = errors.New(c.result.GetMessage())
	case c.pending:
		out.Err = errors.New(cmp.Or(c.note, "it is not built yet; the same command continues"))
	}
	return out
}

// readImages returns the entries of inputs, of which some may be names of images or lock files. host
// is that of the server.
func readImages(cmd *cobra.Command, host string, inputs []string) ([]entry, error) {
	return readWith(inputs, func(input string) ([]entry, error) {
		if isImageName(input) {
			image := imageOf(input)
			return []entry{{name: image, request: &containerv1.ContainerRequest{ContainerImage: image}}}, nil
		}
		return entriesOf(cmd, input, func(l lockFile) []entry { return l.entries(host) })
	})
}

// isImageName reports whether an input is the name of an image with a tag or digest, and not a file.
func isImageName(input string) bool {
	if _, err := os.Stat(input); err == nil || input == "-" {
		return false
	}
	return strings.Contains(input, "@sha256:") || withoutTag(imageOf(input)) != imageOf(input)
}

// isLock reports whether an input that begins with head is a lock file.
func isLock(head []byte) bool {
	return strings.HasPrefix(strings.Join(strings.Fields(string(head)), ""), `{"version":`)
}

// entries returns the containers that a lock file records: from the locks of their packages if this
// server built them, and otherwise by the digests of their images.
func (l lockFile) entries(host string) []entry {
	out := make([]entry, 0, len(l.Containers))
	for _, c := range l.Containers {
		e := entry{name: c.Name, isProcess: c.Process, record: &c, text: l.Locks[c.Lock]}
		name := strings.TrimPrefix(c.Image, orasScheme)
		registry, _, _ := strings.Cut(name, "/")
		switch {
		case c.Lock != "" && registry == host:
			e.request = environmentRequest([]byte(e.text))
			if e.request.Format = c.Format; c.isSif() {
				e.request.Format = formatSif
			}
		case c.isSif() && c.Image == name && c.Image != "" && !c.Added: // made of an existing image
			e.request = &containerv1.ContainerRequest{ContainerImage: c.Image, Format: formatSif}
		case c.Added && (c.Lock == "" || registry != host):
			e.request = &containerv1.ContainerRequest{}
			e.err = errors.New("something was added to its image that the lock file does not have; give the inputs of slipway batch instead of the lock file")
		case c.Image != "" && c.Digest != "" && registry != host:
			image, _, _ := strings.Cut(c.Image, "@")
			e.request = &containerv1.ContainerRequest{ContainerImage: withoutTag(image) + "@" + c.Digest} // with oras:// if it is a Singularity image
		default:
			e.request = &containerv1.ContainerRequest{}
			e.err = errors.New("its record in the lock file has no digest, or the server cannot make it from the record; give the inputs of slipway batch instead of the lock file")
		}
		out = append(out, e)
	}
	return out
}

package run

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"golang.org/x/sys/unix"

	"slipway.dev/services/cmd/slipway/internal/session"
	"slipway.dev/services/mount/rootfs"
)

// typeSingularity is the media type of a Singularity image.
const typeSingularity = "application/vnd.sylabs.sif.layer.v1.sif"

// isSingularity reports whether a manifest is that of a Singularity image in a registry.
func isSingularity(m ocispec.Manifest) bool {
	return len(m.Layers) == 1 && m.Layers[0].MediaType == typeSingularity
}

// fileID identifies the files of a Singularity image, and returns its size in bytes. It depends on the identity and the times of its file: reading all
// of it would take longer than the start of a command. It does not depend on the number of the device, which differs between the machines that share a
// network file system, and after a restart.
func fileID(f *os.File) (id string, size int64, err error) {
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return "", 0, &os.PathError{Op: "open", Path: f.Name(), Err: err}
	}
	h := sha256.New()
	fmt.Fprintf(h, "file %s %d %d %d.%d %d.%d", f.Name(), st.Ino, st.Size, st.Mtim.Sec, st.Mtim.Nsec, st.Ctim.Sec, st.Ctim.Nsec)
	return hex.EncodeToString(h.Sum(nil)), st.Size, nil
}

// launchFile returns the launch of a Singularity image that is a file, which is open.
func (e *engine) launchFile(cmd *cobra.Command, s *session.Settings, f *os.File) (*launch, error) {
	c, err := e.Open()
	if err != nil {
		return nil, err
	}
	l := e.newLaunch(cmd, s, c)
	l.singularity = true
	id, size, err := fileID(f)
	if err != nil {
		return nil, err
	}
	l.root, err = c.Root(id, time.Now(), func(work string) error {
		fmt.Fprintln(l.stderr, "slipway: unpacking the Singularity image into the cache")
		return unpackUnchanged(cmd.Context(), work, f, id, size)
	})
	return l, err
}

// unpackUnchanged unpacks a Singularity image. It returns an error if the file, which id identifies, was changed meanwhile.
func unpackUnchanged(ctx context.Context, work string, f *os.File, id string, size int64) error {
	err := unpackLayers(ctx, work, []rootfs.Layer{rootfs.OpenSingularity(f.Name(), f, size)})
	if now, _, statErr := fileID(f); statErr == nil && now != id {
		return fmt.Errorf("the Singularity image %s was changed while it was unpacked", f.Name())
	}
	return err
}

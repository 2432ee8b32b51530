package artifact

import (
	"archive/tar"
	"io"

	"slipway.dev/services/internal/limits"
)

// meter counts the unpacked bytes of an archive.
type meter struct {
	in       io.Reader
	packed   int64
	unpacked int64
}

func (m *meter) Read(p []byte) (int, error) {
	n, err := m.in.Read(p)
	m.unpacked += int64(n)
	if too := m.tooLong(m.unpacked); too != nil {
		return 0, too
	}
	return n, err
}

// checkSize rejects a file that is too large before it is read. That includes sparse files,
// which expand without stored bytes.
func (m *meter) checkSize(h *tar.Header) error {
	if h.Size < 0 || h.Size > limits.ArtifactBytes {
		return m.tooLong(limits.ArtifactBytes + 1)
	}
	return m.tooLong(m.unpacked + h.Size)
}

func (m *meter) tooLong(n int64) error {
	switch {
	case n > limits.ArtifactBytes:
		return invalid("it is longer than %d GiB when it is unpacked", limits.ArtifactBytes>>30)
	case n > limits.ArtifactRatioFrom && n/limits.ArtifactRatio > m.packed:
		return invalid("it is more than %d times as long when it is unpacked", limits.ArtifactRatio)
	}
	return nil
}

package artifact

import (
	"archive/tar"
	"io"

	"slipway.dev/services/internal/limits"
)

// meter counts what an archive expands to.
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

// announced refuses a file before it is read, also one with holes, which expands
// by itself.
func (m *meter) announced(h *tar.Header) error {
	if h.Size < 0 || h.Size > limits.ArtifactBytes {
		return m.tooLong(limits.ArtifactBytes + 1)
	}
	return m.tooLong(m.unpacked + h.Size)
}

func (m *meter) tooLong(n int64) error {
	switch {
	case n > limits.ArtifactBytes:
		return bad("it is longer than %d GiB when it is unpacked", limits.ArtifactBytes>>30)
	case n > limits.ArtifactRatioFrom && n/limits.ArtifactRatio > m.packed:
		return bad("it is more than %d times as long when it is unpacked", limits.ArtifactRatio)
	}
	return nil
}

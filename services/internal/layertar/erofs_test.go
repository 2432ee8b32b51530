package layertar_test

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"

	"slipway.dev/services/internal/erofslayer"
	"slipway.dev/services/internal/layertar"
)

// TestErofs reads EROFS layers, with limits, and damaged ones.
func TestErofs(t *testing.T) {
	t.Parallel()
	for _, level := range []zstd.EncoderLevel{erofslayer.Raw, zstd.SpeedDefault} {
		var out bytes.Buffer
		w, err := erofslayer.NewWriter(&out, level, t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		archive := tar.NewWriter(w)
		for _, name := range []string{"a/one", "two", "a/.wh.gone"} {
			h := &tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o644, Size: int64(len(name))}
			if strings.Contains(name, ".wh.") {
				h.Size = 0
			}
			if err := errors.Join(archive.WriteHeader(h), w.Header(h)); err != nil {
				t.Fatal(err)
			}
			if _, err := io.CopyN(archive, strings.NewReader(name), h.Size); err != nil {
				t.Fatal(err)
			}
		}
		if err := errors.Join(archive.Close(), w.Close()); err != nil {
			t.Fatal(err)
		}
		read := func(raw []byte, l layertar.Limits) (string, error) {
			var names []string
			layer := layertar.Layer{Name: "it", Size: int64(len(raw)), Open: func(context.Context) (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(raw)), nil }}
			err := layertar.NewReader(l).Each(t.Context(), layer, func(_ int, h *tar.Header, content io.Reader) error {
				text, err := io.ReadAll(content)
				names = append(names, h.Name+"="+string(text))
				return err
			})
			return strings.Join(names, " "), err
		}
		if got, err := read(out.Bytes(), layertar.Limits{}); err != nil || got != "a/= a/.wh.gone= a/one=a/one two=two" {
			t.Errorf("the layer has %s: %v", got, err)
		}
		damaged := new(layertar.LayerError)
		if _, err := read(out.Bytes(), layertar.Limits{Entries: 2}); !errors.As(err, &damaged) {
			t.Errorf("more entries than allowed: %v", err)
		}
		raw := bytes.Clone(out.Bytes())
		if _, err := read(raw[:len(raw)-10], layertar.Limits{}); !errors.As(err, &damaged) {
			t.Errorf("a truncated layer: %v", err)
		}
	}
}

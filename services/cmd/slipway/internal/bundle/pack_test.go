package bundle

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"github.com/spf13/cobra"
)

// TestEnd checks that a file is only written, and its folder only deleted, if the command was not interrupted
// and has not failed.
func TestEnd(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "x.tar")
	d := ocispec.Descriptor{Digest: digest.FromString("content"), Size: 7}
	open := func() *layout {
		t.Helper()
		l, err := createTarget(path)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(l.close)
		if err := errors.Join(l.put(d, strings.NewReader("content")), l.writeIndex(nil)); err != nil {
			t.Fatal(err)
		}
		return l
	}
	for name, tc := range map[string]struct {
		stopped bool
		err     error
		want    string
	}{
		"interrupted": {true, nil, "interrupted before"},
		"failed":      {false, errors.New("no space"), "is not written; the same command continues"},
	} {
		l := open()
		cmd := &cobra.Command{}
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		if cmd.SetContext(ctx); tc.stopped {
			stop()
		}
		cmd.SetErr(&bytes.Buffer{})
		if err := l.end(cmd, tc.err); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: the file exists, %v", name, err)
		}
		l.close()
	}
	l := open()
	if _, err := createTarget(path); err == nil || !strings.Contains(err.Error(), "another slipway bundle is writing") {
		t.Errorf("a second run: %v", err)
	}
	if err := os.WriteFile(filepath.Join(l.path, blobsDir, d.Digest.Encoded()), []byte("CONTENT"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := l.pack(t.Context(), &bytes.Buffer{}); err == nil || !strings.Contains(err.Error(), "it was changed") {
		t.Errorf("a changed blob: %v", err)
	}
	if err := errors.Join(l.put(d, strings.NewReader("content")), l.pack(t.Context(), &bytes.Buffer{})); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(l.path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the folder exists, %v", err)
	}
}

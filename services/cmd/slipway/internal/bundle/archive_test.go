package bundle

import (
	"archive/tar"
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

// tarOf returns a tar of files, which are alternately headers and contents.
func tarOf(t testing.TB, files ...any) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for i := 0; i < len(files); i += 2 {
		h, _ := files[i].(tar.Header)
		content, _ := files[i+1].(string)
		if h.Typeflag == 0 {
			h.Typeflag = tar.TypeReg
		}
		if h.Typeflag == tar.TypeReg {
			h.Size = int64(len(content))
		}
		err := w.WriteHeader(&h)
		if err == nil {
			_, err = io.WriteString(w, content)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// sparseHeader returns a header of PAX which states that the next file is sparse.
func sparseHeader(t testing.TB) []byte {
	t.Helper()
	text := "22 GNU.sparse.major=1\n22 GNU.sparse.minor=0\n27 GNU.sparse.realsize=999\n"
	raw := tarOf(t, tar.Header{Name: "x"}, text)
	raw = raw[:len(raw)-1024] // without the end
	raw[156] = tar.TypeXHeader
	sum := int64(0)
	copy(raw[148:156], "        ")
	for _, b := range raw[:512] {
		sum += int64(b)
	}
	copy(raw[148:156], fmt.Sprintf("%06o\x00 ", sum))
	return raw
}

const (
	layoutText = `{"imageLayoutVersion":"1.0.0"}`
	indexText  = `{"schemaVersion":2,"manifests":[]}`
)

// TestArchive checks which tar files are accepted.
func TestArchive(t *testing.T) {
	t.Parallel()
	blob := blobsDir + "/" + digest.FromString("content").Encoded()
	ours := []any{tar.Header{Name: "oci-layout"}, layoutText, tar.Header{Name: "index.json"}, indexText}
	with := func(more ...any) []byte { return tarOf(t, append(append([]any{}, ours...), more...)...) }
	whole := with(tar.Header{Name: blob}, "content")
	for name, tc := range map[string]struct {
		raw  []byte
		want string
	}{
		"ours":            {whole, ""},
		"of a folder":     {tarOf(t, tar.Header{Name: "./", Typeflag: tar.TypeDir}, "", tar.Header{Name: "./oci-layout"}, layoutText, tar.Header{Name: "./index.json"}, indexText, tar.Header{Name: "./" + blob}, "content"), ""},
		"other files":     {with(tar.Header{Name: blob}, "content", tar.Header{Name: "../../etc/passwd"}, "x", tar.Header{Name: "manifest.json", Typeflag: tar.TypeSymlink, Linkname: "/etc/passwd"}, ""), ""},
		"long names":      {with(tar.Header{Name: blob}, "content", tar.Header{Name: strings.Repeat("x", 5000)}, "x"), ""},
		"a link":          {with(tar.Header{Name: blob, Typeflag: tar.TypeSymlink, Linkname: "/etc/passwd"}, ""), "is not a regular file"},
		"a hard link":     {with(tar.Header{Name: blob, Typeflag: tar.TypeLink, Linkname: "index.json"}, ""), "is not a regular file"},
		"a device":        {with(tar.Header{Name: "index.json", Typeflag: tar.TypeChar}, ""), "is not a regular file"},
		"twice":           {with(tar.Header{Name: blob}, "content", tar.Header{Name: blob}, "other"), "twice"},
		"two indexes":     {with(tar.Header{Name: "./index.json"}, indexText), "twice"},
		"truncated":       {whole[:len(whole)-2*512-510], "it is truncated"},
		"cut in a header": {whole[:2*512+300], "it cannot be read as a tar file"},
		"no layout":       {tarOf(t, tar.Header{Name: "index.json"}, indexText), "is not a bundle"},
		"no index":        {tarOf(t, tar.Header{Name: "oci-layout"}, layoutText), "is not a bundle"},
		"sparse":          {append(sparseHeader(t), tarOf(t, append([]any{tar.Header{Name: blob}, "1\n0\n7\n" + strings.Repeat("\x00", 506) + "content"}, ours...)...)...), "is not a regular file"},
		"compressed":      {[]byte("\x1f\x8b12345678"), "decompress it with gunzip"},
		"a text":          {[]byte(strings.Repeat("text", 500)), "it cannot be read as a tar file"},
		"empty":           {nil, "it is truncated"},
		"no end":          {whole[:len(whole)-1024], "it is truncated"},
	} {
		path := filepath.Join(t.TempDir(), "x.tar")
		if err := os.WriteFile(path, tc.raw, 0o600); err != nil {
			t.Fatal(err)
		}
		l, err := openLayout(path)
		if err != nil {
			if tc.want == "" || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("%s: %v, want %q", name, err, tc.want)
			}
			continue
		}
		if raw, err := l.document(ocispec.Descriptor{Digest: digest.FromString("content"), Size: 7}, 7); tc.want != "" || err != nil || string(raw) != "content" {
			t.Errorf("%s has the blob %q, %v, want %q", name, raw, err, tc.want)
		}
		l.close()
	}
}

// FuzzArchive checks that files of a tar are parts of it.
func FuzzArchive(f *testing.F) {
	blob := blobsDir + "/" + strings.Repeat("a", 64)
	f.Add([]byte{})
	f.Add(tarOf(f, tar.Header{Name: "oci-layout"}, layoutText, tar.Header{Name: "index.json"}, indexText, tar.Header{Name: blob}, "content"))
	f.Add(tarOf(f, tar.Header{Name: blob, PAXRecords: map[string]string{"SLIPWAY.x": "y"}}, "content", tar.Header{Name: strings.Repeat("x", 300), Format: tar.FormatGNU}, "x"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		a, err := readArchive(bytes.NewReader(raw), int64(len(raw)))
		if err != nil {
			return
		}
		for _, name := range append(a.paths(), indexFile, ocispec.ImageLayoutFile) {
			file, size, err := a.open(name)
			if err != nil {
				continue
			}
			if content, err := io.ReadAll(file); err != nil || int64(len(content)) != size {
				t.Errorf("%s has %d bytes instead of %d, %v", name, len(content), size, err)
			}
		}
	})
}

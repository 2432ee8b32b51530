package bundle

import (
	"archive/tar"
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"slipway.dev/services/internal/limits"
)

// An archive is a bundle in one tar file: an OCI image layout. Its headers are read once, and then its content
// where it is. It is safe for concurrent use.
type archive struct {
	content io.ReaderAt
	file    io.Closer
	// blobs are the places of blobs by their digests, and files those of the other files of a layout.
	blobs map[[32]byte]span
	files map[string]span
}

// A span is a part of a file in bytes.
type span struct{ offset, size int64 }

// section is the content of a file in an archive.
type section struct{ *io.SectionReader }

func (section) Close() error { return nil }

// openArchive opens a bundle in a tar file.
func openArchive(file string) (*archive, error) {
	info, err := os.Stat(file)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() { // opening a pipe would block
		return nil, errors.New("it is neither a folder nor a regular file")
	}
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	var a *archive
	if info, err = f.Stat(); err == nil {
		a, err = readArchive(f, info.Size())
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	a.file = f
	return a, nil
}

// decompressorOf returns the program that decompresses a file with these first bytes; "" for other files.
func decompressorOf(head []byte) string {
	for magic, program := range map[string]string{"\x1f\x8b": "gunzip", "\x28\xb5\x2f\xfd": "unzstd", "BZh": "bunzip2", "\xfd7zXZ": "unxz"} {
		if bytes.HasPrefix(head, []byte(magic)) {
			return program
		}
	}
	return ""
}

// readArchive reads the headers of a tar.
func readArchive(content io.ReaderAt, size int64) (*archive, error) {
	head := make([]byte, 6)
	if _, err := content.ReadAt(head, 0); err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	if program := decompressorOf(head); program != "" {
		return nil, fmt.Errorf("it is compressed, and the files in it cannot be read where they are; decompress it with %s", program)
	}
	a := &archive{content: content, blobs: map[[32]byte]span{}, files: map[string]span{}}
	in := io.NewSectionReader(content, 0, size)
	headers := tar.NewReader(in) // it seeks over the content of files
	for n := 0; ; n++ {
		h, err := headers.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("%w: %w", errNoTar, err)
		}
		if n >= limits.BundleFiles {
			return nil, fmt.Errorf("it has more than %d files", limits.BundleFiles)
		}
		offset, err := in.Seek(0, io.SeekCurrent)
		if err != nil {
			return nil, err
		}
		if err := a.add(h, span{offset, h.Size}, size); err != nil {
			return nil, err
		}
	}
	return a, checkEnd(in)
}

// checkEnd checks that a tar that was read ends with an empty block. Without one, it may be cut between two
// files.
func checkEnd(in *io.SectionReader) error {
	end, err := in.Seek(0, io.SeekCurrent)
	if err != nil {
		return err
	}
	last := make([]byte, 512)
	if end < int64(len(last)) {
		return errTruncated
	}
	if _, err := in.ReadAt(last, end-int64(len(last))); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	if !bytes.Equal(last, make([]byte, len(last))) {
		return errTruncated
	}
	return nil
}

// errNoTar is returned for a file that is no tar.
var errNoTar = errors.New("it cannot be read as a tar file")

// add adds a file of a tar with this size.
func (a *archive) add(h *tar.Header, at span, size int64) error {
	name := strings.TrimPrefix(h.Name, "./")
	digest, isBlob := blobOf(name)
	if !isBlob && name != indexFile && name != ocispec.ImageLayoutFile {
		if h.Typeflag == tar.TypeReg && at.size > size-at.offset {
			return errTruncated
		}
		return nil // as in a folder
	}
	if h.Typeflag != tar.TypeReg || isSparse(h) {
		return fmt.Errorf("its file %s is not a regular file", name)
	}
	if at.size < 0 || at.size > size-at.offset {
		return errTruncated
	}
	_, twice := a.blobs[digest]
	if !isBlob {
		_, twice = a.files[name]
	}
	if twice {
		return fmt.Errorf("it has the file %s twice", name)
	}
	if isBlob {
		a.blobs[digest] = at
	} else {
		a.files[name] = at
	}
	return nil
}

// errTruncated is returned for a tar that ends within a file.
var errTruncated = errors.New("it is truncated: copy it again")

// isSparse reports whether the content of a file is stored in another form.
func isSparse(h *tar.Header) bool {
	for key := range h.PAXRecords {
		if strings.HasPrefix(key, "GNU.sparse.") {
			return true
		}
	}
	return false
}

// blobOf returns the digest of the blob with this path in a layout.
func blobOf(name string) (digest [32]byte, ok bool) {
	text, ok := strings.CutPrefix(name, blobsDir+"/")
	if !ok || len(text) != 2*len(digest) || strings.ToLower(text) != text {
		return digest, false
	}
	_, err := hex.Decode(digest[:], []byte(text))
	return digest, err == nil
}

// open opens a file by its path in the layout.
func (a *archive) open(name string) (blobFile, int64, error) {
	at, ok := a.files[name]
	if digest, isBlob := blobOf(name); isBlob {
		at, ok = a.blobs[digest]
	}
	if !ok {
		return nil, 0, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
	}
	return section{io.NewSectionReader(a.content, at.offset, at.size)}, at.size, nil
}

func (a *archive) close() {
	if a.file != nil {
		_ = a.file.Close() // it is only read
	}
}

// paths returns the paths of all blobs.
func (a *archive) paths() []string {
	out := make([]string, 0, len(a.blobs))
	for digest := range a.blobs {
		out = append(out, path.Join(blobsDir, hex.EncodeToString(digest[:])))
	}
	return out
}

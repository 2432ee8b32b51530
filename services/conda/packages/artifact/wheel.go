package artifact

import (
	"archive/zip"
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"path"
	"strings"

	"slipway.dev/services/conda/spec"
	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/limits"
)

// A Wheel is a package of PyPI in the format of PEP 427. It is not safe for concurrent use.
type Wheel struct {
	name string
	size int64
	zip  *zip.Reader
	file spec.WheelName
	// info is the folder NAME-VERSION.dist-info, and data is NAME-VERSION.data, without
	// slashes.
	info, data string
	// files maps the clean names of all files to the members of the zip, and order lists
	// them as in the archive.
	files map[string]*zip.File
	order []string
	// listed maps the files in RECORD to their digests; "" if RECORD has none.
	listed map[string]string
	points []point
}

// OpenWheel reads a wheel's metadata. The argument name is its file name. The bytes of in
// are read again by Install. A wheel that is malformed, exceeds the limits, or does not
// match its file name is fault.Invalid.
func OpenWheel(ctx context.Context, in io.ReaderAt, size int64, name string) (*Wheel, error) {
	w := &Wheel{name: name, size: size, files: map[string]*zip.File{}}
	err := w.open(ctx, in)
	if err != nil {
		return nil, w.refused(err)
	}
	return w, nil
}

// Name returns the normalized name of the package, which is the same in the file name and
// in the metadata.
func (w *Wheel) Name() string { return w.file.Name }

// IsVersion reports whether the wheel has the version, however it is spelled.
func (w *Wheel) IsVersion(version string) bool { return w.file.IsVersion(version) }

func (w *Wheel) refused(err error) error { return (&Artifact{name: w.name}).refused(err) }

func (w *Wheel) open(ctx context.Context, in io.ReaderAt) (err error) {
	if w.file, err = spec.ParseWheelName(w.name); err != nil {
		return err
	}
	directory := &budget{in: in, left: limits.WheelDirectory}
	w.zip, err = zip.NewReader(directory, w.size)
	if err != nil {
		return fault.Invalid.New(fmt.Sprintf("it is no zip archive, or one with a directory of more than %d MiB", limits.WheelDirectory>>20), err)
	}
	directory.left = math.MaxInt64 // the content is limited by the lengths in the directory
	if err := w.list(); err != nil {
		return err
	}
	if err := w.findInfo(); err != nil {
		return err
	}
	return w.readMetadata(ctx)
}

// list collects the files of the archive.
func (w *Wheel) list() error {
	var total uint64
	for _, f := range w.zip.File {
		if strings.HasSuffix(f.Name, "/") {
			continue
		}
		name, err := local(f.Name)
		switch {
		case err != nil:
			return err
		case strings.ContainsRune(name, '\\'):
			return invalid("the path %s has a backslash", clip(name))
		case f.Mode()&fs.ModeType != 0:
			return invalid("%s is not a regular file, and wheels have no others", clip(name))
		case f.Flags&1 != 0:
			return invalid("%s is encrypted", clip(name))
		case f.Method != zip.Store && f.Method != zip.Deflate:
			return invalid("%s is compressed with an unknown method", clip(name))
		case w.files[name] != nil:
			return invalid("%s occurs twice", clip(name))
		}
		if total += f.UncompressedSize64; f.UncompressedSize64 > limits.ArtifactBytes {
			total = limits.ArtifactBytes + 1
		}
		if err := (&meter{packed: w.size}).tooLong(int64(min(total, limits.ArtifactBytes+1))); err != nil {
			return err
		}
		w.files[name] = f
		w.order = append(w.order, name)
	}
	return nil
}

// findInfo finds the folder with the metadata, and checks that its name matches the file
// name of the wheel.
func (w *Wheel) findInfo() error {
	for _, name := range w.order {
		top, _, below := strings.Cut(name, "/")
		stem, is := strings.CutSuffix(top, ".dist-info")
		if !below || !is || top == w.info {
			continue
		}
		if w.info != "" {
			return invalid("it has two folders of metadata, %s and %s", clip(w.info), clip(top))
		}
		pkg, version, _ := strings.Cut(stem, "-")
		if spec.NormalName(pkg) != w.file.Name || !w.file.IsVersion(version) {
			return invalid("its metadata are in %s, which belongs to another package", clip(top))
		}
		w.info, w.data = top, stem+".data"
	}
	if w.info == "" {
		return invalid("it has no folder .dist-info")
	}
	return nil
}

// read opens a file of the archive. Its content has the length that the zip's directory
// states, and its checksum is verified at the end.
func (w *Wheel) read(name string) (io.ReadCloser, error) {
	f := w.files[name]
	if f == nil {
		return nil, invalid("it has no %s", clip(name))
	}
	in, err := f.Open()
	if err != nil {
		return nil, fault.Invalid.New("its archive is broken", err)
	}
	return struct {
		io.Reader
		io.Closer
	}{content{in}, in}, nil
}

// small opens a file of the metadata that has at most the given number of bytes.
func (w *Wheel) small(name string, most uint64) (io.ReadCloser, error) {
	name = path.Join(w.info, name)
	if f := w.files[name]; f != nil && f.UncompressedSize64 > most {
		return nil, invalid("%s is longer than %d MiB", clip(name), most>>20)
	}
	return w.read(name)
}

// has reports whether the metadata have a file.
func (w *Wheel) has(name string) bool { return w.files[path.Join(w.info, name)] != nil }

// firstLine returns the first line of a file with its line end, and a reader of the rest. A
// line that is longer than limits.ArtifactPath is split there.
func firstLine(in io.Reader) (line []byte, rest *bufio.Reader, err error) {
	rest = bufio.NewReaderSize(in, limits.ArtifactPath)
	line, err = rest.ReadSlice('\n')
	line = append([]byte(nil), line...)
	if errors.Is(err, bufio.ErrBufferFull) || errors.Is(err, io.EOF) {
		err = nil
	}
	return line, rest, err
}

// Program soci-judge reads zTOCs with the library of soci-snapshotter. It needs cgo and zlib.
//
//	soci-judge compare LAYER COMPRESSION TOOL ZTOC
//
// fails unless the library creates the same zTOC for the layer.
//
//	soci-judge ranges LAYER ZTOC TAR COUNT SEED
//
// fails unless COUNT random ranges of the layer, which are read with the zTOC in both ways of
// the library, and as many random files, are those of the tar, and each span has its digest.
//
//	soci-judge convert LAYOUT DIGEST PLATFORM TOOL [PATH…]
//
// prints the digest of the image with a SOCI index that the library makes of the image with a
// digest in an OCI layout, in which it stores the result. The paths are files to prefetch.
//
//	soci-judge image LAYOUT DIGEST COUNT SEED
//
// fails unless the image with a digest in an OCI layout has a SOCI index for each platform, as
// the snapshotter looks for it, and each of its zTOCs passes the checks of ranges for its layer. It
// prints the ranges of spans in prefetch artifacts, which must be those of a zTOC.
package main

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"

	"github.com/awslabs/soci-snapshotter/ztoc"
	"github.com/awslabs/soci-snapshotter/ztoc/compression"
	"github.com/opencontainers/go-digest"
)

func main() {
	var err error
	switch {
	case len(os.Args) == 6 && os.Args[1] == "compare":
		err = compare(os.Args[2], os.Args[3], os.Args[4], os.Args[5])
	case len(os.Args) == 7 && os.Args[1] == "ranges":
		err = ranges(os.Args[2], os.Args[3], os.Args[4], os.Args[5], os.Args[6])
	case len(os.Args) >= 6 && os.Args[1] == "convert":
		err = convert(os.Args[2], os.Args[3], os.Args[4], os.Args[5], os.Args[6:])
	case len(os.Args) == 6 && os.Args[1] == "image":
		err = image(os.Args[2], os.Args[3], os.Args[4], os.Args[5])
	default:
		err = errors.New("usage: soci-judge compare LAYER COMPRESSION TOOL ZTOC | ranges LAYER ZTOC TAR COUNT SEED | convert LAYOUT DIGEST PLATFORM TOOL [PATH…] | image LAYOUT DIGEST COUNT SEED")
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "soci-judge:", err)
		os.Exit(1)
	}
}

const spanSize = 4 << 20

func compare(layer, algorithm, tool, file string) error {
	theirs, err := ztoc.NewBuilder(tool).BuildZtoc(layer, spanSize, ztoc.WithCompression(algorithm))
	if err != nil {
		return err
	}
	in, _, err := ztoc.Marshal(theirs)
	if err != nil {
		return err
	}
	var want bytes.Buffer
	if _, err := want.ReadFrom(in); err != nil {
		return err
	}
	got, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	fmt.Printf("%d spans, %d files, %d bytes\n", theirs.MaxSpanID+1, len(theirs.FileMetadata), len(got))
	if !bytes.Equal(got, want.Bytes()) {
		return fmt.Errorf("the zTOC has %d bytes, and differs from that of the library, which has %d", len(got), want.Len())
	}
	return nil
}

// reader reads ranges of a layer.
type reader struct {
	layer, raw []byte
	file       string
	toc        *ztoc.Ztoc
	info       compression.Zinfo
}

func ranges(layer, file, tarball, count, seed string) error {
	n, err := strconv.Atoi(count)
	if err != nil {
		return err
	}
	s, err := strconv.ParseUint(seed, 10, 64)
	if err != nil {
		return err
	}
	r := reader{file: layer}
	if r.layer, err = os.ReadFile(layer); err != nil {
		return err
	}
	if r.raw, err = os.ReadFile(tarball); err != nil {
		return err
	}
	in, err := os.Open(file)
	if err != nil {
		return err
	}
	if r.toc, err = ztoc.Unmarshal(in); err != nil {
		return err
	}
	if r.info, err = r.toc.Zinfo(); err != nil {
		return err
	}
	if err := r.spans(); err != nil {
		return err
	}
	random := rand.New(rand.NewPCG(s, s)) //nolint:gosec // reproducible
	for range n {
		from := random.Int64N(int64(r.toc.UncompressedArchiveSize))
		length := 1 + random.Int64N(min(int64(r.toc.UncompressedArchiveSize)-from, 1<<random.IntN(24)))
		if err := r.check(from, length); err != nil {
			return err
		}
	}
	for range n {
		f := r.toc.FileMetadata[random.IntN(len(r.toc.FileMetadata))]
		if f.UncompressedSize > 0 {
			if err := r.check(int64(f.UncompressedOffset), int64(f.UncompressedSize)); err != nil {
				return fmt.Errorf("%s: %w", f.Name, err)
			}
		}
	}
	fmt.Printf("%d ranges and files in %d spans are equal\n", n, len(r.toc.SpanDigests))
	return nil
}

// bounds returns the bytes of the layer that have a span.
func (r reader) bounds(id compression.SpanID) (from, to compression.Offset) {
	return r.info.StartCompressedOffset(id), r.info.EndCompressedOffset(id, r.toc.CompressedArchiveSize)
}

// spans checks the digest of each span, and decompresses each from its own bytes alone, as the
// snapshotter does.
func (r reader) spans() error {
	if int(r.toc.CompressedArchiveSize) != len(r.layer) {
		return fmt.Errorf("the zTOC is of a layer of %d bytes", r.toc.CompressedArchiveSize)
	}
	for id := compression.SpanID(0); id <= r.toc.MaxSpanID; id++ {
		from, to := r.bounds(id)
		if got := digest.FromBytes(r.layer[from:to]); got != r.toc.SpanDigests[id] {
			return fmt.Errorf("span %d has the digest %s instead of %s", id, got, r.toc.SpanDigests[id])
		}
		start, end := r.info.StartUncompressedOffset(id), r.info.EndUncompressedOffset(id, r.toc.UncompressedArchiveSize)
		got, err := r.info.ExtractDataFromBuffer(r.layer[from:to], end-start, start, id)
		if err != nil {
			return fmt.Errorf("span %d: %w", id, err)
		}
		if !bytes.Equal(got, r.raw[start:end]) {
			return fmt.Errorf("span %d differs", id)
		}
	}
	return nil
}

// check reads a range from the file, and from the bytes of its spans.
func (r reader) check(from, length int64) error {
	offset, size := compression.Offset(from), compression.Offset(length)
	want := r.raw[from : from+length]
	got, err := r.info.ExtractDataFromFile(r.file, size, offset)
	if err != nil || !bytes.Equal(got, want) {
		return fmt.Errorf("the range %d+%d of the file differs: %w", from, length, err)
	}
	first, last := r.info.UncompressedOffsetToSpanID(offset), r.info.UncompressedOffsetToSpanID(offset+size-1)
	begin, _ := r.bounds(first)
	_, end := r.bounds(last)
	got, err = r.info.ExtractDataFromBuffer(r.layer[begin:end], size, offset, first)
	if err != nil || !bytes.Equal(got, want) {
		return fmt.Errorf("the range %d+%d of the spans %d to %d differs: %w", from, length, first, last, err)
	}
	return nil
}

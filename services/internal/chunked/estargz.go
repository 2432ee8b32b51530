package chunked

import (
	"archive/tar"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"

	"github.com/opencontainers/go-digest"
)

// Annotations of eStargz layers: the digest of the TOC, and the length of the decompressed layer.
const (
	EstargzTOC  = "containerd.io/snapshot/stargz/toc.digest"
	EstargzSize = "io.containers.estargz.uncompressed-size"
)

// estargzName is the name of the TOC in the tar.
const estargzName = "stargz.index.json"

// closeEstargz appends the TOC as another tar with one file, and the footer.
func (w *Writer) closeEstargz() error {
	toc, err := w.toc("")
	if err != nil {
		return err
	}
	var packed bytes.Buffer
	t := tar.NewWriter(&packed)
	err = t.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: estargzName, Size: int64(len(toc))})
	_, failed := t.Write(toc)
	if err := errors.Join(err, failed, t.Close()); err != nil {
		return err
	}
	w.trailer = packed.Bytes()
	at := w.out.n
	if err := errors.Join(w.compress(w.trailer), w.endFrame()); err != nil {
		return err
	}
	w.notes = map[string]string{EstargzTOC: digest.FromBytes(toc).String(), EstargzSize: strconv.FormatInt(w.raw+int64(len(w.trailer)), 10)}
	_, err = w.out.Write(estargzFooter(at))
	return err
}

// estargzFooter returns an empty gzip stream whose header has the position of the TOC.
func estargzFooter(at int64) []byte {
	position := fmt.Sprintf("%016xSTARGZ", at)
	extra := append([]byte("SG"), binary.LittleEndian.AppendUint16(nil, uint16(len(position)))...)
	extra = append(extra, position...)
	out := []byte{0x1f, 0x8b, 8, 4, 0, 0, 0, 0, 0, 0xff}
	out = append(binary.LittleEndian.AppendUint16(out, uint16(len(extra))), extra...)
	return append(out, 1, 0, 0, 0xff, 0xff, 0, 0, 0, 0, 0, 0, 0, 0)
}

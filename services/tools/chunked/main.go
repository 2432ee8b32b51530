// Program chunked-judge reads layers whose files can be fetched one by one, with the libraries of
// stargz-snapshotter and of podman.
//
//	chunked-judge estargz LAYER ANNOTATIONS TAR
//
// fails unless the library of stargz-snapshotter verifies the table of contents of the layer and each
// part of its files, and reads the files of the tar.
//
//	chunked-judge zstd LAYER ANNOTATIONS TAR FOLDER
//
// fails unless the library of podman pulls the layer in parts into a store in the folder, with the
// digest of the tar and its files. It prints how many bytes it fetched. It needs root.
package main

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path"

	"github.com/containerd/stargz-snapshotter/estargz"
	"github.com/opencontainers/go-digest"
	"go.podman.io/storage/pkg/reexec"
)

func main() {
	if reexec.Init() { // the library starts this program again
		return
	}
	var err error
	switch {
	case len(os.Args) == 5 && os.Args[1] == "estargz":
		err = stargz(os.Args[2], os.Args[3], os.Args[4])
	case len(os.Args) == 6 && os.Args[1] == "zstd":
		err = zstd(os.Args[2], os.Args[3], os.Args[4], os.Args[5])
	default:
		err = errors.New("usage: chunked-judge estargz LAYER ANNOTATIONS TAR | zstd LAYER ANNOTATIONS TAR FOLDER")
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "chunked-judge:", err)
		os.Exit(1)
	}
}

// notes reads the annotations of a layer.
func notes(file string) (out map[string]string, err error) {
	raw, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	return out, json.Unmarshal(raw, &out)
}

// eachFile calls visit with the files of a tar.
func eachFile(file string, visit func(h *tar.Header, content []byte) error) error {
	in, err := os.Open(file)
	if err != nil {
		return err
	}
	defer in.Close()
	for r := tar.NewReader(in); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		content, err := io.ReadAll(r)
		if err != nil {
			return err
		}
		if err := visit(h, content); err != nil {
			return fmt.Errorf("%s: %w", h.Name, err)
		}
	}
}

func stargz(layer, annotations, tarball string) error {
	all, err := notes(annotations)
	if err != nil {
		return err
	}
	raw, err := os.ReadFile(layer)
	if err != nil {
		return err
	}
	r, err := estargz.Open(io.NewSectionReader(bytes.NewReader(raw), 0, int64(len(raw))))
	if err != nil {
		return err
	}
	verify, err := r.VerifyTOC(digest.Digest(all[estargz.TOCJSONDigestAnnotation]))
	if err != nil {
		return err
	}
	files := 0
	err = eachFile(tarball, func(h *tar.Header, content []byte) error {
		e, ok := r.Lookup(path.Clean(h.Name))
		if !ok {
			return errors.New("the table of contents lacks it")
		}
		if h.Typeflag != tar.TypeReg {
			return nil
		}
		files++
		in, err := r.OpenFile(path.Clean(h.Name))
		if err != nil {
			return err
		}
		got, err := io.ReadAll(in)
		if err != nil || !bytes.Equal(got, content) || e.Size != int64(len(content)) {
			return fmt.Errorf("%d bytes differ: %w", len(got), err)
		}
		for at := int64(0); at < e.Size; {
			c, ok := r.ChunkEntryForOffset(path.Clean(h.Name), at)
			if !ok {
				return fmt.Errorf("no part has the offset %d", at)
			}
			check, err := verify.Verifier(c)
			if err != nil {
				return err
			}
			if _, err := check.Write(content[c.ChunkOffset : c.ChunkOffset+c.ChunkSize]); err != nil || !check.Verified() {
				return fmt.Errorf("the part at %d has another digest: %w", at, err)
			}
			at = c.ChunkOffset + c.ChunkSize
		}
		return nil
	})
	fmt.Printf("%d files are equal\n", files)
	return err
}

package ztoc_test

import (
	"archive/tar"
	"bytes"
	stdgzip "compress/gzip"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/klauspost/compress/gzip"

	"slipway.dev/services/internal/ztoc"
)

// TestGenuineLibrary checks with the library of soci-snapshotter that zTOCs are those that it
// creates, and that it reads 1,000 random ranges, and files, of the layers with them.
// SLIPWAY_TEST_CLIENTS is a folder that services/tools/clients.sh has filled.
func TestGenuineLibrary(t *testing.T) {
	t.Parallel()
	judge := filepath.Join(os.Getenv("SLIPWAY_TEST_CLIENTS"), "bin", "soci-judge")
	if _, err := os.Stat(judge); err != nil {
		t.Skip("NOT TESTED with soci-snapshotter: SLIPWAY_TEST_CLIENTS names no folder with bin/soci-judge; services/tools/clients.sh builds it")
	}
	r := rand.New(rand.NewPCG(3, 4))
	for name, raw := range map[string][]byte{"files": files(t), "generated": archive(t, r, 30<<20)} {
		for _, l := range layers(t, raw) {
			t.Run(name+"/"+l.name, func(t *testing.T) {
				t.Parallel()
				dir := t.TempDir()
				write := func(name string, content []byte) string {
					name = filepath.Join(dir, name)
					if err := os.WriteFile(name, content, 0o600); err != nil {
						t.Fatal(err)
					}
					return name
				}
				layer, toc, plain := write("layer", l.bytes), write("ztoc", l.toc.Marshal("slipway")), write("tar", raw)
				run(t, judge, "compare", layer, l.algorithm, "slipway", toc)
				ranges := "50" // a range takes 20 ms
				if l.name == "recorded-6" {
					ranges = "1000"
				}
				run(t, judge, "ranges", layer, toc, plain, ranges, "1")
			})
		}
	}
}

func run(t *testing.T, program string, args ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), program, args...)
	cmd.Env = []string{"TZ=UTC"} // the library stores times in the local time zone
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", args[0], err, out)
	}
	t.Logf("%s: %s", args[0], out)
}

// files returns a tar of this program and of the files of the module.
func files(t *testing.T) []byte {
	t.Helper()
	executable, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	program, err := os.ReadFile(executable)
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: "bin/program", Mode: 0o755, Size: int64(len(program))}); err != nil {
		t.Fatal(err)
	}
	_, err = w.Write(program)
	if err := errors.Join(err, w.AddFS(os.DirFS("../..")), w.Close()); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// layer is a layer, with its zTOC.
type layer struct {
	name, algorithm string
	bytes           []byte
	toc             *ztoc.Ztoc
}

// layers returns the tar as layers that different programs compress.
func layers(t *testing.T, raw []byte) []layer {
	t.Helper()
	toc, err := ztoc.FromTar(bytes.NewReader(raw))
	if err != nil {
		t.Fatal(err)
	}
	out := []layer{{"tar", "uncompressed", raw, toc}}
	for _, level := range []int{1, 6} {
		var packed bytes.Buffer
		w, err := ztoc.NewWriter(&packed, level)
		if err != nil {
			t.Fatal(err)
		}
		_, err = w.Write(raw)
		if err := errors.Join(err, w.Close()); err != nil {
			t.Fatal(err)
		}
		out = append(out, layer{fmt.Sprintf("recorded-%d", level), "gzip", packed.Bytes(), w.Ztoc()})
	}
	for name, compress := range compressors() {
		var packed bytes.Buffer
		if err := compress(&packed, raw); err != nil {
			t.Fatal(err)
		}
		toc, err := ztoc.FromGzip(bytes.NewReader(packed.Bytes()))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		out = append(out, layer{name, "gzip", packed.Bytes(), toc})
	}
	return out
}

func compressors() map[string]func(out io.Writer, raw []byte) error {
	standard := func(level int) func(io.Writer, []byte) error {
		return func(out io.Writer, raw []byte) error {
			w, err := stdgzip.NewWriterLevel(out, level)
			if err != nil {
				return err
			}
			_, err = w.Write(raw)
			return errors.Join(err, w.Close())
		}
	}
	return map[string]func(io.Writer, []byte) error{
		"standard-0": standard(0), "standard-6": standard(6), "standard-huffman": standard(stdgzip.HuffmanOnly),
		"lazy": func(out io.Writer, raw []byte) error {
			w, err := gzip.NewWriterLevel(out, 9)
			if err != nil {
				return err
			}
			w.Name, w.Comment, w.Extra = "layer.tar", "a comment", []byte("extra")
			_, err = w.Write(raw)
			return errors.Join(err, w.Close())
		},
		"members": func(out io.Writer, raw []byte) error { // as mgzip and bgzip write
			for len(raw) > 0 {
				n := min(len(raw), 1<<20)
				if err := standard(1)(out, raw[:n]); err != nil {
					return err
				}
				raw = raw[n:]
			}
			return nil
		},
		"flushed": func(out io.Writer, raw []byte) error { // as pigz writes
			w := gzip.NewWriter(out)
			for len(raw) > 0 {
				n := min(len(raw), 128<<10)
				if _, err := w.Write(raw[:n]); err != nil {
					return err
				}
				if err := w.Flush(); err != nil {
					return err
				}
				raw = raw[n:]
			}
			return w.Close()
		},
	}
}

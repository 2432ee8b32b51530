package sif_test

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"slipway.dev/services/builder/flatten"
	"slipway.dev/services/builder/sif"
	"slipway.dev/services/builder/squashfs"
	"slipway.dev/services/internal/limits"
	"slipway.dev/services/internal/testkit/real"
)

// peakMemory is the maximum memory for making an image of any layers, in KiB.
const peakMemory = 256 << 10

// hostileEntries returns the entries of a layer that is small when stored and costs as much
// memory as possible. The result more is false after the last entry.
func hostileEntries(kind string, i int) (h *tar.Header, more bool) {
	long := strings.Repeat("n", 240)
	file := func(name string) *tar.Header {
		return &tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o644, Size: 8}
	}
	link := func(name, to string) *tar.Header {
		return &tar.Header{Typeflag: tar.TypeLink, Name: name, Linkname: to}
	}
	const most = limits.ImageEntries - 100
	hardLinks := map[string]int{"hard links": most / 2, "replaced hard links": most / 4}
	switch kind {
	case "files":
		return file(fmt.Sprintf("%d/%d", i/1000, i)), i < most
	case "some files": // fewer than the limit
		return file(fmt.Sprintf("%d/%d", i/1000, i)), i < 700_000
	case "one folder":
		return file(fmt.Sprint(i)), i < most
	case "folders":
		return &tar.Header{Typeflag: tar.TypeDir, Name: fmt.Sprintf("%d/%d/", i/2, i), Mode: 0o755}, i < most
	case "deep folders":
		return file(fmt.Sprint(i, strings.Repeat("/d", 1000))), i < most/1000
	case "long names":
		return file(fmt.Sprint(long, i)), i < most
	case "targets":
		return &tar.Header{Typeflag: tar.TypeSymlink, Name: fmt.Sprint(i), Linkname: strings.Repeat("t", 4000)}, i < most
	case "attributes":
		h := file(fmt.Sprint(i))
		h.PAXRecords = map[string]string{"SCHILY.xattr.user.x": fmt.Sprint(i, long, long, long, long)}
		return h, i < most
	case "hard links", "replaced hard links":
		if i%2 == 0 {
			return file(fmt.Sprint("a", i)), i < hardLinks[kind]
		}
		return link(fmt.Sprint("b", i), fmt.Sprint("a", i-1)), i < hardLinks[kind]
	case "replacing":
		return file(fmt.Sprint("a", 2*i)), i < hardLinks["replaced hard links"]/2
	}
	panic(kind)
}

// hostileLayer generates a layer while it is read.
func hostileLayer(kind string) flatten.Layer {
	return flatten.Layer{Name: kind, Size: 4 << 30, Open: func(context.Context) (io.ReadCloser, error) {
		r, w := io.Pipe()
		go func() {
			out := tar.NewWriter(w)
			var err error
			for i := 0; err == nil; i++ {
				h, more := hostileEntries(kind, i)
				if !more {
					err = out.Close()
					break
				}
				if err = out.WriteHeader(h); err == nil && h.Typeflag == tar.TypeReg {
					_, err = fmt.Fprintf(out, "%08d", i)
				}
			}
			_ = w.CloseWithError(err)
		}()
		return r, nil
	}}
}

// hostile builds an image of hostile layers, and prints the memory that it used and the
// result.
func hostile(dir, kind string) {
	layers := []sif.Layer{{Layer: hostileLayer(kind)}}
	if kind == "replaced hard links" {
		layers = append(layers, sif.Layer{Layer: hostileLayer("replacing")})
	}
	_, err := sif.Make(context.Background(), dir, sif.Image{Config: []byte(config), Layers: layers, Compressor: compressor(squashfs.Compression{}), Limits: flatten.Limits{
		Bytes: 32 << 30, Entries: limits.ImageEntries, Names: limits.ImageEntries, NameBytes: limits.ImageNameBytes,
	}})
	if err != nil && !errors.As(err, new(*flatten.Refusal)) && !errors.As(err, new(*squashfs.Refusal)) {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	var own syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &own)
	fmt.Println(own.Maxrss, err)
}

// TestAttackLayerTables builds images of small layers that contain as many entries, names,
// links or attributes as possible, each in its own process. It checks that memory stays
// bounded and that layers beyond the limits are rejected.
func TestAttackLayerTables(t *testing.T) { //nolint:paralleltest // each takes a processor
	if !real.Servers() {
		t.Skip("takes a while: SLIPWAY_TEST_REAL is not set")
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	kinds := map[string]bool{
		"files": true, "some files": false, "one folder": true, "folders": true, "deep folders": true, "long names": true, "targets": true, "attributes": true,
		"hard links": false, "replaced hard links": false,
	}
	if os.Getenv("SLIPWAY_TEST_RACE") != "" { // each takes a minute or two
		kinds = map[string]bool{"deep folders": true, "targets": true}
	}
	for kind, refused := range kinds {
		t.Run(kind, func(t *testing.T) { //nolint:paralleltest // as above
			cmd := exec.CommandContext(t.Context(), self)
			cmd.Env = append(os.Environ(), "SLIPWAY_TEST_HOSTILE_SIF="+t.TempDir(), "SLIPWAY_TEST_HOSTILE_KIND="+kind)
			out, err := cmd.CombinedOutput()
			if err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			peak, end := 0, ""
			if _, err := fmt.Sscan(string(out), &peak, &end); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			t.Logf("%d MiB: %s", peak>>10, out)
			bound := peakMemory
			if os.Getenv("SLIPWAY_TEST_RACE") != "" {
				bound *= 6 // overhead of the race detector
			}
			if peak > bound {
				t.Errorf("it takes %d KiB, more than %d", peak, bound)
			}
			if (end != "<nil>") != refused {
				t.Errorf("refused is %v, want %v: %s", end != "<nil>", refused, out)
			}
		})
	}
}

package sif_test

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	native "github.com/sylabs/sif/v2/pkg/sif"

	"slipway.dev/services/builder/flatten"
	"slipway.dev/services/builder/sif"
	"slipway.dev/services/builder/squashfs"
	"slipway.dev/services/internal/testkit/real"
)

// TestMain also runs the programs that TestMakeInLittleMemory and TestAttackLayerTables
// measure.
func TestMain(m *testing.M) {
	if dir := os.Getenv("SLIPWAY_TEST_LARGE_SIF"); dir != "" {
		large(dir)
		return
	}
	if dir := os.Getenv("SLIPWAY_TEST_HOSTILE_SIF"); dir != "" {
		hostile(dir, os.Getenv("SLIPWAY_TEST_HOSTILE_KIND"))
		return
	}
	os.Exit(m.Run())
}

// image is a Singularity image in a file.
type image struct {
	sif.File
	Path string
}

// made makes an image and writes it to a file.
func made(t testing.TB, img sif.Image) (image, error) {
	t.Helper()
	if img.Compressor == nil {
		img.Compressor = compressor(squashfs.Compression{})
	}
	f, err := sif.Make(t.Context(), t.TempDir(), img)
	if err != nil {
		return image{}, err
	}
	defer func() { _ = f.Close() }()
	out, err := os.OpenFile(filepath.Join(t.TempDir(), "image.sif"), os.O_CREATE|os.O_WRONLY, 0o700)
	if err != nil {
		t.Fatal(err)
	}
	_, err = io.Copy(out, f.Reader())
	return image{f, out.Name()}, errors.Join(err, out.Close())
}

func compressor(c squashfs.Compression) *squashfs.Compressor {
	out, err := squashfs.NewCompressor(c, 2)
	if err != nil {
		panic(err)
	}
	return out
}

const config = `{"architecture":"arm64","os":"linux","config":{
	"Env":["PATH=/opt/bin:/bin","GREETING=it's \"quoted\" $HOME","not.a.name=x"],
	"Entrypoint":["/bin/run me"],"Cmd":["a'b","--c"],"Labels":{"who":"ada"}}}`

func layer(t testing.TB, entries ...*tar.Header) sif.Layer {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, h := range entries {
		if err := w.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(bytes.Repeat([]byte{'x'}, int(h.Size))); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return sif.Layer{Layer: flatten.Layer{Name: "test", Size: int64(b.Len()), Open: func(context.Context) (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(b.Bytes())), nil
	}}}
}

// unpack returns a folder with an image's content.
func unpack(t testing.TB, path string) string {
	t.Helper()
	if !real.Servers() {
		t.Skip("needs unsquashfs: SLIPWAY_TEST_REAL is not set")
	}
	image, err := native.LoadContainerFromPath(path, native.OptLoadWithFlag(os.O_RDONLY))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = image.UnloadContainer() }()
	part, err := image.GetDescriptor(native.WithPartitionType(native.PartPrimSys))
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "root")
	out, err := exec.Command("unsquashfs", "-no-progress", "-o", fmt.Sprint(part.Offset()), "-d", dir, path).CombinedOutput()
	if err != nil {
		t.Fatalf("unsquashfs: %v\n%s", err, out)
	}
	return dir
}

// TestMakeIsAnImage checks everything that a runtime reads, since no runtime is available
// here.
func TestMakeIsAnImage(t *testing.T) {
	t.Parallel()
	f, err := made(t, sif.Image{Config: []byte(config), Layers: []sif.Layer{layer(t)}})
	if err != nil {
		t.Fatal(err)
	}
	image, err := native.LoadContainerFromPath(f.Path, native.OptLoadWithFlag(os.O_RDONLY))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = image.UnloadContainer() }()
	if image.LaunchScript() != "#!/usr/bin/env run-singularity\n" || image.PrimaryArch() != "arm64" || !image.CreatedAt().IsZero() && image.CreatedAt().Unix() != 0 {
		t.Errorf("it is launched by %q for %s, made at %s", image.LaunchScript(), image.PrimaryArch(), image.CreatedAt())
	}
	all, err := image.GetDescriptors()
	if err != nil || len(all) != 1 {
		t.Fatalf("%d descriptors, %v", len(all), err)
	}
	kind, part, arch, err := all[0].PartitionMetadata()
	if err != nil || kind != native.FsSquash || part != native.PartPrimSys || arch != "arm64" || all[0].Offset()%4096 != 0 {
		t.Errorf("the partition is %v %v %s at %d, %v", kind, part, arch, all[0].Offset(), err)
	}
	if info, err := os.Stat(f.Path); err != nil || info.Size() != f.Size() {
		t.Errorf("the file is %v, %v; %d bytes were told", info, err, f.Size())
	}
}

// TestMakeRuns runs the scripts that start a container, with this machine's shell.
func TestMakeRuns(t *testing.T) {
	t.Parallel()
	f, err := made(t, sif.Image{Compressor: compressor(squashfs.Compression{Name: "gzip", Level: 1}), Config: []byte(config), Layers: []sif.Layer{layer(t)}})
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(unpack(t, f.Path), ".singularity.d")
	run := func(env, script string) string {
		cmd := exec.Command("sh", "-c", script)
		cmd.Dir, cmd.Env = dir, []string{"HOME=/h", env}
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Errorf("%s: %v\n%s", script, err, out)
		}
		return string(out)
	}
	show := `for f in env/*.sh; do . ./$f; done; echo "$PATH|$GREETING|$LD_LIBRARY_PATH"`
	if got := run("X=", show); got != "/opt/bin:/bin|it's \"quoted\" $HOME|/.singularity.d/libs\n" {
		t.Errorf("the variables are %s", got)
	}
	if got := run("GREETING=mine", show); !strings.Contains(got, "|mine|") {
		t.Errorf("the caller's variable became %s", got)
	}
	script, err := os.ReadFile(filepath.Join(dir, "runscript"))
	if want := "#!/bin/sh\n[ $# -gt 0 ] || set -- 'a'\\''b' '--c'\nexec '/bin/run me' \"$@\"\n"; err != nil || string(script) != want {
		t.Errorf("it is run by %s", script)
	}
	for _, name := range []string{"exec", "run", "shell", "start", "test"} {
		if info, err := os.Stat(filepath.Join(dir, "actions", name)); err != nil || info.Mode().Perm() != 0o755 {
			t.Errorf("the action %s is %v, %v", name, info, err)
		}
	}
	if labels, err := os.ReadFile(filepath.Join(dir, "labels.json")); err != nil || !strings.Contains(string(labels), `"who": "ada"`) {
		t.Errorf("the labels are %s", labels)
	}
}

// TestMakeKeepsTheImage compares the unpacked file systems, since a tar does not show
// everything.
func TestMakeKeepsTheImage(t *testing.T) {
	t.Parallel()
	img := sif.Image{Config: []byte(config), Layers: []sif.Layer{
		layer(t, &tar.Header{Typeflag: tar.TypeDir, Name: "tmp/", Mode: 0o711, Uid: 5},
			&tar.Header{Typeflag: tar.TypeReg, Name: "a", Mode: 0o4750, Uid: 7, Gid: 8, Size: 300_000},
			&tar.Header{Typeflag: tar.TypeLink, Name: "b", Linkname: "a"},
			&tar.Header{Typeflag: tar.TypeReg, Name: "deep/down/late", Mode: 0o600, Size: 3},
			&tar.Header{Typeflag: tar.TypeChar, Name: "dev/null", Mode: 0o666}),
		layer(t, &tar.Header{Typeflag: tar.TypeDir, Name: "deep/", Mode: 0o700, Uid: 9},
			&tar.Header{Typeflag: tar.TypeSymlink, Name: "environment", Linkname: "/mine"}),
	}}
	one, err := made(t, img)
	if err != nil {
		t.Fatal(err)
	}
	two, err := made(t, img)
	if err != nil || one.Digest != two.Digest || one.Summary.LeftOut != 1 {
		t.Errorf("made again %s is %s, %v; %d left out", one.Digest, two.Digest, err, one.Summary.LeftOut)
	}
	dir := unpack(t, one.Path)
	stat := func(name string) syscall.Stat_t {
		var s syscall.Stat_t
		if err := syscall.Lstat(filepath.Join(dir, name), &s); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		return s
	}
	for name, want := range map[string]struct{ mode, uid, gid uint32 }{
		"a": {syscall.S_IFREG | 0o4750, 7, 8}, "tmp": {syscall.S_IFDIR | 0o711, 5, 0}, "deep": {syscall.S_IFDIR | 0o700, 9, 0},
		"deep/down": {syscall.S_IFDIR | 0o755, 0, 0}, "deep/down/late": {syscall.S_IFREG | 0o600, 0, 0}, "var/tmp": {syscall.S_IFDIR | 0o1777, 0, 0},
	} {
		if s := stat(name); s.Mode != want.mode || os.Getuid() == 0 && (s.Uid != want.uid || s.Gid != want.gid) {
			t.Errorf("%s has the mode %o and belongs to %d:%d", name, s.Mode, s.Uid, s.Gid)
		}
	}
	if a, b := stat("a"), stat("b"); a.Ino != b.Ino || a.Nlink != 2 {
		t.Errorf("the hard link became a file: %d, %d", a.Ino, b.Ino)
	}
	if to, err := os.Readlink(filepath.Join(dir, "environment")); err != nil || to != "/mine" {
		t.Errorf("the image's own link became %q, %v", to, err)
	}
	if _, err := os.Lstat(filepath.Join(dir, "dev/null")); err == nil {
		t.Error("a device was kept")
	}
}

// TestMakeBeginsAgain makes an image whose layers cannot be written in one pass: one name
// of a file is replaced, and its other name is not.
func TestMakeBeginsAgain(t *testing.T) {
	t.Parallel()
	one := layer(t, &tar.Header{Typeflag: tar.TypeReg, Name: "a", Mode: 0o640, Size: 3}, &tar.Header{Typeflag: tar.TypeLink, Name: "b", Linkname: "a"})
	opened, open := 0, one.Open
	one.Open = func(ctx context.Context) (io.ReadCloser, error) { opened++; return open(ctx) }
	two := layer(t, &tar.Header{Typeflag: tar.TypeReg, Name: "a", Mode: 0o600, Size: 5})
	f, err := made(t, sif.Image{Config: []byte(config), Layers: []sif.Layer{one, two}})
	if err != nil {
		t.Fatal(err)
	}
	dir := unpack(t, f.Path)
	for name, want := range map[string]struct {
		size int64
		mode os.FileMode
	}{"a": {5, 0o600}, "b": {3, 0o640}} {
		if info, err := os.Lstat(filepath.Join(dir, name)); err != nil || info.Size() != want.size || info.Mode() != want.mode {
			t.Errorf("%s is %v, %v", name, info, err)
		}
	}
	if opened != 1 {
		t.Errorf("the layer was read %d times", opened)
	}
}

// TestMakeRefuses checks that errors of the image are distinguished from errors of the
// machine, and that no files remain.
func TestMakeRefuses(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	bad := layer(t, &tar.Header{Typeflag: tar.TypeReg, Name: "../x"})
	_, err := sif.Make(t.Context(), dir, sif.Image{Config: []byte(config), Layers: []sif.Layer{bad}, Compressor: compressor(squashfs.Compression{})})
	if err == nil || !strings.Contains(err.Error(), "leads out") {
		t.Errorf("a hostile layer: %v", err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
		t.Errorf("the files %v remain, %v", left, err)
	}
}

// TestMakeInLittleMemory makes an image of 2 GB in its own process, or a tenth of it under
// the race detector, which is slow.
func TestMakeInLittleMemory(t *testing.T) {
	if !real.Servers() {
		t.Skip("takes a while: SLIPWAY_TEST_REAL is not set")
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), "SLIPWAY_TEST_LARGE_SIF="+t.TempDir())
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	var peak int
	if _, err := fmt.Sscanf(string(out), "%d", &peak); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	bound := 64 << 10
	if os.Getenv("SLIPWAY_TEST_RACE") != "" {
		bound *= 6 // overhead of the race detector
	}
	t.Logf("%d KiB", peak)
	if peak > bound {
		t.Errorf("%d KiB are more than %d", peak, bound)
	}
}

// large makes an image of 2 GB in 20,000 files, and prints the memory that it used.
func large(dir string) {
	files := 20_000
	if os.Getenv("SLIPWAY_TEST_RACE") != "" {
		files /= 10
	}
	piece := make([]byte, 100<<10)
	for i := range piece {
		piece[i] = byte(i * i >> 7)
	}
	l := flatten.Layer{Name: "large", Open: func(context.Context) (io.ReadCloser, error) {
		r, w := io.Pipe()
		go func() {
			out := tar.NewWriter(w)
			var err error
			for i := 0; i < files && err == nil; i++ {
				copy(piece, fmt.Sprint(i))
				if err = out.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: fmt.Sprintf("some/folder-%d/file-%d", i/100, i), Mode: 0o644, Size: int64(len(piece))}); err == nil {
					_, err = out.Write(piece)
				}
			}
			if err == nil {
				err = out.Close()
			}
			_ = w.CloseWithError(err)
		}()
		return r, nil
	}, Size: 2 << 30}
	_, err := sif.Make(context.Background(), dir, sif.Image{Config: []byte(config), Layers: []sif.Layer{{Layer: l}}, Compressor: compressor(squashfs.Compression{})})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	var own syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &own)
	fmt.Println(own.Maxrss)
}

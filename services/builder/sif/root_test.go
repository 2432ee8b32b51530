package sif_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	native "github.com/sylabs/sif/v2/pkg/sif"

	"slipway.dev/services/builder/sif"
	"slipway.dev/services/builder/unsquash"
)

// single writes a SIF file with one partition.
func single(t testing.TB, fs native.FSType, part native.PartType, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "x.sif")
	d, err := native.NewDescriptorInput(native.DataPartition, strings.NewReader(content), native.OptPartitionMetadata(fs, part, "arm64"))
	if err != nil {
		t.Fatal(err)
	}
	image, err := native.CreateContainerAtPath(path, native.OptCreateDeterministic(), native.OptCreateWithDescriptors(d))
	if err != nil {
		t.Fatal(err)
	}
	if err := image.UnloadContainer(); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestFindRoot finds the root file system, and refuses files without one.
func TestFindRoot(t *testing.T) {
	t.Parallel()
	path := single(t, native.FsSquash, native.PartPrimSys, "the root")
	root, err := sif.FindRoot(path)
	if err != nil || root.Architecture != "arm64" {
		t.Fatalf("%+v, %v", root, err)
	}
	raw, err := os.ReadFile(path)
	if err != nil || string(raw[root.Offset:][:root.Size]) != "the root" {
		t.Errorf("another part of the file is the root: %+v, %v", root, err)
	}
	for want, raw := range map[string][]byte{
		"its header is malformed":                        []byte("#!/bin/sh\n"),
		"it is not a Singularity":                        bytes.Repeat([]byte{0}, 4096),
		"malformed":                                      bytes.Repeat([]byte{0xff}, 4096),
		"it has no root file system":                     read(t, single(t, native.FsSquash, native.PartData, "data")),
		"file system is not squashfs":                    read(t, single(t, native.FsExt3, native.PartPrimSys, "ext3")),
		"file system extends beyond the end of the file": raw[:len(raw)-1],
	} {
		path := filepath.Join(t.TempDir(), "x.sif")
		if err := os.WriteFile(path, raw, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := sif.FindRoot(path); !errors.As(err, new(*unsquash.Refusal)) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

func read(t testing.TB, path string) []byte {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// FuzzFindRoot checks that no file makes it panic, or find a root behind the file's end.
func FuzzFindRoot(f *testing.F) {
	f.Add(read(f, single(f, native.FsSquash, native.PartPrimSys, "the root")))
	f.Fuzz(func(t *testing.T, raw []byte) {
		path := filepath.Join(t.TempDir(), "x.sif")
		if err := os.WriteFile(path, raw, 0o600); err != nil {
			t.Fatal(err)
		}
		root, err := sif.FindRoot(path)
		if err == nil && (root.Offset < 0 || root.Size < 0 || root.Offset+root.Size > int64(len(raw))) {
			t.Errorf("%+v of %d bytes", root, len(raw))
		}
		if err != nil && !errors.As(err, new(*unsquash.Refusal)) {
			t.Error(err)
		}
	})
}

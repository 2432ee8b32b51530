package rootfs

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"

	native "github.com/sylabs/sif/v2/pkg/sif"
)

// image returns a Singularity image, written by the library of its authors, whose root file system has a content.
func image(t testing.TB, content string, kind native.FSType, part native.PartType, arch string) []byte {
	t.Helper()
	path := filepath.Join(t.TempDir(), "image.sif")
	d, err := native.NewDescriptorInput(native.DataPartition, bytes.NewReader([]byte(content)), native.OptPartitionMetadata(kind, part, arch))
	if err != nil {
		t.Fatal(err)
	}
	label, err := native.NewDescriptorInput(native.DataLabels, bytes.NewReader([]byte("{}")))
	if err != nil {
		t.Fatal(err)
	}
	f, err := native.CreateContainerAtPath(path, native.OptCreateWithDescriptors(label, d))
	if err != nil {
		t.Fatal(err)
	}
	if err := f.UnloadContainer(); err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

func TestRootOfSingularityImage(t *testing.T) {
	t.Parallel()
	for _, arch := range []string{"amd64", "arm64"} {
		raw := image(t, "squash", native.FsSquash, native.PartPrimSys, arch)
		got, err := findSquash(bytes.NewReader(raw), int64(len(raw)))
		if err != nil || got.arch != arch || string(raw[got.at:got.at+got.size]) != "squash" || !IsSingularity(raw) {
			t.Errorf("%+v, %v", got, err)
		}
	}
	cut := image(t, "squash", native.FsSquash, native.PartPrimSys, "amd64")
	many := bytes.Clone(cut)
	many[88+3] = 0x7f // descriptors
	for name, raw := range map[string][]byte{
		"empty": nil, "short": cut[:100], "cut": cut[:len(cut)-1], "without a list": cut[:200], "many parts": many, "text": bytes.Repeat([]byte("x"), 1000),
		"ext3": image(t, "x", native.FsExt3, native.PartPrimSys, "amd64"), "data": image(t, "x", native.FsSquash, native.PartData, "amd64"),
	} {
		if got, err := findSquash(bytes.NewReader(raw), int64(len(raw))); !errors.Is(err, errSingularity) {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
	if IsSingularity(nil) || IsSingularity(bytes.Repeat([]byte("x"), 1000)) {
		t.Error("another file is a Singularity image")
	}
}

func FuzzSingularity(f *testing.F) {
	f.Add(image(f, "squash", native.FsSquash, native.PartPrimSys, "amd64"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		got, err := findSquash(bytes.NewReader(raw), int64(len(raw)))
		if err == nil && (got.at < 0 || got.size < 0 || got.at+got.size > int64(len(raw))) {
			t.Errorf("%+v of %d bytes", got, len(raw))
		}
	})
}

package layering_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/zstd"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"slipway.dev/services/conda/packages/layering"
	"slipway.dev/services/conda/spec"
	"slipway.dev/services/internal/testkit"
	mounted "slipway.dev/services/mount/environment"
	"slipway.dev/services/mount/erofs"
	"slipway.dev/services/mount/pack"
)

// TestMountableHasTheImagesFiles checks that a mounted environment has exactly the files of its
// image, and that other workers make the same artifact, from layers and blobs of the registry, too.
func TestMountableHasTheImagesFiles(t *testing.T) {
	t.Parallel()
	ctx, reg := t.Context(), testkit.NewRegistry(t, testkit.Open)
	target, base := at(t, reg, "team/env:1"), bases(t, reg, true)["amd64"]
	var asked atomic.Int32
	lock := environment(t, &asked)
	m := newBuilder(t, t.TempDir())
	image, made, blobs := mountable(t, m, base, lock)
	if _, err := m.Push(ctx, target, image); err != nil {
		t.Fatal(err)
	}
	sent, err := m.PushMountable(ctx, target, made, false)
	if err != nil || sent == 0 {
		t.Fatalf("%d bytes were sent, %v", sent, err)
	}
	if sent, err = m.PushMountable(ctx, target, made, false); err != nil || sent != 0 {
		t.Errorf("%d bytes were sent again, %v", sent, err)
	}
	if diff := cmp.Diff(imageFiles(ctx, t, m, image), mountedFiles(ctx, t, m, made, blobs)); diff != "" {
		t.Errorf("the files differ (-image +mount):\n%s", diff)
	}
	_, again, _ := mountable(t, newBuilder(t, t.TempDir()), base, lock)
	if again.Manifest.Digest != made.Manifest.Digest {
		t.Errorf("another worker makes another artifact:\n%s\n%s", made.Manifest.Bytes, again.Manifest.Bytes)
	}
	other := newBuilder(t, t.TempDir())
	other.Share = &layering.Share{Target: target, Repository: "team/env"}
	fromRegistry, err := other.Mountable(ctx, lock, blobs, image)
	if err != nil || fromRegistry.Manifest.Digest != made.Manifest.Digest {
		t.Errorf("the indexes of blobs in the registry make another artifact: %v", err)
	}
	lied := newBuilder(t, t.TempDir())
	lied.Share = &layering.Share{Target: lying{target}, Repository: "team/env"}
	if fromCopies, err := lied.Mountable(ctx, lock, blobs, image); err != nil || fromCopies.Manifest.Digest != made.Manifest.Digest {
		t.Errorf("parts of blobs with other content make another artifact: %v", err)
	}
	wrong := slices.Clone(blobs)
	wrong[0].DiffID = wrong[1].DiffID
	if _, err := m.Mountable(ctx, lock, wrong, image); err == nil {
		t.Error("a blob with another index than the recorded one is accepted")
	}
}

// lying is a registry that returns parts of blobs with other content: the first half of each part is
// inverted.
type lying struct{ repository }

// GetPart returns other content.
func (r lying) GetPart(ctx context.Context, d ocispec.Descriptor, from, length int64) (io.ReadCloser, error) {
	in, err := r.repository.GetPart(ctx, d, from, length)
	if err != nil {
		return nil, err
	}
	defer func() { _ = in.Close() }()
	part, err := io.ReadAll(in)
	if err != nil {
		return nil, err
	}
	for i := range part[:len(part)/2] {
		part[i] ^= 0xff
	}
	return io.NopCloser(bytes.NewReader(part)), nil
}

func mountable(t *testing.T, m *layering.Builder, base layering.Base, lock []spec.Record) (layering.Image, layering.Mountable, []layering.Package) {
	t.Helper()
	ctx := t.Context()
	packages, err := m.Packages(ctx, lock)
	if err != nil {
		t.Fatal(err)
	}
	blobs, err := m.Blobs(ctx, lock, packages, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	image := environmentOf(t, m, base, "amd64", lock)
	made, err := m.Mountable(ctx, lock, blobs, image)
	if err != nil {
		t.Fatal(err)
	}
	if a, err := mounted.Parse(made.Manifest.Bytes); err != nil || len(a.Blobs) != len(lock) || a.Subject != image.Manifest.Digest {
		t.Fatalf("%+v, %v", a, err)
	}
	return image, made, blobs
}

// imageFiles returns the files of an image below the prefix: their modes, times and contents.
func imageFiles(ctx context.Context, t *testing.T, m *layering.Builder, image layering.Image) map[string]string {
	t.Helper()
	out := map[string]string{}
	add := func(in io.Reader) {
		z, err := gzip.NewReader(in)
		if err != nil {
			t.Fatal(err)
		}
		for r := tar.NewReader(z); ; {
			h, err := r.Next()
			if errors.Is(err, io.EOF) {
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			content, err := io.ReadAll(r)
			if err != nil {
				t.Fatal(err)
			}
			name, ok := strings.CutPrefix(h.Name, "opt/conda/")
			switch {
			case !ok || name == "":
			case h.Typeflag == tar.TypeDir:
				out[strings.TrimSuffix(name, "/")] = "directory"
			case h.Typeflag == tar.TypeSymlink:
				out[name] = fmt.Sprintf("link %s %d", h.Linkname, h.ModTime.Unix())
			case h.Typeflag == tar.TypeLink:
				out[name] = out[strings.TrimPrefix(h.Linkname, "opt/conda/")]
			default:
				out[name] = fmt.Sprintf("file %o %d %x", h.Mode, h.ModTime.Unix(), content)
			}
		}
	}
	for _, l := range image.Layers {
		in, err := m.Store.Open(ctx, l)
		if err != nil {
			t.Fatal(err)
		}
		add(in)
		_ = in.Close()
	}
	add(bytes.NewReader(image.OwnBlob))
	return out
}

// mountedFiles returns the files of a mountable environment in the same form.
func mountedFiles(ctx context.Context, t *testing.T, m *layering.Builder, made layering.Mountable, blobs []layering.Package) map[string]string {
	t.Helper()
	z, err := zstd.NewReader(bytes.NewReader(made.Index.Bytes))
	if err != nil {
		t.Fatal(err)
	}
	defer z.Close()
	raw, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	x, err := erofs.Open(raw)
	if err != nil {
		t.Fatal(err)
	}
	if err := x.Check(); err != nil {
		t.Fatal(err)
	}
	var devices []string
	for i, d := range x.Devices() {
		in, err := m.Store.Open(ctx, blobs[i].Layer)
		if err != nil {
			t.Fatal(err)
		}
		end := make([]byte, pack.TableSize(len(d.Chunks)))
		if _, err := in.ReadAt(end, blobs[i].Size-int64(len(end))); err != nil {
			t.Fatal(err)
		}
		if _, err := pack.ParseTable(end, len(d.Chunks), blobs[i].Size); err != nil {
			t.Fatal(err)
		}
		all, err := zstd.NewReader(in)
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(io.LimitReader(all, int64(d.Size)))
		if err != nil {
			t.Fatal(err)
		}
		all.Close()
		_ = in.Close()
		devices = append(devices, string(content))
	}
	out := map[string]string{}
	addTree(t, x, x.Root(), "", devices, out)
	return out
}

func addTree(t *testing.T, x *erofs.Index, dir uint64, at string, devices []string, out map[string]string) {
	t.Helper()
	err := x.Each(dir, 0, func(name string, nid uint64, kind byte, _ uint64) bool {
		i, _ := x.Inode(nid)
		full := path.Join(at, name)
		switch {
		case name == "." || name == "..":
		case kind == erofs.KindDir:
			out[full] = "directory"
			addTree(t, x, nid, full, devices, out)
		case kind == erofs.KindLink:
			target, _ := x.Target(nid)
			out[full] = fmt.Sprintf("link %s %d", target, i.Mtime)
		default:
			device, from, ok := x.Extent(nid)
			content := ""
			if data, isHere := x.Data(nid); isHere {
				content = string(data)
			} else if ok {
				content = devices[device][from : from+int64(i.Size)]
			} else {
				t.Errorf("%s has no extent", full)
			}
			out[full] = fmt.Sprintf("file %o %d %x", i.Mode&0o777, i.Mtime, content)
		}
		return true
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestStandalone checks that an environment without an image has the same index and blobs as that of an image, which
// are made once, whichever is made first.
func TestStandalone(t *testing.T) {
	t.Parallel()
	base := bases(t, testkit.NewRegistry(t, testkit.Open), true)["amd64"]
	var asked atomic.Int32
	lock := environment(t, &asked)
	standalone := func(dir string, missing int) layering.Mountable {
		t.Helper()
		m := newBuilder(t, dir)
		m.Compression = layering.Mounted
		m.Known = func(there, n int) {
			if n != missing {
				t.Errorf("%d blobs are missing instead of %d, %d exist", n, missing, there)
			}
		}
		blobs, err := m.Packages(t.Context(), lock)
		if err != nil {
			t.Fatal(err)
		}
		made, err := m.Standalone(t.Context(), layering.Environment{
			Platform: ocispec.Platform{OS: "linux", Architecture: "amd64"}, Title: "libcurl=8.4", Specs: []string{"libcurl=8.4", "it's"}, Records: lock, Packages: blobs,
		})
		if err != nil {
			t.Fatal(err)
		}
		return made
	}
	dir := t.TempDir()
	first := standalone(dir, len(lock))
	m := newBuilder(t, dir)
	packages, err := m.Packages(t.Context(), lock)
	if err != nil {
		t.Fatal(err)
	}
	_, err = m.Blobs(t.Context(), lock, packages, func(there, missing int) {
		if missing != 0 {
			t.Errorf("%d blobs are missing for the image, %d exist", missing, there)
		}
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	imagesFirst := t.TempDir()
	_, ofImage, _ := mountable(t, newBuilder(t, imagesFirst), base, lock)
	second := standalone(imagesFirst, 0)
	if first.Manifest.Digest != second.Manifest.Digest || first.Index.Digest != ofImage.Index.Digest {
		t.Errorf("the artifacts differ:\n%s\n%s\n%s", first.Manifest.Bytes, second.Manifest.Bytes, ofImage.Manifest.Bytes)
	}
	a, err := mounted.Parse(first.Manifest.Bytes)
	if err != nil || a.Subject != "" || len(a.Blobs) != len(lock) {
		t.Errorf("%+v, %v", a, err)
	}
	c, err := mounted.ParseConfig(first.Config.Bytes)
	if err != nil || c.Platform != "linux/amd64" || !slices.ContainsFunc(c.Env, func(v string) bool { return strings.HasPrefix(v, "PATH=/opt/conda/bin:") }) {
		t.Errorf("%+v, %v", c, err)
	}
}

package run

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"github.com/regclient/regclient/types/descriptor"

	"slipway.dev/services/cmd/slipway/internal/output"
	"slipway.dev/services/internal/limits"
	"slipway.dev/services/mount/cache"
	"slipway.dev/services/mount/environment"
	"slipway.dev/services/mount/rootfs"
)

// An imageOf is an image whose documents the cache has.
type imageOf struct {
	manifest ocispec.Manifest
	config   ocispec.Image
}

// readImage returns the documents of an image.
func readImage(c *cache.Cache, digest string) (imageOf, error) {
	var i imageOf
	raw, err := c.Document(digest)
	if err != nil {
		return i, fmt.Errorf("the manifest of the image is %w", err)
	}
	if err := json.Unmarshal(raw, &i.manifest); err != nil {
		return i, fmt.Errorf("the manifest of the image is not JSON: %w", err)
	}
	if isSingularity(i.manifest) || i.manifest.ArtifactType == environment.Type {
		return i, nil // a Singularity image, or an environment that is named itself: they have no such config
	}
	if raw, err = c.Document(i.manifest.Config.Digest.String()); err != nil {
		return i, fmt.Errorf("the config of the image is %w", err)
	}
	if err := json.Unmarshal(raw, &i.config); err != nil {
		return i, fmt.Errorf("the config of the image is not JSON: %w", err)
	}
	return i, nil
}

// baseLayers returns the layers of an image below those of its packages, which are mounted. Their history begins like that of package spec
// of the server.
func (i imageOf) baseLayers() []ocispec.Descriptor {
	var by []string
	for _, h := range i.config.History {
		if !h.EmptyLayer {
			by = append(by, h.CreatedBy)
		}
	}
	n := len(i.manifest.Layers)
	if len(by) != n {
		return i.manifest.Layers // more than is needed
	}
	for n > 0 && (strings.HasPrefix(by[n-1], "conda: ") || strings.HasPrefix(by[n-1], "pypi: ")) {
		n--
	}
	return i.manifest.Layers[:n]
}

// rootID identifies the merged files of layers in the cache.
func rootID(layers []ocispec.Descriptor) string {
	h := sha256.New()
	for _, l := range layers {
		fmt.Fprintf(h, "%s\n", l.Digest)
	}
	return hex.EncodeToString(h.Sum(nil))
}

// rootLayers returns the layers of the root of the command: those of the image, without those of its environment.
func (l *launch) rootLayers() ([]ocispec.Descriptor, error) {
	image, err := readImage(l.cache, l.name.ImageDigest)
	if err != nil {
		return nil, err
	}
	if l.name.Environment == l.name.ImageDigest {
		return nil, errors.New("the name is that of an environment, which has no root; name its image")
	}
	if l.name.Environment != "" {
		return image.baseLayers(), nil
	}
	return image.manifest.Layers, nil
}

// isUnpacked reports whether the cache has the root of the command.
func (l *launch) isUnpacked() bool {
	layers, err := l.rootLayers()
	if err != nil {
		return false
	}
	_, err = l.cache.Root(rootID(layers), time.Now(), nil)
	return err == nil
}

// unpackBase sets the root of the command. The first command unpacks it.
func (l *launch) unpackBase(ctx context.Context) error {
	layers, err := l.rootLayers()
	if err != nil {
		return err
	}
	if err := checkLayers(layers); err != nil {
		return err
	}
	var fill func(string) error
	if !l.offline {
		fill = func(work string) error { return l.fillRoot(ctx, work, layers) }
	}
	l.root, err = l.cache.Root(rootID(layers), time.Now(), fill)
	if errors.Is(err, cache.ErrMissing) {
		return fmt.Errorf("%w, and nothing is fetched; pull or run the image with a network first", err)
	}
	return err
}

// typeErofs is the beginning of the media types of layers that are EROFS images.
const typeErofs = "application/vnd.erofs.layer.v1"

// checkLayers checks what is unpacked before it is fetched.
func checkLayers(layers []ocispec.Descriptor) error {
	var size int64
	for _, l := range layers {
		if !strings.Contains(l.MediaType, "tar") && !strings.HasPrefix(l.MediaType, typeErofs) && l.MediaType != typeSingularity {
			return fmt.Errorf("the image has a layer of the unknown type %.100q", l.MediaType)
		}
		if l.Size < 0 || l.Digest.Validate() != nil {
			return errors.New("the manifest of the image is malformed")
		}
		if l.Size > limits.MountRootBytes-size { // the sum could overflow
			return fmt.Errorf("the layers of the image have more than %d bytes", int64(limits.MountRootBytes))
		}
		size += l.Size
	}
	return nil
}

// concurrentLayers is the number of layers that are fetched at the same time.
const concurrentLayers = 3

// fillRoot fetches layers into a folder, and unpacks them into the folder root of it.
func (l *launch) fillRoot(ctx context.Context, work string, layers []ocispec.Descriptor) error {
	var size int64
	for _, one := range layers {
		size += one.Size
	}
	fmt.Fprintf(l.stderr, "slipway: unpacking %s of the image with %s into the cache\n", output.Count(len(layers), "layer"), output.BytesText(float64(size)))
	r, err := newRegistry(l.name.Image, l.connection)
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	var all sync.WaitGroup
	next := make(chan int, len(layers))
	for i := range layers {
		next <- i
	}
	close(next)
	for range min(concurrentLayers, len(layers)) {
		all.Go(func() {
			for i := range next {
				if err := r.download(ctx, layers[i], layerFile(work, i)); err != nil {
					stop(err)
					return
				}
			}
		})
	}
	all.Wait()
	if err := context.Cause(ctx); err != nil {
		return err
	}
	var files []rootfs.Layer
	for i, one := range layers {
		files = append(files, layerOf(one, layerFile(work, i)))
	}
	return unpackLayers(ctx, work, files)
}

func unpackLayers(ctx context.Context, work string, files []rootfs.Layer) error {
	_, err := rootfs.Unpack(ctx, filepath.Join(work, "root"), files)
	return err
}

func layerFile(work string, i int) string { return filepath.Join(work, "layer"+strconv.Itoa(i)) }

// layerOf returns the layer of a file, whose digest was verified.
func layerOf(d ocispec.Descriptor, file string) rootfs.Layer {
	if d.MediaType == typeSingularity {
		return rootfs.Singularity(file, d.Size)
	}
	return rootfs.Layer{Name: d.Digest.String(), Size: d.Size, Open: func(context.Context) (io.ReadCloser, error) { return os.Open(file) }}
}

// download fetches a blob into a file, and verifies its digest. It fails if the registry sends nothing for some time.
func (r *registry) download(ctx context.Context, d ocispec.Descriptor, file string) (err error) {
	out, err := os.OpenFile(file, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("fetching the layer %s: %w", d.Digest, err)
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	idle := time.AfterFunc(limits.MountRange, func() { stop(fmt.Errorf("nothing was received for %s", limits.MountRange)) })
	defer idle.Stop()
	blob, err := r.client.BlobGet(ctx, r.at, descriptor.Descriptor{MediaType: d.MediaType, Digest: d.Digest, Size: d.Size})
	if err != nil {
		return fmt.Errorf("fetching the layer %s: %w", d.Digest, errors.Join(err, context.Cause(ctx)))
	}
	defer func() { _ = blob.Close() }()
	h := sha256.New()
	n, err := io.Copy(io.MultiWriter(out, h, touch{idle}), io.LimitReader(blob, d.Size+1))
	if err != nil {
		return fmt.Errorf("fetching the layer %s: %w", d.Digest, errors.Join(err, context.Cause(ctx)))
	}
	if got := "sha256:" + hex.EncodeToString(h.Sum(nil)); n != d.Size || got != d.Digest.String() {
		return fmt.Errorf("the registry returned %d bytes with the digest %s instead of the layer %s", n, got, d.Digest)
	}
	return nil
}

// touch restarts a timer at each write.
type touch struct{ timer *time.Timer }

func (t touch) Write(p []byte) (int, error) {
	t.timer.Reset(limits.MountRange)
	return len(p), nil
}

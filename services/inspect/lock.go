package inspect

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"path"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"google.golang.org/protobuf/proto"

	inspectv1 "slipway.dev/proto/gen/slipway/inspect/v1"

	"slipway.dev/services/conda/spec"
	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/layertar"
	"slipway.dev/services/internal/limits"
	"slipway.dev/services/internal/rpc"
)

// A lockedRecord holds those fields of a conda.Record that responses contain.
type lockedRecord struct {
	Name    string `json:"name"`
	Version string `json:"version"`
	Build   string `json:"build"`
	Channel string `json:"channel"`
	Subdir  string `json:"subdir"`
	License string `json:"license"`
	URL     string `json:"url"`
	SHA256  string `json:"sha256"`
	MD5     string `json:"md5"`
	Size    int64  `json:"size"`
	// Depends is only used in bills of materials.
	Depends []string `json:"depends"`
}

func (r lockedRecord) record() spec.Record {
	return spec.Record{
		Name: r.Name, Version: r.Version, Build: r.Build, Channel: r.Channel, Subdir: r.Subdir, License: r.License, URL: r.URL,
		SHA256: r.SHA256, MD5: r.MD5, Depends: r.Depends,
	}
}

func (r lockedRecord) toProto() *inspectv1.ImagePackage {
	kind := "conda"
	if r.record().IsWheel() {
		kind = spec.PyPI
	}
	p := &inspectv1.ImagePackage{
		Name: proto.String(r.Name), Version: proto.String(r.Version), Build: rpc.Optional(r.Build), Channel: rpc.Optional(r.Channel), Subdir: rpc.Optional(r.Subdir),
		License: rpc.Optional(r.License), Kind: proto.String(kind), Url: rpc.Optional(r.URL), Sha256: rpc.Optional(r.SHA256),
	}
	if r.Size > 0 {
		p.Size = proto.Float64(float64(r.Size))
	}
	return p
}

// readLock reads the lock with the digest want from a layer. See Service.readLock.
func readLock(ctx context.Context, from source, layer ocispec.Descriptor, want string, left *int64) ([]lockedRecord, error) {
	ctx, cancel := context.WithTimeout(ctx, limits.ListedTime)
	defer cancel()
	var raw []byte
	in := layertar.NewReader(layertar.Limits{Bytes: *left, Entries: limits.ImageLockEntries})
	err := in.Each(ctx, blobOf(from, layer, nil), func(_ int, h *tar.Header, content io.Reader) (err error) {
		if path.Clean(h.Name) == spec.LockFile && layertar.IsFile(h) {
			raw, err = io.ReadAll(content)
		}
		return err
	})
	if refusal, ok := errors.AsType[*layertar.LayerError](err); ok {
		return nil, &unknownPackages{"The layer " + refusal.Layer + " " + refusal.Reason + ", so the packages of the image are not known", false}
	}
	if err != nil {
		return nil, from.fault(err)
	}
	*left -= int64(len(raw))
	switch {
	case raw == nil:
		return nil, &unknownPackages{"The image was built by a version of Slipway that did not store the lock in images, so its packages are not known; build the image again", true}
	case digest.FromBytes(raw).String() != want:
		return nil, &unknownPackages{"The lock in the image does not have the digest that the image states, so its packages are not known", false}
	}
	return parseLock(raw)
}

// parseLock decodes a lock, of at most limits.ImageLockPackages packages.
func parseLock(raw []byte) ([]lockedRecord, error) {
	in := json.NewDecoder(bytes.NewReader(raw))
	if t, err := in.Token(); err != nil || t != json.Delim('[') {
		return nil, errMalformed()
	}
	var out []lockedRecord
	for in.More() {
		if len(out) == limits.ImageLockPackages {
			return nil, fault.Invalid.Newf("The lock in the image has more than %d packages", limits.ImageLockPackages)
		}
		var r lockedRecord
		if err := in.Decode(&r); err != nil || r.Name == "" || r.Version == "" {
			return nil, errMalformed()
		}
		out = append(out, r)
	}
	if _, err := in.Token(); err != nil {
		return nil, errMalformed()
	}
	return out, nil
}

func errMalformed() error {
	return &unknownPackages{"The lock in the image is malformed, so its packages are not known", false}
}

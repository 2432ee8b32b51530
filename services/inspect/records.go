package inspect

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"google.golang.org/protobuf/proto"

	inspectv1 "slipway.dev/proto/gen/slipway/inspect/v1"

	"slipway.dev/services/inspect/installed"
	"slipway.dev/services/internal/fairshare"
	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/layertar"
	"slipway.dev/services/internal/limits"
	"slipway.dev/services/internal/rpc"
)

// errNoRecords is returned if an image has no records of installed packages.
var errNoRecords = errors.New("the image has no records of installed packages")

// readRecords returns the packages of a variant according to the records in its layers. It charges the
// caller for reading the layers, as for listings. It returns errNoRecords if there are no records, and
// an *unknownPackages error if the layers cannot be read.
func (r *packageReader) readRecords(ctx context.Context, v variant) (*inspectv1.ImagePackages, error) {
	if err := r.checkLayers(v.layers); err != nil {
		return nil, err
	}
	turn, err := r.service.listings.pool.Acquire(ctx, fairshare.Request{Client: r.who.Client(ctx), Class: fairshare.Long})
	if err != nil {
		return nil, err
	}
	defer turn.Release()
	image := installed.NewImage(r.records, installed.CondaManager())
	if err := r.readLayers(ctx, image, v.layers); err != nil {
		return nil, err
	}
	return packagesOf(image)
}

// checkLayers returns an *unknownPackages error if layers cannot be read, or are too large for what the call may
// still read.
func (r *packageReader) checkLayers(layers []ocispec.Descriptor) error {
	for _, layer := range layers {
		if err := checkListable(layer); err != nil {
			if e, ok := fault.As(err); ok { // other platforms may have other layers
				err = &unknownPackages{e.Public, false}
			}
			return err
		}
		if r.layers -= layer.Size; r.layers < 0 {
			return &unknownPackages{fmt.Sprintf("The layers of the image have more than %d MiB, but the records of packages are only read from layers of up to that size in one call; set platform if the image is for several platforms", limits.ListedPacked>>20), false}
		}
	}
	return nil
}

// readLayers adds layers to an image, and charges the caller. It returns an *unknownPackages error if a layer
// is invalid.
func (r *packageReader) readLayers(ctx context.Context, image *installed.Image, layers []ocispec.Descriptor) error {
	within := limits.ListedTime
	if r.isFree { // no client waits for it
		within = limits.ScanTime
	}
	limited, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	for _, layer := range layers {
		err := r.addLayer(limited, image, layer)
		if refusal, ok := errors.AsType[*layertar.LayerError](err); ok {
			return &unknownPackages{"The layer " + refusal.Layer + " " + refusal.Reason + ", so the packages of the image are not known", false}
		}
		if err != nil && limited.Err() != nil && ctx.Err() == nil {
			return fault.Timeout.New("The layers of the image could not be read within "+within.String(), err)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// addLayer reads a layer.
func (r *packageReader) addLayer(ctx context.Context, image *installed.Image, layer ocispec.Descriptor) error {
	from, err := r.service.sourceOf(ctx, r.image, layer)
	if err != nil {
		return err
	}
	cost := &layerCharge{charge: func(pulls int) error { return r.charge(ctx, pulls) }}
	if err := cost.chargeStored(layer.Size); err != nil {
		return err
	}
	err = image.AddLayer(ctx, blobOf(from, layer, cost.chargeUnpacked))
	if _, ok := errors.AsType[*layertar.LayerError](err); ok && cost.refused == nil {
		return err
	}
	return cmp.Or(cost.refused, from.fault(err))
}

// packagesOf returns the packages of an image whose layers were read.
func packagesOf(image *installed.Image) (*inspectv1.ImagePackages, error) {
	packages, unreadable := image.Packages()
	out := &inspectv1.ImagePackages{Source: proto.String(sourceRecords)}
	switch n := len(unreadable); {
	case n == 0 && len(packages) == 0:
		return nil, errNoRecords
	case n > 0 && len(packages) == 0:
		return nil, &unknownPackages{fmt.Sprintf("None of the %d records of installed Conda packages in the image, such as %s, can be read, so its packages are not known", n, fault.Quote(unreadable[0])), false}
	case n == 1:
		out.Problem = proto.String(fmt.Sprintf("The record %s in the image cannot be read, so its package is missing from the list", fault.Quote(unreadable[0])))
	case n > 1:
		out.Problem = proto.String(fmt.Sprintf("%d records of installed Conda packages in the image, such as %s, cannot be read, so their packages are missing from the list", n, fault.Quote(unreadable[0])))
	}
	for _, p := range packages {
		m := &inspectv1.ImagePackage{
			Name: proto.String(p.Name), Version: proto.String(p.Version), Build: rpc.Optional(p.Build), Channel: rpc.Optional(p.Channel), Subdir: rpc.Optional(p.Subdir),
			License: rpc.Optional(p.License), Kind: proto.String("conda"), Url: rpc.Optional(p.URL), Sha256: rpc.Optional(p.SHA256), Md5: rpc.Optional(p.MD5),
			Layer: proto.String(p.Layer), Prefix: proto.String(p.Prefix()),
		}
		if p.Size > 0 {
			m.Size = proto.Float64(float64(p.Size))
		}
		out.Packages = append(out.Packages, m)
	}
	return out, nil
}

// charge charges pulls to the caller, unless the call is free.
func (r *packageReader) charge(ctx context.Context, pulls int) error {
	if r.isFree {
		return nil
	}
	return r.service.charge(ctx, r.who, pulls)
}

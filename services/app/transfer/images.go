package transfer

import (
	"context"
	"fmt"
	"io"
	"log/slog"

	"github.com/opencontainers/go-digest"
	"github.com/regclient/regclient"
	regconfig "github.com/regclient/regclient/config"
	"github.com/regclient/regclient/types/descriptor"
	"github.com/regclient/regclient/types/ref"

	"slipway.dev/services/internal/caller"
	"slipway.dev/services/internal/config"
	"slipway.dev/services/registry/store"
)

// copyImages copies all images in the embedded image store of a data_dir to build_repository.
// It can be repeated: images that already exist there are not sent again.
func copyImages(ctx context.Context, o Options, dir string, move move) error {
	images, err := store.Contents(dir)
	if err != nil {
		return fmt.Errorf("reading the image store: %w", err)
	}
	if len(images) == 0 {
		return nil
	}
	client, err := newClient(o.Config, move.toHost)
	if err != nil {
		return err
	}
	var size int64
	for i, image := range images {
		from, err := ref.New("ocidir://" + image.Layout + "@" + image.Digest)
		if err != nil {
			return err
		}
		name, tag := move.toHost+"/"+move.repository(image.Repository), ":"+image.Tag
		if image.Tag == "" {
			tag = "@" + image.Digest
		}
		to, err := ref.New(name + tag)
		if err != nil {
			return err
		}
		err = copyComposed(ctx, client, image, to)
		if err == nil {
			err = client.ImageCopy(ctx, from, to)
		}
		if err != nil {
			return fmt.Errorf("copying %s to %s: %w", image.Repository+tag, to.CommonName(), err)
		}
		size += image.Size
		fmt.Fprintf(o.Progress, "Copied image %d of %d: %s\n", i+1, len(images), to.CommonName())
	}
	fmt.Fprintf(o.Progress, "Copied %d images of %d MB\n", len(images), size/1e6)
	return nil
}

// copyComposed copies the blobs of an image that the store composes of others. The client finds them in
// the target, and does not read them from the layout.
func copyComposed(ctx context.Context, client *regclient.RegClient, image store.Stored, to ref.Ref) error {
	return store.EachComposed(image.Layout, digest.Digest(image.Digest), func(d digest.Digest, size int64, content io.Reader) error {
		blob := descriptor.Descriptor{MediaType: "application/octet-stream", Digest: d, Size: size}
		if there, err := client.BlobHead(ctx, to, blob); err == nil {
			return there.Close()
		}
		_, err := client.BlobPut(ctx, to, blob, content)
		return err
	})
}

// newClient returns a client of a registry with the login of registry_auth_file.
func newClient(cfg config.Config, host string) (*regclient.RegClient, error) {
	logins, err := caller.ReadAuthFile(cfg.RegistryAuthFile)
	if err != nil {
		return nil, fmt.Errorf("registry_auth_file: %w", err)
	}
	h := regconfig.HostNewName(host)
	login := caller.LoginFor(logins, cfg.BuildRepository)
	h.User, h.Pass = login.Username, login.Password
	for _, plain := range cfg.InsecureRegistries {
		if plain == host {
			h.TLS = regconfig.TLSDisabled
		}
	}
	return regclient.New(regclient.WithConfigHost(*h), regclient.WithUserAgent("slipway"), regclient.WithSlog(slog.New(slog.DiscardHandler))), nil
}

package bundle

import (
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"slices"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"github.com/regclient/regclient"
	"github.com/regclient/regclient/config"
	"github.com/regclient/regclient/scheme/reg"
	"github.com/regclient/regclient/types/descriptor"

	"slipway.dev/services/internal/limits"
)

// NewClient returns a client of one registry for other commands. It uses plain HTTP for a registry on this
// machine, for those in plain, and for the registry of a server with that scheme; server may be nil. The options
// are further ones of the client.
func NewClient(version string, server *url.URL, registry string, plain []string, options ...regclient.Opt) *regclient.RegClient {
	return newClient(version, []string{registry}, func(name string) bool {
		return isLoopback(name) || slices.Contains(plain, name) || server != nil && server.Scheme == "http" && server.Host == name
	}, options...)
}

// newClient returns a client of registries with the logins of docker. It uses plain HTTP for those for which
// isPlain returns true.
func newClient(version string, registries []string, isPlain func(registry string) bool, options ...regclient.Opt) *regclient.RegClient {
	var hosts []config.Host
	for _, name := range registries {
		if h := config.HostNewName(name); isPlain(name) {
			h.TLS = config.TLSDisabled
			hosts = append(hosts, *h)
		}
	}
	return regclient.New(append([]regclient.Opt{
		regclient.WithDockerCreds(), regclient.WithConfigHost(hosts...), // later options take precedence, and those of a login require TLS
		regclient.WithDockerCerts(), regclient.WithUserAgent("slipway/" + version), regclient.WithSlog(slog.New(slog.DiscardHandler)),
		regclient.WithRegOpts(reg.WithManifestMax(limits.Document, limits.Document)),
	}, options...)...)
}

// isLoopback reports whether a registry is on this machine.
func isLoopback(registry string) bool {
	host, _, err := net.SplitHostPort(registry)
	if err != nil {
		host = registry
	}
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// toClient returns a descriptor for the client of registries. Addresses of blobs at other hosts are
// omitted.
func toClient(d ocispec.Descriptor) descriptor.Descriptor {
	return descriptor.Descriptor{MediaType: d.MediaType, Digest: d.Digest, Size: d.Size}
}

// fromClient returns the descriptor of the client of registries.
func fromClient(d descriptor.Descriptor) ocispec.Descriptor {
	return ocispec.Descriptor{MediaType: d.MediaType, Digest: d.Digest, Size: d.Size}
}

// checkDigest checks that a digest can be stored.
func checkDigest(d digest.Digest) error {
	if _, err := blobPath(d); err != nil {
		return fmt.Errorf("only sha256 is supported: %w", err)
	}
	return nil
}

package app

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/health/grpc_health_v1"

	"slipway.dev/services/internal/bucket"
	"slipway.dev/services/internal/caller"
	"slipway.dev/services/internal/config"
	"slipway.dev/services/internal/pullthrough"
	"slipway.dev/services/internal/rpc"
	"slipway.dev/services/internal/upstream"
	"slipway.dev/services/registry/blob"
)

// connect creates the gRPC servers of this process, and a connection to every role that its
// roles call: over memory if the role is played here, else over the network.
func (a *App) connect(ctx context.Context) (p parts, _ error) {
	metrics := rpc.NewMetrics(a.reg)
	tlsConfig, secret, err := a.rpcSecurity()
	if err != nil {
		return p, err
	}
	memory := rpc.NewMemory()
	a.addServer(rpc.NewServer(rpc.ServerOptions{Log: a.log, Metrics: metrics, Publish: a.own().Publish}), memory)
	if !a.isWhole() && slices.ContainsFunc(a.roles, role.isService) {
		var lc net.ListenConfig
		l, err := lc.Listen(ctx, "tcp", a.cfg.GRPCAddr)
		if err != nil {
			return p, fmt.Errorf("grpc_addr: %w", err)
		}
		a.onClose(ignoreClosed(l))
		if tlsConfig == nil {
			a.log.Warn("Roles are not authenticated individually without certificates: a compromised role can make every call", "set", "rpc_cert_file")
		}
		a.addServer(rpc.NewServer(rpc.ServerOptions{Log: a.log, Metrics: metrics, TLS: tlsConfig, Secret: secret}), l)
	}
	for _, r := range roles() {
		checks, err := a.dial(r, memory, rpc.DialOptions{TLS: tlsConfig, Secret: secret, Roles: a.names()})
		if err != nil {
			return p, err
		}
		p.checks = append(p.checks, checks...)
	}
	return p, nil
}

// addServer adds a gRPC server with its listener.
func (a *App) addServer(s *rpc.Server, on net.Listener) {
	a.servers = append(a.servers, s)
	a.listeners.addGRPC(s, on)
}

// dial connects to a role, if a role of this process calls it and an address is configured.
// It returns the check of a role that another process plays.
func (e *env) dial(r role, memory rpc.Memory, o rpc.DialOptions) ([]check, error) {
	kind, called := dependence(e.roles, r.name)
	addr := r.at(e.cfg)
	here := e.plays(r.name)
	if !called || !here && addr == "" {
		return nil, nil
	}
	var conn *grpc.ClientConn
	var err error
	if here {
		conn, err = memory.Dial(o.Roles...)
	} else {
		conn, err = rpc.Dial(addr, o)
	}
	if err != nil {
		return nil, err
	}
	e.onClose(conn.Close)
	e.conns[r.name] = conn
	if here {
		return nil, nil
	}
	healthy := func(ctx context.Context) error {
		_, err := grpc_health_v1.NewHealthClient(conn).Check(ctx, &grpc_health_v1.HealthCheckRequest{})
		return err
	}
	return []check{newCheck(r.name, kind != reported, healthy)}, nil
}

// rpcSecurity returns how the roles of several processes authenticate to each other:
// certificates, a secret, or both; nothing in a process with all roles.
func (e *env) rpcSecurity() (*tls.Config, string, error) {
	if e.isWhole() {
		return nil, "", nil
	}
	config, err := e.mutualTLS("rpc_cert_file", e.cfg.RPCCertFile, e.cfg.RPCKeyFile, e.cfg.RPCCAFile)
	if err != nil || config != nil && e.cfg.RPCSecretFile == "" {
		return config, "", err
	}
	secret, err := roleSecret(e.cfg)
	return config, secret, err
}

// mutualTLS returns the configuration of mutual TLS with the certificate of a setting; nil without
// certificates.
func (e *env) mutualTLS(setting, certFile, keyFile, caFile string) (*tls.Config, error) {
	if certFile == "" {
		return nil, nil
	}
	cert, err := e.certificates.load(setting, certFile, keyFile)
	if err != nil {
		return nil, err
	}
	return cert.MutualTLS(caFile)
}

// A network is how the roles of this process reach registries.
type network struct {
	egress  *upstream.Egress
	plain   []string
	mirrors []upstream.Mirror
	client  *upstream.Client
	control *upstream.Control
	// blobs caches blobs of registries, and reads reads their images.
	blobs blob.Cache
	reads *pullthrough.Reader
}

// openNetwork creates the clients of registries.
func (e *env) openNetwork(context.Context) (parts, error) {
	allow, plain := e.cfg.EgressAllow, e.cfg.InsecureRegistries
	if e.hasStore() {
		allow, plain = append(slices.Clone(allow), e.cfg.StoreAddr), append(slices.Clone(plain), e.cfg.StoreAddr)
	}
	egress, err := upstream.NewEgress(allow)
	if err != nil {
		return parts{}, err
	}
	mirrors, err := upstream.ParseMirrors(e.cfg.RegistryMirrors)
	if err != nil {
		return parts{}, fmt.Errorf("registry_mirrors: %w", err)
	}
	e.net.egress, e.net.plain, e.net.mirrors = egress, plain, mirrors
	known, err := e.knownRegistries()
	if err != nil {
		return parts{}, err
	}
	o := upstream.Options{Egress: egress, Plain: plain, Mirrors: mirrors, Metrics: e.reg, Known: known, Documents: upstream.NewDocuments()}
	e.reg.MustRegister(o.Documents)
	e.net.client, e.net.control = upstream.New(o), upstream.NewControl(o)
	if !e.opensBlobs() {
		e.net.reads = pullthrough.Direct(e.net.client)
		if e.plays("container") && e.cfg.UpstreamCache {
			e.log.Warn("New container requests do not use upstream_cache, since blob_cache is a folder of the role registry; use a bucket")
		}
		return parts{}, nil
	}
	return e.openBlobs(o.Documents)
}

// opensBlobs reports whether this process uses blob_cache. A folder belongs to the process that
// plays the role registry.
func (e *env) opensBlobs() bool {
	return e.plays("registry") || e.plays("container") && e.cfg.UpstreamCache && bucket.IsAddress(e.cfg.BlobCache)
}

// openBlobs opens the cache of blobs, and with upstream_cache the reader that keeps what it reads.
func (e *env) openBlobs(documents *upstream.Documents) (parts, error) {
	shared, err := Bucket(e.cfg)
	if err != nil {
		return parts{}, err
	}
	service := "registry"
	if !e.plays(service) {
		service = "container"
	}
	log := e.log.With("service", service)
	blobs, err := blob.Open(blob.Config{
		Bucket: shared, Dir: e.cfg.BlobCache, Size: int64(e.cfg.BlobCacheSize), DiskFull: e.disks.Check, Metrics: e.reg, Log: log, Now: time.Now,
	})
	if err != nil {
		return parts{}, err
	}
	e.onClose(blobs.Close)
	e.net.blobs = blobs
	o := pullthrough.Options{
		Client: e.net.client, Documents: documents, Recheck: e.cfg.UpstreamAuth, Freshness: e.cfg.TagFreshness, Metrics: e.reg, Log: log, Now: time.Now,
	}
	if e.cfg.UpstreamCache {
		o.Store = blobs
	}
	e.net.reads = pullthrough.New(o)
	return parts{run: []func(context.Context) error{func(ctx context.Context) error { blobs.Run(ctx); <-ctx.Done(); return nil }}}, nil
}

// Bucket opens the bucket that blob_cache names; the caller closes it. It returns nil if
// blob_cache names none.
func Bucket(cfg config.Config) (*bucket.Bucket, error) {
	if !bucket.IsAddress(cfg.BlobCache) {
		return nil, nil //nolint:nilnil // blob_cache names no bucket
	}
	at, err := bucket.Parse(cfg.BlobCache)
	if err != nil {
		return nil, fmt.Errorf("blob_cache %w", err)
	}
	return bucket.Open(at, cfg.BlobCacheLogin)
}

// knownRegistries returns the registries in the settings, for metrics.
func (e *env) knownRegistries() ([]string, error) {
	logins, err := caller.ReadAuthFile(e.cfg.RegistryAuthFile)
	if err != nil {
		return nil, fmt.Errorf("registry_auth_file: %w", err)
	}
	known := []string{e.own().Host}
	for name := range logins {
		host, _, _ := strings.Cut(name, "/")
		known = append(known, host)
	}
	return known, nil
}

package app

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/health/grpc_health_v1"

	"slipway.dev/services/internal/caller"
	"slipway.dev/services/internal/rpc"
	"slipway.dev/services/internal/upstream"
)

// connect makes the gRPC servers of this process, and a connection to every room
// that its roles call: over memory when the room is here, else over the network.
func (a *App) connect(ctx context.Context) error {
	metrics := rpc.NewMetrics(a.reg)
	tlsConfig, secret, err := a.rpcSecurity()
	if err != nil {
		return err
	}
	memory := rpc.NewMemory()
	local := rpc.NewServer(rpc.ServerOptions{Log: a.log, Metrics: metrics})
	a.servers = append(a.servers, local)
	a.listeners.addGRPC(local, memory)
	if !a.isWhole() && a.offersGRPC() {
		var lc net.ListenConfig
		l, err := lc.Listen(ctx, "tcp", a.cfg.GRPCAddr)
		if err != nil {
			return fmt.Errorf("grpc_addr: %w", err)
		}
		if tlsConfig == nil {
			a.log.Warn("Roles cannot be told apart without certificates: one that is taken over can make every call", "set", "rpc_cert_file")
		}
		remote := rpc.NewServer(rpc.ServerOptions{Log: a.log, Metrics: metrics, TLS: tlsConfig, Secret: secret})
		a.servers = append(a.servers, remote)
		a.listeners.addGRPC(remote, l)
		a.onClose(ignoreClosed(l))
	}
	for _, room := range []string{"platform", "build", "conda", "container", "inspect", "metrics"} {
		if err := a.dial(room, memory, rpc.DialOptions{TLS: tlsConfig, Secret: secret, Roles: a.names()}); err != nil {
			return err
		}
	}
	return nil
}

// offersGRPC says whether any role here is a gRPC service.
func (a *App) offersGRPC() bool {
	return a.plays("platform") || a.plays("build") || a.plays("conda") || a.plays("container") || a.plays("inspect") || a.plays("metrics")
}

func (a *App) dial(room string, memory rpc.Memory, o rpc.DialOptions) error {
	var conn *grpc.ClientConn
	var err error
	switch addr := addressOf(a.cfg, room); {
	case a.plays(room):
		conn, err = memory.Dial(o.Roles...)
	case addr != "":
		conn, err = rpc.Dial(addr, o)
	default:
		return nil
	}
	if err != nil {
		return err
	}
	a.onClose(conn.Close)
	a.conns[room] = conn
	if !a.plays(room) {
		needed := required
		if room == "metrics" || room == "conda" || slices.Equal(a.names(), []string{"conda"}) && room == "build" {
			needed = optional // nobody pulls, builds or solves less without them
		}
		a.check(room, needed, func(ctx context.Context) error {
			_, err := grpc_health_v1.NewHealthClient(conn).Check(ctx, &grpc_health_v1.HealthCheckRequest{})
			return err
		})
	}
	return nil
}

// rpcSecurity reads how roles know each other.
func (a *App) rpcSecurity() (*tls.Config, string, error) {
	config, err := mutualTLS(a.cfg.RPCCertFile, a.cfg.RPCKeyFile, a.cfg.RPCCAFile)
	if err != nil {
		return nil, "", err
	}
	if a.cfg.RPCSecretFile == "" {
		return config, "", nil
	}
	raw, err := os.ReadFile(a.cfg.RPCSecretFile)
	secret := strings.TrimSpace(string(raw))
	if err == nil && len(secret) < 16 {
		err = fmt.Errorf("%s holds fewer than 16 characters", a.cfg.RPCSecretFile)
	}
	if err != nil {
		return nil, "", fmt.Errorf("rpc_secret_file: %w", err)
	}
	return config, secret, nil
}

// mutualTLS reads how two sides know each other by certificates; nil where there
// are none.
func mutualTLS(certFile, keyFile, caFile string) (*tls.Config, error) {
	if certFile == "" {
		return nil, nil
	}
	cert, err := rpc.LoadCertificate(certFile, keyFile)
	if err != nil {
		return nil, err
	}
	return cert.MutualTLS(caFile)
}

// network is how the roles of this process reach other people's registries.
type network struct {
	egress   *upstream.Egress
	plain    []string
	mirrors  []upstream.Mirror
	client   *upstream.Client
	control  *upstream.Control
	keychain *caller.Keychain
}

// openNetwork makes it; the keychain follows when the platform is connected.
func (a *App) openNetwork(context.Context) error {
	allow, plain := a.cfg.EgressAllow, a.cfg.InsecureRegistries
	if a.hasStore() {
		allow, plain = append(slices.Clone(allow), a.cfg.StoreAddr), append(slices.Clone(plain), a.cfg.StoreAddr)
	}
	egress, err := upstream.NewEgress(allow)
	if err != nil {
		return err
	}
	mirrors, err := upstream.ParseMirrors(a.cfg.RegistryMirrors)
	if err != nil {
		return fmt.Errorf("registry_mirrors: %w", err)
	}
	a.net.egress, a.net.plain, a.net.mirrors = egress, plain, mirrors
	known, err := a.knownRegistries()
	if err != nil {
		return err
	}
	o := upstream.Options{Egress: egress, Plain: plain, Mirrors: mirrors, Metrics: a.reg, Known: known, Documents: upstream.NewDocuments()}
	a.net.client, a.net.control = upstream.New(o), upstream.NewControl(o)
	return nil
}

// knownRegistries are those that the settings name, for metrics.
func (a *App) knownRegistries() ([]string, error) {
	logins, err := caller.ReadAuthFile(a.cfg.RegistryAuthFile)
	if err != nil {
		return nil, fmt.Errorf("registry_auth_file: %w", err)
	}
	known := []string{a.own().Host}
	for name := range logins {
		host, _, _ := strings.Cut(name, "/")
		known = append(known, host)
	}
	return known, nil
}

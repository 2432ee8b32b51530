package bundle

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/spf13/cobra"

	"slipway.dev/services/cmd/slipway/internal/batch"
	"slipway.dev/services/cmd/slipway/internal/output"
	"slipway.dev/services/cmd/slipway/internal/usage"
)

// serveFlags are the flags of `slipway bundle serve`.
type serveFlags struct {
	listen, host, config string
	engine               engine
	cert, key            string
}

// serve returns `slipway bundle serve`.
func serve() *cobra.Command {
	var f serveFlags
	cmd := &cobra.Command{
		Use:   "serve BUNDLE...",
		Short: "Serve a bundle as a read-only registry, without a server or a network",
		Long: `Serve a bundle as a read-only registry, without a server or a network.

quay.io/biocontainers/samtools:1.20 is served as
127.0.0.1:5000/biocontainers/samtools:1.20, and also as
127.0.0.1:5000/quay.io/biocontainers/samtools:1.20. The names that a server of Slipway
issued are served with and without their tokens. --nextflow-config writes a
configuration with which Nextflow takes the containers of all processes from it; - writes
it to standard output. With --engine singularity or apptainer, it has the names of the
Singularity images that slipway bundle --sif has copied, with oras://.

Docker uses plain HTTP for registries on the same machine only. For other machines, give
a certificate, or list the registry as an insecure one there. All clients that reach the
address can pull all images. Ctrl-C stops the server after the pulls that are running.`,
		Example: `  slipway bundle serve pipeline --nextflow-config offline.config
  slipway bundle serve pipeline update --listen 0.0.0.0:5000 --host head.cluster:5000 --cert tls.crt --key tls.key`,
		Args: usage.AtLeast(1),
		RunE: func(cmd *cobra.Command, args []string) error { return f.run(cmd, args) },
	}
	flags := cmd.Flags()
	flags.StringVar(&f.listen, "listen", "127.0.0.1:5000", "The `address` to listen at; the port 0 selects a free one.")
	flags.StringVar(&f.host, "host", "", "The `name` of the registry in the configuration, with its port (default: the address).")
	flags.StringVar(&f.config, "nextflow-config", "", "The `file` to write the configuration of Nextflow to; - for standard output.")
	flags.StringVar(&f.cert, "cert", "", "The `file` with the certificates for TLS, as PEM.")
	flags.StringVar(&f.key, "key", "", "The `file` with the private key for TLS, as PEM.")
	f.engine.add(cmd)
	for _, name := range []string{"listen", "host"} {
		usage.CompleteFlag(cmd, name)
	}
	return cmd
}

// stopping is how long running pulls may take after the command was interrupted.
const stopping = 30 * time.Second

func (f *serveFlags) run(cmd *cobra.Command, folders []string) error {
	if (f.cert == "") != (f.key == "") {
		return usage.Errorf("--cert and --key belong together")
	}
	if err := errors.Join(f.checkHost(), f.engine.check(f.config)); err != nil {
		return err
	}
	var certs []tls.Certificate
	if f.cert != "" {
		pair, err := tls.LoadX509KeyPair(f.cert, f.key)
		if err != nil {
			return fmt.Errorf("reading the certificate: %w", err)
		}
		certs = append(certs, pair)
	}
	c, err := openContent(folders)
	if err != nil {
		return err
	}
	defer c.close()
	if err := c.complete(); err != nil {
		return fmt.Errorf("the bundle is not complete: %w", err)
	}
	var lc net.ListenConfig
	l, err := lc.Listen(cmd.Context(), "tcp", f.listen)
	if err != nil {
		return fmt.Errorf("listening at %s; choose another address with --listen: %w", f.listen, err)
	}
	host := cmp.Or(f.host, l.Addr().String())
	if err := f.writeConfig(cmd, c, host); err != nil {
		return errors.Join(err, l.Close())
	}
	cmd.PrintErrln(output.Printable(fmt.Sprintf("Serving %s at %s. Ctrl-C stops it.", output.Count(len(c.images), "image"), host)))
	return f.serve(cmd.Context(), l, newHandler(c), certs)
}

// checkHost checks that a configuration of Nextflow has names that clients can use.
func (f *serveFlags) checkHost() error {
	if f.host != "" && !batch.IsImageText(f.host) {
		return usage.Errorf("--host must be the name of a registry, e.g. head.cluster:5000, not %q", f.host)
	}
	if f.config == "" || f.host != "" {
		return nil
	}
	host, port, err := net.SplitHostPort(f.listen)
	if err != nil {
		return nil //nolint:nilerr // listening fails with a better message
	}
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		return usage.Errorf("--listen %s is no name that clients can use in a configuration; give one with --host, e.g. --host head.cluster:%s", f.listen, port)
	}
	return nil
}

func (f *serveFlags) writeConfig(cmd *cobra.Command, c *content, host string) error {
	if f.config == "" {
		return nil
	}
	_, at := c.repositories()
	for full, path := range at {
		at[full] = host + "/" + path
	}
	return c.writeConfig(cmd, f.config, at, f.engine, f.cert == "")
}

// serve serves until the context ends, and then waits for running requests.
func (f *serveFlags) serve(ctx context.Context, l net.Listener, h http.Handler, certs []tls.Certificate) error {
	server := &http.Server{
		Handler: h, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 64 << 10,
		ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelError),
	}
	stopped := make(chan error, 1)
	context.AfterFunc(ctx, func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopping)
		defer cancel()
		stopped <- server.Shutdown(ctx)
	})
	var err error
	if len(certs) > 0 {
		server.TLSConfig = &tls.Config{Certificates: certs, MinVersion: tls.VersionTLS12}
		err = server.ServeTLS(l, "", "")
	} else {
		err = server.Serve(l)
	}
	if !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serving the bundle: %w", errors.Join(err, l.Close()))
	}
	return <-stopped
}

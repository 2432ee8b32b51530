package app

import (
	"context"
	"crypto/rand"
	"net/netip"
	"net/url"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"

	buildv1 "slipway.dev/proto/gen/slipway/build/v1"
	containerv1 "slipway.dev/proto/gen/slipway/container/v1"

	"slipway.dev/services/builder"
	"slipway.dev/services/builder/claim"
	"slipway.dev/services/builder/daemon"
	"slipway.dev/services/builder/engine/buildkit"
	"slipway.dev/services/builder/engine/conda"
	"slipway.dev/services/builder/engine/freeze"
	"slipway.dev/services/builder/engine/sif"
	"slipway.dev/services/builder/remote"
	"slipway.dev/services/builder/squashfs"
)

func (a *App) buildBuilder() error {
	work := buildv1.NewWorkServiceClient(a.conns["build"])
	daemons, err := mutualTLS(a.cfg.BuildkitCertFile, a.cfg.BuildkitKeyFile, a.cfg.BuildkitCAFile)
	if err != nil {
		return err
	}
	log := a.log.With("room", "builder")
	o := buildkit.Options{
		Deps:      remote.Deps{Work: work, Egress: a.net.egress, Registries: a.net.client},
		Addresses: a.cfg.BuildkitAddr, TLS: daemons, Dir: a.dir("contexts"), Disk: int64(a.cfg.BuildDisk), Log: log,
	}
	if conn := a.conns["container"]; conn != nil {
		o.Layers = containerv1.NewContainerServiceClient(conn)
	}
	if a.canBuild = len(o.Addresses) > 0; !a.canBuild {
		a.startDaemon(&o)
	}
	engine := buildkit.New(o)
	reach := o.Deps
	reach.Mirrors = a.net.mirrors
	compressor, level := a.cfg.Compressor()
	sifs := sif.New(sif.Options{
		Deps: reach, Compression: squashfs.Compression{Name: compressor, Level: level}, Dir: a.dir("sif"), Disk: int64(a.cfg.BuildDisk),
	})
	claims, err := claim.New(a.nats, log)
	if err != nil {
		return err
	}
	packages := conda.New(conda.Options{Deps: reach, Dir: a.dir("packages"), Keep: int64(a.cfg.CondaLayers), Disk: int64(a.cfg.BuildDisk), Claims: claims})
	if why := packages.Problem(); why != "" {
		a.problems = append(a.problems, "No images of Conda packages are made here: "+why)
		log.Warn("No images of Conda packages are made here", "why", why)
	}
	slots := a.cfg.BuildConcurrency
	if slots == 0 {
		slots = runtime.NumCPU()
	}
	w, err := builder.New(builder.Deps{
		NATS: a.nats, Work: work, Engines: []builder.Engine{engine, packages, freeze.New(reach), sifs}, Log: log, Now: time.Now, Metrics: a.reg,
		Settings: builder.Settings{Name: workerName(), Concurrency: slots, DrainTimeout: a.cfg.DrainTimeout},
	})
	if err != nil {
		return err
	}
	a.workers = append(a.workers, w.Run)
	return nil
}

// trySteps looks whether a daemon could run here, while the rest is opened.
func (a *App) trySteps(ctx context.Context) error {
	if a.plays("builder") && len(a.cfg.BuildkitAddr) == 0 && os.Getuid() == 0 {
		a.trial = daemon.Try(ctx, a.cfg.RuncPath)
		a.onClose(func() error { a.trial.Close(); return nil })
	}
	return nil
}

// startDaemon starts buildkitd. Where that is not possible the service goes on,
// and says why when it is asked to build.
func (a *App) startDaemon(o *buildkit.Options) {
	d, err := daemon.Start(context.Background(), daemon.Options{
		Dir: a.dir("buildkit"), Egress: a.net.egress.Except(a.private()).DialContext, Forward: a.loopbacks(), Plain: a.net.plain, Mirrors: a.net.mirrors,
		Memory: int64(a.cfg.BuildMemory), Pids: int64(a.cfg.BuildPids), CPUs: a.cfg.BuildCPUs, NoNewPrivileges: a.cfg.BuildNoNewPrivileges,
		DaemonMemory: int64(a.cfg.BuildkitMemory), Runtime: a.cfg.RuncPath, Trial: a.trial, Log: o.Log,
	})
	a.check("builds", optional, func(context.Context) error { return err })
	if err != nil {
		o.Problem = err.Error()
		a.problems = append(a.problems, "Dockerfiles are not built here; images of Conda packages are: "+err.Error())
		o.Log.Warn("Dockerfiles are not built here; images of Conda packages are", "err", err)
		return
	}
	a.onClose(func() error { d.Close(); return nil })
	o.Local, a.canBuild = d, true
}

// private are addresses of this service, and of what it stands on. Those on this
// machine no step may reach, even where egress_allow names its loopback.
func (a *App) private() []string {
	out := []string{a.cfg.HTTPAddr, a.cfg.PlatformHTTPAddr, a.cfg.AdminAddr, a.cfg.GRPCAddr, a.cfg.StoreAddr}
	for _, addr := range []string{a.cfg.BuildAddr, a.cfg.ContainerAddr, a.cfg.InspectAddr, a.cfg.MetricsAddr, a.cfg.PlatformAddr} {
		out = append(out, strings.TrimPrefix(addr, "dns:///"))
	}
	for _, text := range []string{a.cfg.DatabaseURL, a.cfg.NATSURL, a.cfg.RedisURL} {
		for one := range strings.SplitSeq(text, ",") { // NATS and Redis may be several
			if u, err := url.Parse(one); err == nil {
				out = append(out, u.Host)
			}
		}
	}
	return append(out, a.loopbacks()...)
}

// loopbacks are registries on this machine that the build daemon may reach: it is
// in a network of its own.
func (a *App) loopbacks() []string {
	var out []string
	for _, host := range a.net.plain {
		if ap, err := netip.ParseAddrPort(strings.Replace(host, "localhost", "127.0.0.1", 1)); err == nil && ap.Addr().IsLoopback() {
			out = append(out, ap.String())
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// workerName tells workers apart, also two on one machine.
func workerName() string {
	host, err := os.Hostname()
	if err != nil {
		host = "worker"
	}
	return host + "-" + rand.Text()[:6]
}

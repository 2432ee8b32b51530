package app

import (
	"context"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	buildv1 "slipway.dev/proto/gen/slipway/build/v1"

	"slipway.dev/services/builder"
	"slipway.dev/services/builder/claim"
	"slipway.dev/services/builder/daemon"
	"slipway.dev/services/builder/engine/buildkit"
	"slipway.dev/services/builder/engine/conda"
	"slipway.dev/services/builder/engine/freeze"
	"slipway.dev/services/builder/engine/mirror"
	"slipway.dev/services/builder/engine/sif"
	"slipway.dev/services/builder/remote"
	sifparts "slipway.dev/services/builder/sif/parts"
	"slipway.dev/services/builder/squashfs"
)

// startBuilder starts the role builder.
func startBuilder(_ context.Context, e *env) (parts, error) {
	var p parts
	work := buildv1.NewWorkServiceClient(e.conns["build"])
	daemons, err := e.mutualTLS("buildkit_cert_file", e.cfg.BuildkitCertFile, e.cfg.BuildkitKeyFile, e.cfg.BuildkitCAFile)
	if err != nil {
		return parts{}, err
	}
	rules, err := e.policy()
	if err != nil {
		return parts{}, err
	}
	log := e.log.With("service", "builder")
	o := buildkit.Options{
		Deps:      remote.Deps{Work: work, Egress: e.net.egress, Registries: e.net.client, Policy: rules},
		Addresses: e.cfg.BuildkitAddr, TLS: daemons, Dir: e.dir("contexts"), Disk: int64(e.cfg.BuildDisk), Log: log,
	}
	if containers := e.containers(); containers != nil {
		o.Layers = containers
	}
	if p.builds = len(o.Addresses) > 0; !p.builds {
		p = e.startDaemon(&o)
	}
	engine := buildkit.New(o)
	reach := o.Deps
	reach.Mirrors = e.net.mirrors
	name, level := e.cfg.Compressor()
	squash, err := squashfs.NewCompressor(squashfs.Compression{Name: name, Level: level}, min(runtime.GOMAXPROCS(0), 4))
	if err != nil {
		return parts{}, err
	}
	layers, err := sifparts.New(filepath.Join(e.dir("sif"), "parts"), int64(e.cfg.SifLayers), squash)
	if err != nil {
		return parts{}, err
	}
	sifs := sif.New(sif.Options{Deps: reach, Parts: layers, Dir: filepath.Join(e.dir("sif"), "scratch"), Disk: int64(e.cfg.BuildDisk), Store: e.store()})
	if why := sifs.Problem(); why != "" {
		p.problems = append(p.problems, why)
		log.Warn("Singularity images cannot be made here", "why", why)
	}
	mirrors, err := mirror.New(reach, e.nats)
	if err != nil {
		return parts{}, err
	}
	worker, err := workerName(e.cfg.DataDir)
	if err != nil {
		return parts{}, err
	}
	claims, err := claim.New(claim.Options{NATS: e.nats, Work: work, Worker: worker, Log: log, Now: time.Now})
	if err != nil {
		return parts{}, err
	}
	packages := conda.New(conda.Options{Deps: reach, Channels: e.net.client, Dir: e.dir("packages"), Keep: int64(e.cfg.CondaLayers), Disk: int64(e.cfg.BuildDisk), Claims: claims, Parts: layers})
	if why := packages.Problem(); why != "" {
		p.problems = append(p.problems, "Images of Conda packages cannot be built here: "+why)
		log.Warn("Images of Conda packages cannot be built here", "why", why)
	}
	slots := e.cfg.BuildConcurrency
	if slots == 0 {
		slots = runtime.NumCPU()
	}
	w, err := builder.New(builder.Deps{
		NATS: e.nats, Work: work, Engines: []builder.Engine{engine, packages, freeze.New(reach), mirrors, sifs}, Log: log, Now: time.Now, Metrics: e.reg,
		Settings: builder.Settings{Name: worker, Concurrency: slots, DrainTimeout: e.cfg.DrainBuilds},
		DiskFull: e.disks.Check,
	})
	if err != nil {
		return parts{}, err
	}
	p.jobs = w.Run
	return p, nil
}

// trySteps starts a trial of a build daemon on this machine. It runs in the background.
func (e *env) trySteps(ctx context.Context) (parts, error) {
	if e.plays("builder") && len(e.cfg.BuildkitAddr) == 0 && os.Getuid() == 0 {
		e.trial = daemon.Try(ctx, e.cfg.RuncPath)
		e.onClose(func() error { e.trial.Close(); return nil })
	}
	return parts{}, nil
}

// noSteps is the message for callers if this server cannot run build steps. The reason may
// contain paths of this machine, so it is only logged and reported to operators.
const noSteps = "no worker can run build steps. An operator must run slipwayd as root with a current runc, or set buildkit_addr; `slipwayd doctor` shows what is missing"

// startDaemon starts buildkitd for the engine with these options. If it cannot run here, the
// process works without it, and builds of Dockerfiles fail with the reason.
func (e *env) startDaemon(o *buildkit.Options) (p parts) {
	d, err := daemon.Start(context.Background(), daemon.Options{
		Dir: e.dir("buildkit"), Egress: e.net.egress.Except(append(private(e.cfg), e.loopbacks()...)).DialContext, Forward: e.loopbacks(), Plain: e.net.plain, Mirrors: e.net.mirrors,
		Memory: int64(e.cfg.BuildMemory), Pids: int64(e.cfg.BuildPids), CPUs: e.cfg.BuildCPUs, NoNewPrivileges: e.cfg.BuildNoNewPrivileges,
		DaemonMemory: int64(e.cfg.BuildkitMemory), Runtime: e.cfg.RuncPath, Trial: e.trial, Log: o.Log,
	})
	p.checks = []check{newCheck("builds", optional, func(context.Context) error { return err })}
	if err != nil {
		o.Problem = noSteps
		p.problems = append(p.problems, "Dockerfiles cannot be built here, but images of Conda packages can: "+err.Error())
		o.Log.Warn("Dockerfiles cannot be built here, but images of Conda packages can", "err", err)
		return p
	}
	e.onClose(func() error { d.Close(); return nil })
	o.Local, p.builds = d, true
	return p
}

// loopbacks returns registries on this machine that the build daemon, which has its own
// network, may reach.
func (e *env) loopbacks() []string {
	var out []string
	for _, host := range e.net.plain {
		if ap, err := netip.ParseAddrPort(strings.Replace(host, "localhost", "127.0.0.1", 1)); err == nil && ap.Addr().IsLoopback() {
			out = append(out, ap.String())
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

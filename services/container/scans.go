package container

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/netip"
	"regexp"
	"sync"
	"time"

	"github.com/opencontainers/go-digest"
	"github.com/prometheus/client_golang/prometheus"

	buildv1 "slipway.dev/proto/gen/slipway/build/v1"
	containerv1 "slipway.dev/proto/gen/slipway/container/v1"
	inspectv1 "slipway.dev/proto/gen/slipway/inspect/v1"

	"slipway.dev/services/container/request"
	"slipway.dev/services/container/store"
	"slipway.dev/services/container/tokens"
	"slipway.dev/services/internal/caller"
	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/limits"
	"slipway.dev/services/internal/memo"
	"slipway.dev/services/internal/rpc"
)

// A request with scanMode has a scan (container_scans). When its image exists, the scan is linked to the
// content of the image, whose findings (container_findings) all requests share. A worker of any replica claims
// pending findings and has the inspect service find them.

// A scanner has the state of the scans of this process.
type scanner struct {
	version scanVersion
	// woken holds a token for each worker that should look for pending scans, and due one if the images of
	// scans should be looked up.
	woken, due chan struct{}
	// repeated is the version with which all scans were repeated, as of repeatedAt. Only repeatScans uses them.
	repeated   string
	repeatedAt time.Time
	seconds    prometheus.Histogram
	results    *prometheus.CounterVec
}

func newScanner(reg prometheus.Registerer) *scanner {
	s := &scanner{
		woken: make(chan struct{}, limits.ScansAtOnce), due: make(chan struct{}, 1),
		seconds: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "slipway_scan_seconds", Help: "Time of scans for vulnerabilities.", Buckets: []float64{0.05, 0.2, 1, 5, 20, 60, 300},
		}),
		results: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "slipway_scans_total", Help: "Scans for vulnerabilities by result: done, failed, or retry for a scan that is tried again.",
		}, []string{"result"}),
	}
	for _, result := range []string{store.ScanDone, store.ScanFailed, scanRetried} {
		s.results.WithLabelValues(result)
	}
	reg.MustRegister(s.seconds, s.results)
	return s
}

func (s *scanner) wake(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default: // it is going to look anyway
	}
}

// A database is a version of the database of vulnerabilities. at is when this process first saw it: an operator can
// also go back to older data.
type database struct {
	version string
	at      time.Time
}

// scanVersion caches the newest database that the inspect service has reported.
type scanVersion struct {
	mu     sync.Mutex
	newest database
	err    error
	read   time.Time
	flight memo.Flight[struct{}, database]
}

// versionTTL is how long the version of the database is cached.
const versionTTL = 5 * time.Second

// errNoScans is returned if images cannot be scanned.
func errNoScans() *fault.Error {
	return fault.Unsupported.Newf("This server does not scan images: leave scanMode out, or ask its operator to set scan_database")
}

// scanDatabase returns the newest version of the database. It returns fault.Unsupported if none is configured.
func (s *Service) scanDatabase(ctx context.Context) (database, error) {
	v := &s.scanner.version
	v.mu.Lock()
	newest, err, fresh := v.newest, v.err, s.deps.Now().Sub(v.read) < versionTTL
	v.mu.Unlock()
	if fresh {
		return newest, err
	}
	return v.flight.Do(ctx, struct{}{}, func(ctx context.Context) (database, error) {
		got, err := s.readVersion(ctx)
		if ctx.Err() != nil {
			return got, err
		}
		v.mu.Lock()
		defer v.mu.Unlock()
		if err == nil && got.version != v.newest.version {
			v.newest = database{got.version, s.deps.Now()}
		}
		v.err, v.read = err, s.deps.Now()
		return v.newest, err
	})
}

func (s *Service) readVersion(ctx context.Context) (database, error) {
	if s.deps.Inspect == nil {
		return database{}, errNoScans()
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	got, err := s.deps.Inspect.GetVulnerabilityDatabase(ctx, &inspectv1.GetVulnerabilityDatabaseRequest{})
	if errors.Is(err, fault.Unsupported) {
		return database{}, errNoScans()
	}
	if err != nil {
		return database{}, fmt.Errorf("reading the version of the database of vulnerabilities: %w", err)
	}
	return database{version: got.GetVersion()}, nil
}

// scanID returns the id of the scan of the request with a token. It cannot be derived from the id of the request.
func scanID(token string) string {
	sum := sha256.Sum256([]byte("slipway scan " + token))
	return "sc-" + hex.EncodeToString(sum[:8]) + "_1"
}

var scanIDs = regexp.MustCompile(`^sc-[0-9a-f]{16}_1$`)

// contentOf returns the key of the findings in an image whose reference has resolved to root. Only layers matter, so
// that images with other variables share findings. The key includes where the image is read, and with whose login: another
// registry, or a user without rights, could make the scan fail or hide layers from it.
func contentOf(plan *containerv1.Plan, root digest.Digest) string {
	w, who := sha256.New(), ""
	if plan.GetBuildId() == "" {
		who = caller.Of(plan.GetIdentity()).String()
	}
	src := plan.GetSource()
	_, _ = fmt.Fprintf(w, "%q %q %q %q %q\n", root.String(), plan.GetPlatform(), src.GetRegistry(), src.GetRepository(), who) // never fails
	for _, l := range plan.GetConfig().GetLayers() {
		from := l.GetIncludedFrom()
		isRead := from != nil || request.IsData(l.GetLocation())
		_, _ = fmt.Fprintf(w, "%q %v %q %q %q\n", l.GetGzipDigest(), isRead, from.GetRegistry(), from.GetRepository(), caller.Of(from.GetIdentity()).String())
	}
	return hex.EncodeToString(w.Sum(nil))
}

// addScan stores the scan of a request that is about to be stored, if it wants one.
func (s *Service) addScan(ctx context.Context, rec store.Record) error {
	rec.Plan.ScanRequired = rec.Request.GetScanMode() == request.ScanRequired
	if !request.IsScanned(rec.Request) {
		return nil
	}
	due := rec.Created
	if rec.Plan.GetBuildId() != "" && !rec.Plan.GetBuilt() {
		due = due.Add(lookForBuilds)
	}
	scan := store.Scan{ID: scanID(rec.Plan.GetToken()), Request: tokens.IDOf(rec.Plan.GetToken()), Build: rec.Plan.GetBuildId(), Created: rec.Created}
	if err := s.store.PutScan(ctx, scan, due); err != nil {
		return s.sqlFault("writing a scan", err)
	}
	return nil
}

// startScan starts the scan of a stored request whose image exists. If that fails, it is tried again in the background.
func (s *Service) startScan(ctx context.Context, rec store.Record) {
	if !request.IsScanned(rec.Request) {
		return
	}
	plan := rec.Plan
	if plan.GetBuildId() != "" || len(plan.GetDigests()) == 0 {
		s.scanner.wake(s.scanner.due)
		return
	}
	rec.Key = tokens.IDOf(plan.GetToken())
	if err := s.link(ctx, scanID(plan.GetToken()), rec, digest.Digest(plan.GetDigests()[0])); err != nil {
		s.deps.Log.WarnContext(ctx, "A scan could not be started; it is tried again", "err", err)
	}
}

// link links a scan to the content of its image, and has it scanned if that was not done with the current database.
func (s *Service) link(ctx context.Context, id string, rec store.Record, root digest.Digest) error {
	content := contentOf(rec.Plan, root)
	if err := s.ensureFindings(ctx, rec, content, root); err != nil {
		return err
	}
	if err := s.store.LinkScan(ctx, id, content, root.String()); err != nil {
		return s.sqlFault("writing a scan", err)
	}
	return nil
}

// scanFailedAgain is how long after a failure a new request scans an image again.
const scanFailedAgain = time.Minute

// ensureFindings has content scanned with the current database, unless it was.
func (s *Service) ensureFindings(ctx context.Context, rec store.Record, content string, root digest.Digest) error {
	db, err := s.scanDatabase(ctx)
	if err != nil {
		return err
	}
	now := s.deps.Now()
	f := store.Findings{
		Content: content, Version: db.version, VersionAt: db.at, Client: clientOf(ctx, rec), Request: rec.Key, Digest: root.String(),
	}
	if err := s.store.PutFindings(ctx, f, now, now.Add(-scanFailedAgain)); err != nil {
		return s.sqlFault("writing a scan", err)
	}
	s.scanner.wake(s.scanner.woken)
	return nil
}

// clientOf returns the client of a request, who shares the workers with others.
func clientOf(ctx context.Context, rec store.Record) string {
	if ip, err := netip.ParseAddr(rec.ClientIP); err == nil {
		ctx = rpc.WithCall(ctx, rpc.Call{ClientIP: ip})
	}
	return caller.Of(rec.Plan.GetIdentity()).Client(ctx).String()
}

// lookForBuilds is how often scans look whether the build of their image has ended, if no event reports it.
const lookForBuilds = 20 * time.Second

// linkDue links scans whose image may exist by now, until ctx ends.
func (s *Service) linkDue(ctx context.Context) {
	for ctx.Err() == nil {
		now := s.deps.Now()
		list, err := s.store.DueScans(ctx, now, now.Add(lookForBuilds), 100)
		if err != nil && ctx.Err() == nil {
			s.deps.Log.WarnContext(ctx, "Scans that wait for their image cannot be read", "err", err)
		}
		for _, scan := range list {
			switch err := s.linkOne(ctx, scan); {
			case err == nil || ctx.Err() != nil:
			case errors.Is(err, fault.Unsupported):
				err = s.store.EndScan(ctx, scan.ID, "This server does not scan images any more")
				if err != nil {
					s.deps.Log.WarnContext(ctx, "A scan could not be ended; it is tried again", "err", err)
				}
			default:
				s.deps.Log.InfoContext(ctx, "A scan could not be started; it is tried again", "err", err)
			}
		}
		if len(list) > 0 {
			continue
		}
		select {
		case <-ctx.Done():
		case <-s.scanner.due:
		case <-time.After(time.Second):
		}
	}
}

// linkOne links a scan if its image exists. Images of requests that have ended are not scanned.
func (s *Service) linkOne(ctx context.Context, scan store.Scan) error {
	rec, err := s.store.Get(ctx, scan.Request)
	if errors.Is(err, fault.NotFound) && s.deps.Now().Sub(scan.Created) < time.Minute {
		return nil // it is about to be stored
	}
	if err == nil {
		err = rec.Works(s.deps.Now())
	}
	if errors.Is(err, fault.NotFound) {
		return s.store.EndScan(ctx, scan.ID, "The image name expired or was revoked before the image was scanned")
	}
	if err != nil {
		return err
	}
	root, problem, err := s.scannedRoot(ctx, rec)
	switch {
	case err != nil:
		return err
	case problem != "":
		return s.store.EndScan(ctx, scan.ID, problem)
	case root == "":
		return nil
	}
	return s.link(ctx, scan.ID, rec, root)
}

// scannedRoot returns the digest of the image of a request; "" while it is being built. problem states why there
// will be none.
func (s *Service) scannedRoot(ctx context.Context, rec store.Record) (root digest.Digest, problem string, err error) {
	plan := rec.Plan
	if plan.GetBuildId() == "" {
		if len(plan.GetDigests()) == 0 {
			return "", "The digest of the image is not known", nil
		}
		return digest.Digest(plan.GetDigests()[0]), "", nil
	}
	b, err := s.stateOf(ctx, plan.GetBuildId())
	if err != nil {
		return "", "", err
	}
	switch b.GetState() {
	case buildv1.BuildState_BUILD_STATE_SUCCEEDED:
		if d := digest.Digest(b.GetDigest()); d.Validate() == nil {
			return d, "", nil
		}
		d, err := s.builtDigest(ctx, plan)
		if errors.Is(err, fault.NotFound) {
			return "", "The image is no longer stored", nil
		}
		return d, "", err
	case buildv1.BuildState_BUILD_STATE_FAILED:
		return "", fmt.Sprintf("The build %s failed, so there is no image to scan", plan.GetBuildId()), nil
	default:
		return "", "", nil
	}
}

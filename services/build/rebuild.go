package build

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	buildv1 "slipway.dev/proto/gen/slipway/build/v1"

	"slipway.dev/services/build/engine"
	"slipway.dev/services/build/store"
	"slipway.dev/services/conda/spec"
	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/limits"
)

// Images of layers of packages have the same bytes wherever they are built. A share of them is
// built again by another worker, which fetches every package and creates every layer anew, and
// pushes nothing. The service compares the results. It never tells the worker what it expects.
// Rebuilds are no builds: they are not charged, have no place in the queue, and cannot change the
// state of a build. A worker requests one when it has nothing else to do.

// A rebuildKey is the key that selects the builds that are made again, and that hides the names of
// workers. It is read once.
type rebuildKey struct {
	store store.Store
	mu    sync.Mutex
	key   []byte
}

// sum returns the keyed hash of a text for a purpose.
func (k *rebuildKey) sum(ctx context.Context, purpose, text string) ([]byte, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.key == nil {
		key, err := k.store.RebuildSecret(ctx)
		if err != nil {
			return nil, k.store.Fault("reading the key of rebuilds", err)
		}
		k.key = key
	}
	h := hmac.New(sha256.New, k.key)
	fmt.Fprintf(h, "%s\n%s", purpose, text)
	return h.Sum(nil), nil
}

// opaque returns an id for a worker that does not disclose its name, which may be that of a host.
func (k *rebuildKey) opaque(ctx context.Context, worker string) (string, error) {
	sum, err := k.sum(ctx, "worker", worker)
	return hex.EncodeToString(sum[:min(len(sum), 8)]), err
}

// isSelected reports whether a build that has succeeded is made again. Every replica decides the
// same. Clients and workers cannot predict it, since it depends on a secret key.
func (s *Service) isSelected(ctx context.Context, rec store.Record) (bool, error) {
	if s.deps.VerifyRebuild <= 0 || rec.Request.GetRecipe().GetEngine() != engine.Conda {
		return false, nil
	}
	sum, err := s.rebuildKey.sum(ctx, "selection", rec.ID)
	if err != nil {
		return false, err
	}
	const bits = 53 // of the mantissa
	return float64(binary.BigEndian.Uint64(sum)>>(64-bits))/(1<<bits) < s.deps.VerifyRebuild, nil
}

// storeEnd ends a build in SQL, and adds a rebuild of it if it is selected.
func (s *Service) storeEnd(ctx context.Context, rec store.Record, r *buildv1.Result, now time.Time) (bool, error) {
	if r.GetSucceeded() {
		again, err := s.isSelected(ctx, rec)
		if err != nil {
			return false, err
		}
		if again {
			ended, stored, err := s.store.CompleteSelected(ctx, r, layersVersion(), now)
			if err == nil && ended && !stored {
				s.rebuilds.WithLabelValues(resultSkipped).Inc()
			}
			return ended, err
		}
	}
	return s.store.Complete(ctx, r, now)
}

// TakeRebuild implements buildv1.WorkServiceServer.
func (s *Service) TakeRebuild(ctx context.Context, req *buildv1.TakeRebuildRequest) (*buildv1.TakeRebuildResponse, error) {
	if !isWorkerName(req.GetWorker()) {
		return nil, fault.Invalid.Newf("The worker has no valid name")
	}
	if err := s.checkCertificate(ctx); err != nil {
		return nil, err
	}
	if s.deps.VerifyRebuild <= 0 {
		return &buildv1.TakeRebuildResponse{RetryAfter: durationpb.New(limits.RebuildIntervalOff)}, nil
	}
	nothing := &buildv1.TakeRebuildResponse{RetryAfter: durationpb.New(limits.RebuildInterval)}
	now := s.deps.Now()
	id, err := s.store.NextRebuild(ctx, store.RebuildWorker{Name: req.GetWorker(), Machine: machineOf(req.GetWorker()), Layers: layersVersion()}, now)
	if errors.Is(err, fault.NotFound) {
		return nothing, nil
	}
	if err != nil {
		return nil, s.store.Fault("looking for a rebuild", err)
	}
	if wait, err := s.buildsWait(ctx); wait || err != nil {
		return nothing, err
	}
	ticket := rand.Text()
	taken, err := s.store.TakeRebuild(ctx, id, req.GetWorker(), hash(ticket), s.rebuildPlaces(), now, now.Add(limits.RebuildLease))
	if err != nil {
		return nil, s.store.Fault("noting that a rebuild was taken", err)
	}
	if !taken {
		return nothing, nil
	}
	out, err := s.describeRebuild(ctx, id, now)
	if err != nil {
		return nil, err // the lease ends
	}
	out.Ticket = ticket
	s.deps.Log.InfoContext(ctx, "A worker builds an image again", "build_id", id, "worker", req.GetWorker())
	return out, nil
}

// workerNames matches the names of workers: the host, the id in the worker's data_dir, and a random part.
var workerNames = regexp.MustCompile(`-([A-Z2-7]{6})-[A-Z2-7]{6}$`)

// machineOf returns the pattern of all names of a worker, which differ in the random part after a
// restart, and in the host if a container is created again with the same data_dir; "" for another name.
func machineOf(worker string) string {
	if m := workerNames.FindStringSubmatch(worker); m != nil {
		return "%-" + m[1] + "-______"
	}
	return ""
}

// layersVersion identifies the encoding of layers. A release with another version makes other bytes.
func layersVersion() string { return fmt.Sprintf("%v.%v", spec.LayerVersion, spec.WheelVersion) }

// describeRebuild returns the inputs of a build.
func (s *Service) describeRebuild(ctx context.Context, id string, taken time.Time) (*buildv1.TakeRebuildResponse, error) {
	rec, err := s.read(ctx, id)
	if err != nil {
		return nil, err
	}
	recipe, err := s.recipe(ctx, rec)
	if err != nil {
		return nil, err
	}
	lock, err := s.store.Lock(ctx, id)
	if err != nil {
		return nil, s.store.Fault("reading a build's lock", err)
	}
	return &buildv1.TakeRebuildResponse{
		BuildId: id, Recipe: recipe, Lock: lockRecords(lock), PrivateChannels: lock.GetPrivateChannels(), Deadline: timestamppb.New(taken.Add(s.rebuildTime(rec))),
	}, nil
}

// rebuildTime returns the time limit of a rebuild. It may take longer than the first build, which may
// have used stored layers.
func (s *Service) rebuildTime(rec store.Record) time.Duration {
	return max(rec.TimeLimit, s.deps.TimeUser)
}

// buildsWait reports whether builds wait for a free worker. Builds that wait for something else, such as
// the limit of their owner, do not count.
func (s *Service) buildsWait(ctx context.Context) (bool, error) {
	wait, err := s.store.BuildsWait(ctx, s.deps.Now().Add(-limits.RebuildYield))
	if err != nil {
		return false, s.store.Fault("counting builds", err)
	}
	return wait, nil
}

// rebuildPlaces returns how many rebuilds may run at a time: a part of the live workers.
func (s *Service) rebuildPlaces() int {
	n := 0
	for _, k := range s.workers.Kinds() {
		if k.Engine == engine.Conda {
			n++
		}
	}
	return max(1, n/limits.RebuildShare)
}

// rebuildHolder returns the rebuild and the build that a ticket belongs to, or fault.NotFound if the
// ticket is not valid. The deadline of the build is that of the rebuild.
func (s *Service) rebuildHolder(ctx context.Context, ticket string) (store.Rebuild, store.Record, error) {
	r, err := s.store.RebuildByTicket(ctx, hash(ticket))
	if err != nil && !errors.Is(err, fault.NotFound) {
		return r, store.Record{}, s.store.Fault("looking up the ticket of a rebuild", err)
	}
	if err != nil {
		return r, store.Record{}, fault.NotFound.New("The ticket is no longer valid", err)
	}
	rec, err := s.read(ctx, r.BuildID)
	if err != nil {
		return r, rec, err
	}
	rec.Started, rec.TimeLimit = r.Taken, s.rebuildTime(rec)
	if !rec.Succeeded || s.deps.Now().After(rec.Deadline().Add(grace)) {
		return r, rec, fault.NotFound.Newf("The ticket is no longer valid")
	}
	return r, rec, nil
}

// RenewRebuild implements buildv1.WorkServiceServer.
func (s *Service) RenewRebuild(ctx context.Context, req *buildv1.RenewRebuildRequest) (*buildv1.RenewRebuildResponse, error) {
	if _, _, err := s.rebuildHolder(ctx, req.GetTicket()); err != nil {
		return nil, err
	}
	renewed, err := s.store.RenewRebuild(ctx, hash(req.GetTicket()), s.deps.Now().Add(limits.RebuildLease))
	if err != nil {
		return nil, s.store.Fault("renewing a rebuild", err)
	}
	if !renewed {
		return nil, fault.NotFound.Newf("The ticket is no longer valid")
	}
	wait, err := s.buildsWait(ctx)
	return &buildv1.RenewRebuildResponse{Stop: wait || s.deps.VerifyRebuild <= 0}, err
}

// ReportRebuild implements buildv1.WorkServiceServer. The ticket determines the build.
func (s *Service) ReportRebuild(ctx context.Context, req *buildv1.ReportRebuildRequest) (*buildv1.ReportRebuildResponse, error) {
	if err := s.checkCertificate(ctx); err != nil {
		return nil, err
	}
	if len(req.GetManifest()) > limits.RebuildDocument || len(req.GetConfig()) > limits.RebuildDocument {
		return nil, fault.Invalid.Newf("The manifest or the configuration is larger than %d bytes", limits.RebuildDocument)
	}
	r, rec, err := s.rebuildHolder(ctx, req.GetTicket())
	if err != nil {
		return nil, err
	}
	message := s.deps.Keychain.Publish(printable(req.GetMessage()))
	now := s.deps.Now()
	switch req.GetOutcome() {
	case buildv1.RebuildOutcome_REBUILD_OUTCOME_BUILT:
		r, err := s.compare(ctx, r, rec, req)
		if err != nil {
			return nil, err
		}
		return &buildv1.ReportRebuildResponse{}, s.endRebuild(ctx, req.GetTicket(), r)
	case buildv1.RebuildOutcome_REBUILD_OUTCOME_UNAVAILABLE:
		if r.Attempts < limits.RebuildConfirmations { // the worker itself may be the reason
			_, err = s.store.RepeatRebuild(ctx, hash(req.GetTicket()), message, true, now.Add(limits.RebuildPause))
			break
		}
		r.State, r.Message = store.RebuildUnavailable, message
		return &buildv1.ReportRebuildResponse{}, s.endRebuild(ctx, req.GetTicket(), r)
	case buildv1.RebuildOutcome_REBUILD_OUTCOME_FAILED:
		_, err = s.store.RepeatRebuild(ctx, hash(req.GetTicket()), message, true, now.Add(limits.RebuildPause*time.Duration(r.Attempts)))
	case buildv1.RebuildOutcome_REBUILD_OUTCOME_RETURNED:
		_, err = s.store.RepeatRebuild(ctx, hash(req.GetTicket()), message, false, now.Add(limits.RebuildRenewal))
	case buildv1.RebuildOutcome_REBUILD_OUTCOME_UNSPECIFIED:
		return nil, fault.Invalid.Newf("The report has no outcome")
	}
	if err != nil {
		return nil, s.store.Fault("storing the end of a rebuild", err)
	}
	return &buildv1.ReportRebuildResponse{}, nil
}

// endRebuild stores the end of a rebuild, and reports it once.
func (s *Service) endRebuild(ctx context.Context, ticket string, r store.Rebuild) error {
	ended, err := s.store.EndRebuild(ctx, hash(ticket), r, s.deps.Now())
	if err != nil {
		return s.store.Fault("storing the end of a rebuild", err)
	}
	if !ended {
		return fault.NotFound.Newf("The ticket is no longer valid")
	}
	wake(s.happened)
	s.logRebuild(ctx, r)
	return nil
}

// Results of rebuilds, which are metric labels.
const (
	resultSame        = "same"
	resultDifferent   = "different"
	resultUnavailable = "unavailable"
	resultAbandoned   = "abandoned"
	resultSkipped     = "skipped"
)

// rebuildResults returns the result of each state in which a rebuild has ended.
func rebuildResults() map[string]string {
	return map[string]string{
		store.RebuildSame: resultSame, store.RebuildDifferent: resultDifferent,
		store.RebuildUnavailable: resultUnavailable, store.RebuildAbandoned: resultAbandoned,
	}
}

// logRebuild logs and counts a rebuild that has ended.
func (s *Service) logRebuild(ctx context.Context, r store.Rebuild) {
	s.rebuilds.WithLabelValues(rebuildResults()[r.State]).Inc()
	log := s.deps.Log.With("build_id", r.BuildID, "image", r.Image, "first_worker", r.FirstWorker, "first_digest", r.FirstDigest)
	switch r.State {
	case store.RebuildSame:
		log.InfoContext(ctx, "Another worker made the same bytes", "worker", r.Worker)
	case store.RebuildDifferent:
		log.ErrorContext(ctx, "Another worker made other bytes from the same inputs: one of the two workers is faulty or compromised. "+
			"`slipwayd rebuilds show` has both records; `slipwayd workers revoke` discards what a worker has built", "worker", r.Worker, "digest", r.Digest)
	default:
		log.WarnContext(ctx, "An image could not be built again, so that it is not verified", "result", rebuildResults()[r.State], "attempts", r.Attempts, "reason", r.Message)
	}
}

// sweepRebuilds ends rebuilds that no worker will make, and lets lost ones wait again.
func (s *Service) sweepRebuilds(ctx context.Context, now time.Time) error {
	if err := s.store.ReleaseLostRebuilds(ctx, now); err != nil {
		return err
	}
	stale, err := s.store.StaleRebuilds(ctx, now.Add(-limits.RebuildWait))
	if err != nil {
		return err
	}
	for _, r := range stale {
		switch _, err := s.store.Succeeded(ctx, r.BuildID); {
		case errors.Is(err, fault.NotFound):
			r.State, r.Message = store.RebuildUnavailable, "The build was deleted, or its image was discarded"
		case err != nil:
			return err
		case r.Attempts >= limits.RebuildTries:
			r.State, r.Message = store.RebuildAbandoned, fmt.Sprintf("%d attempts failed; the last one: %s", r.Attempts, r.Message)
		default:
			r.State, r.Message = store.RebuildAbandoned, fmt.Sprintf("No worker that had no part in the first build, and that makes the same version of layers, has built it within %s. %d attempts failed. %s", limits.RebuildWait, r.Attempts, r.Message)
		}
		ended, err := s.store.AbandonRebuild(ctx, r.BuildID, r.State, r.Message, now)
		if err != nil {
			return err
		}
		if ended {
			s.logRebuild(ctx, r)
		}
	}
	return s.store.RemoveRebuilds(ctx, now.Add(-limits.RebuildAlarmAge))
}

// rebuilt returns what is known about a second build of a manifest; nil if it is not known to have the same bytes.
func (s *Service) rebuilt(ctx context.Context, rec store.Record) (*buildv1.Rebuilt, error) {
	r, err := s.store.SameRebuild(ctx, rec.Request.GetContentDigest(), rec.Request.GetScope(), rec.Digest)
	if errors.Is(err, fault.NotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, s.store.Fault("looking up a rebuild", err)
	}
	out := &buildv1.Rebuilt{BuildId: r.BuildID, FirstFinishedAt: timestamppb.New(r.Created), SecondFinishedAt: timestamppb.New(r.Ended)}
	if out.FirstWorker, err = s.rebuildKey.opaque(ctx, r.FirstWorker); err != nil {
		return nil, err
	}
	out.SecondWorker, err = s.rebuildKey.opaque(ctx, r.Worker)
	return out, err
}

func newRebuildMetric(reg prometheus.Registerer) *prometheus.CounterVec {
	m := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "slipway_build_rebuilds_total",
		Help: "Images that were to be built again by another worker, by result: same, different, unavailable (inputs do not exist any more), abandoned (no other worker could build it) or skipped (too many waited).",
	}, []string{"result"})
	for _, result := range []string{resultSame, resultDifferent, resultUnavailable, resultAbandoned, resultSkipped} {
		m.WithLabelValues(result)
	}
	reg.MustRegister(m)
	return m
}

// rebuildMetrics exports the numbers of rebuilds. It queries SQL when scraped, so that all replicas
// report the same.
type rebuildMetrics struct{ *Service }

//nolint:gochecknoglobals // a description, never changed
var descRebuilds = prometheus.NewDesc("slipway_build_rebuilds",
	"Images that wait to be built again by another worker (waiting), are built again (running), or had other bytes and are not acknowledged with `slipwayd rebuilds acknowledge` (different). All replicas of the build role report the same value: use max, not sum.", []string{"state"}, nil)

// Describe implements prometheus.Collector.
func (rebuildMetrics) Describe(ch chan<- *prometheus.Desc) { ch <- descRebuilds }

// Collect implements prometheus.Collector. There are no values while the database is unavailable.
func (m rebuildMetrics) Collect(ch chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), scrapeTime)
	defer cancel()
	n, err := m.store.CountRebuilds(ctx)
	if err != nil {
		m.deps.Log.WarnContext(ctx, "The rebuilds of images cannot be counted", "err", err)
		return
	}
	for _, state := range []string{store.RebuildWaiting, store.RebuildRunning, store.RebuildDifferent} {
		ch <- prometheus.MustNewConstMetric(descRebuilds, prometheus.GaugeValue, float64(n[state]), strings.ToLower(state))
	}
}

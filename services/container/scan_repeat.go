package container

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	eventsv1 "slipway.dev/proto/gen/slipway/events/v1"

	"slipway.dev/services/container/store"
	"slipway.dev/services/internal/bus/eventbus"
	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/limits"
	"slipway.dev/services/internal/retry"
	"slipway.dev/services/internal/rpc"
)

// repeatEvery is how often images are looked for that were not scanned with the newest database.
const repeatEvery = 10 * time.Second

const (
	// repeatAfter is how long a version of the database must be in use before scans are repeated with it.
	repeatAfter = 30 * time.Second
	// repeatedTTL is how long no scans are looked for that were not repeated, after there were none. A scan that failed
	// is repeated after failedRepetition.
	repeatedTTL, failedRepetition = 10 * time.Minute, time.Hour
)

// repeatScans scans the images of valid names again when the database has changed, a few at a time and after all other
// scans, until ctx ends.
func (s *Service) repeatScans(ctx context.Context) {
	outage := &retry.Outage{Log: s.deps.Log, Fails: "Scans cannot be repeated right now; retrying", Works: "Scans are repeated again"}
	for retry.Sleep(ctx, repeatEvery) {
		switch err := s.repeatSome(ctx); {
		case err == nil:
			outage.Succeeded(ctx)
		case !errors.Is(err, fault.Unsupported) && ctx.Err() == nil:
			outage.Failed(ctx, err)
		}
	}
}

func (s *Service) repeatSome(ctx context.Context) error {
	db, err := s.scanDatabase(ctx)
	if err != nil {
		return err
	}
	now := s.deps.Now()
	// Replicas of the inspect service may have different versions for some time.
	if now.Sub(db.at) < repeatAfter || s.scanner.repeated == db.version && now.Sub(s.scanner.repeatedAt) < repeatedTTL {
		return nil
	}
	_, repeated, err := s.store.PendingScans(ctx)
	if err != nil || repeated >= limits.ScansRepeated {
		return err
	}
	list, err := s.store.Repetitions(ctx, db.version, now, now.Add(-failedRepetition), limits.ScansRepeated-int(repeated))
	if err != nil {
		return err
	}
	if len(list) == 0 && repeated == 0 {
		s.scanner.repeated, s.scanner.repeatedAt = db.version, now
	}
	for _, r := range list {
		rec, err := s.store.Get(ctx, r.Request)
		if errors.Is(err, fault.NotFound) {
			continue
		}
		if err == nil {
			err = s.store.PutFindings(ctx, store.Findings{
				Content: r.Content, Version: db.version, VersionAt: db.at, Repeated: true, Client: clientOf(ctx, rec), Request: r.Request, Digest: r.Digest,
			}, now, now.Add(-failedRepetition))
		}
		if err != nil {
			return err
		}
	}
	if len(list) > 0 {
		s.scanner.wake(s.scanner.woken)
	}
	return nil
}

// announceScan publishes an event for the newest request of each user for the image of a scan that has ended, if
// more or less was found than before, or if something was found that the request does not tolerate.
// before is the result until then.
func (s *Service) announceScan(ctx context.Context, before, f store.Findings) error {
	if s.events == nil {
		return nil
	}
	known := before.State == store.ScanDone
	if known && f.Result.GetProblem() != "" { // the result before remains
		return nil
	}
	if known && maps.Equal(before.Result.GetCounts(), f.Result.GetCounts()) {
		return nil
	}
	list, err := s.store.ScannedBy(ctx, f.Content, s.deps.Now(), limits.EventRequests)
	if err != nil {
		return err
	}
	var problems []error // that of one user does not affect others
	users := map[string]*scanUser{}
	for _, rec := range list {
		who := rec.Plan.GetIdentity()
		if who == nil {
			continue
		}
		key := fmt.Sprint(who.GetEndpoint(), " ", who.GetUserId(), " ", who.GetWorkspaceId())
		user := users[key]
		if user == nil {
			user = &scanUser{}
			users[key] = user
			if user.findings, err = s.judged(ctx, rec, f); err != nil {
				user.isDone = true
				problems = append(problems, err)
			}
		}
		if user.isDone {
			continue
		}
		if ok, _ := verdict(rec.Request, user.findings); !known && ok {
			continue
		}
		user.isDone = true
		e, err := s.scanEvent(ctx, rec, user.findings)
		if err == nil {
			err = eventbus.Publish(ctx, s.events, eventbus.Containers, e)
		}
		problems = append(problems, err)
	}
	return errors.Join(problems...)
}

// A scanUser is a user in a workspace who may get an event about a scan.
type scanUser struct {
	// findings are those that apply to the user's requests.
	findings store.Findings
	// isDone is set when the event was published, or cannot be.
	isDone bool
}

// scanEvent returns the event of a request whose image was scanned, with findings as judged for it.
func (s *Service) scanEvent(ctx context.Context, rec store.Record, f store.Findings) (*eventsv1.Event, error) {
	scan, err := s.store.ScanOf(ctx, rec.Key)
	if err != nil {
		return nil, err
	}
	allowed, reason := verdict(rec.Request, f)
	out := &eventsv1.ContainerEvent{
		RequestId: rec.Key, BuildId: rec.Plan.GetBuildId(), TargetImage: s.issuedTarget(rec.Plan), WorkflowId: rpc.Optional(rec.Request.GetWorkflowId()),
		CreationTime: timestamppb.New(rec.Created), Succeeded: allowed, ScanId: proto.String(scan.ID), Vulnerabilities: f.Result.GetCounts(),
	}
	if !allowed {
		out.Reason, out.Message = proto.String(reasonScan), proto.String(reason)
	}
	who := rec.Plan.GetIdentity()
	return &eventsv1.Event{
		Id: rec.Key + "." + eventbus.ContainerScanned + "." + f.Version, Type: eventbus.ContainerScanned, Time: timestamppb.New(s.deps.Now()),
		Endpoint: who.GetEndpoint(), UserId: who.GetUserId(), WorkspaceId: who.GetWorkspaceId(),
		Data: &eventsv1.Event_Container{Container: out},
	}, nil
}

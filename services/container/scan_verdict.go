package container

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/opencontainers/go-digest"
	"google.golang.org/protobuf/proto"

	containerv1 "slipway.dev/proto/gen/slipway/container/v1"

	"slipway.dev/services/container/request"
	"slipway.dev/services/container/store"
	"slipway.dev/services/container/tokens"
	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/rpc"
)

const (
	statusScanning = "SCANNING"
	// reasonScan is the reason code of an image that its scan did not allow.
	reasonScan = "scan"
)

// worstFound precedes the worst finding in a reason.
const worstFound = ", such as "

// verdict reports whether findings, as judged for a request, are within what a request tolerates, and otherwise why not, as a sentence without
// full stop. Findings of a failed scan are not.
func verdict(req *containerv1.ContainerRequest, f store.Findings) (allowed bool, reason string) {
	if p := f.Result.GetProblem(); p != "" {
		return false, "The image could not be scanned: " + p
	}
	tolerated := request.ToleratedLevels(req)
	var above []string
	n := int32(0)
	for _, level := range request.ScanLevels() {
		if count := f.Result.GetCounts()[level]; count > 0 && !slices.Contains(tolerated, level) {
			above = append(above, fmt.Sprintf("%d %s", count, level))
			n += count
		}
	}
	if n == 0 {
		if gaps := f.Result.GetGaps(); req.GetScanMode() == request.ScanRequired && len(gaps) > 0 {
			return false, "The scan does not cover the whole image: " + strings.Join(gaps, "; ")
		}
		return true, ""
	}
	noun := "vulnerabilities"
	if n == 1 {
		noun = "vulnerability"
	}
	reason = fmt.Sprintf("The scan found %s %s", strings.Join(above, ", "), noun)
	if worst := first(f.Result.GetVulnerabilities(), tolerated); worst != nil {
		reason += worstFound + fmt.Sprintf("%s in %s %s", worst.GetId(), fault.Quote(worst.GetPkgName()), fault.Quote(worst.GetInstalledVersion()))
	}
	return false, reason
}

// first returns the first vulnerability that is not tolerated.
func first(list []*containerv1.Vulnerability, tolerated []string) *containerv1.Vulnerability {
	for _, v := range list {
		if v.Status == nil && !slices.Contains(tolerated, v.GetSeverity()) {
			return v
		}
	}
	return nil
}

// addScanStatus adds the state of the scan to the status of a request.
func (s *Service) addScanStatus(ctx context.Context, out *containerv1.GetContainerStatusResponse, rec store.Record) error {
	if !request.IsScanned(rec.Request) {
		return nil
	}
	scan, err := s.store.ScanOf(ctx, rec.Key)
	if errors.Is(err, fault.NotFound) {
		return nil // it was stored by a release without scans
	}
	if err != nil {
		return s.sqlFault("reading a scan", err)
	}
	// The id of the request is public, and of a scan without a user, its id suffices to read it. What was added to a frozen
	// image is a part of its recipe.
	if rec.Plan.GetIdentity() != nil || rec.Plan.GetConfig() == nil && !rec.Plan.GetFrozen() || rec.Plan.GetToken() != "" {
		out.ScanId = proto.String(scan.ID)
	}
	if out.GetStatus() != statusDone || !out.GetSucceeded() {
		return nil
	}
	f, ended, err := s.scanState(ctx, rec, scan)
	if err != nil {
		return err
	}
	required := rec.Request.GetScanMode() == request.ScanRequired
	if !ended {
		if required {
			out.Status, out.Succeeded = proto.String(statusScanning), nil
		}
		return nil
	}
	out.Vulnerabilities = f.Result.GetCounts()
	if allowed, reason := verdict(rec.Request, f); required && !allowed {
		if rec.Plan.GetToken() == "" { // the name of a package is only for clients with the right to the image
			reason, _, _ = strings.Cut(reason, worstFound)
		}
		out.Succeeded, out.Reason, out.ReasonCode = proto.Bool(false), proto.String(reason), proto.String(reasonScan)
		out.Message, out.DetailsUri = proto.String(reason), nil
		if out.ScanId != nil {
			out.DetailsUri = proto.String(s.scanPage(scan.ID))
		}
	}
	return nil
}

// scanPage returns the address of the page of a scan.
func (s *Service) scanPage(id string) string { return s.publicURL() + "/view/scans/" + id }

// scanState returns what is known about the image of a scan. ended is false while it is being scanned. A scan whose
// image has just been built is linked to it.
func (s *Service) scanState(ctx context.Context, rec store.Record, scan store.Scan) (f store.Findings, ended bool, err error) {
	if scan.Problem != "" {
		return store.Findings{State: store.ScanFailed, Result: &containerv1.ScanResult{Problem: scan.Problem}}, true, nil
	}
	if scan.Content == "" {
		s.scanner.wake(s.scanner.due)
		if err := s.store.WakeScan(ctx, scan.ID, s.deps.Now()); err != nil {
			return f, false, s.sqlFault("starting a scan", err)
		}
		return f, false, nil
	}
	f, err = s.store.FindingsOf(ctx, scan.Content)
	if errors.Is(err, fault.NotFound) { // they were deleted, and the name is used again
		return f, false, s.link(ctx, scan.ID, rec, digest.Digest(scan.Digest))
	}
	if err != nil {
		return f, false, s.sqlFault("reading a scan", err)
	}
	f, err = s.judged(ctx, rec, f)
	return f, f.State != store.ScanPending, err
}

// awaitPoll is how often a waiting call reads the state of a scan.
const awaitPoll = 500 * time.Millisecond

// AwaitScan reports whether an image whose request requires a scan may be pulled. It waits for the scan until shortly
// before the deadline of the call.
func (s *Service) AwaitScan(ctx context.Context, req *containerv1.AwaitScanRequest) (*containerv1.AwaitScanResponse, error) {
	root, err := digest.Parse(req.GetDigest())
	if err != nil {
		return nil, fault.Invalid.New("The digest is malformed", err)
	}
	rec, err := s.live(ctx, req.GetToken())
	if err != nil {
		return nil, err
	}
	if !rec.Plan.GetScanRequired() {
		return &containerv1.AwaitScanResponse{Done: true, Allowed: true}, nil
	}
	if err := s.follow(ctx, rec, root); err != nil {
		return nil, err
	}
	content := contentOf(rec.Plan, root)
	f, err := s.awaitFindings(ctx, content)
	if err != nil || f.State == store.ScanPending {
		return &containerv1.AwaitScanResponse{}, err
	}
	if f, err = s.judged(ctx, rec, f); err != nil {
		return nil, err
	}
	out := &containerv1.AwaitScanResponse{Done: true, Manifests: f.Result.GetManifests()}
	if out.Allowed, out.Reason = verdict(rec.Request, f); !out.Allowed {
		out.Reason += ". Details: " + s.scanPage(scanID(req.GetToken()))
	}
	return out, nil
}

// follow makes the scan of a request that of the image that its reference now resolves to, unless that has a result.
func (s *Service) follow(ctx context.Context, rec store.Record, root digest.Digest) error {
	content := contentOf(rec.Plan, root)
	scan, err := s.store.ScanOf(ctx, rec.Key)
	if errors.Is(err, fault.NotFound) { // it was deleted
		scan = store.Scan{ID: scanID(rec.Plan.GetToken()), Request: rec.Key, Build: rec.Plan.GetBuildId(), Created: s.deps.Now()}
		err = s.store.PutScan(ctx, scan, s.deps.Now())
	}
	if err != nil {
		return s.sqlFault("reading a scan", err)
	}
	if scan.Content == content {
		f, err := s.store.FindingsOf(ctx, content)
		if err == nil && f.State != store.ScanFailed {
			return nil
		}
		if err != nil && !errors.Is(err, fault.NotFound) {
			return s.sqlFault("reading a scan", err)
		}
	}
	if scan.Content != "" && len(rec.Plan.GetDigests()) > 0 && rec.Plan.GetDigests()[0] != root.String() {
		return s.ensureFindings(ctx, rec, content, root) // a client continues with an image that the tag had before
	}
	return s.link(ctx, scan.ID, rec, root)
}

// awaitFindings returns the findings in content when they are no longer pending, or shortly before the deadline.
func (s *Service) awaitFindings(ctx context.Context, content string) (store.Findings, error) {
	early, cancel := context.WithCancel(ctx)
	if deadline, ok := ctx.Deadline(); ok {
		early, cancel = context.WithDeadline(ctx, deadline.Add(-awaitPoll))
	}
	defer cancel()
	for {
		f, err := s.store.FindingsOf(ctx, content)
		if err != nil {
			return f, s.sqlFault("reading a scan", err)
		}
		if f.State != store.ScanPending || early.Err() != nil {
			return f, nil
		}
		select {
		case <-early.Done():
		case <-time.After(awaitPoll):
		}
		if ctx.Err() != nil {
			return f, ctx.Err()
		}
	}
}

// scanFor returns a scan that the caller may read, with its request: any client that knows the id of the scan of an
// anonymous request, otherwise the user who made the request.
func (s *Service) scanFor(ctx context.Context, id string) (store.Scan, store.Record, error) {
	if !scanIDs.MatchString(id) {
		return store.Scan{}, store.Record{}, fault.NotFound.Newf("There is no such scan; its id is sc-, 16 hex digits and _1")
	}
	scan, err := s.store.Scan(ctx, id)
	if err != nil && !errors.Is(err, fault.NotFound) {
		err = s.sqlFault("reading a scan", err)
	}
	if err != nil {
		return scan, store.Record{}, err
	}
	rec, err := s.find(ctx, scan.Request)
	if err != nil || rec.Plan.GetIdentity() == nil {
		return scan, rec, err
	}
	who, err := s.bearer(ctx)
	switch {
	case err != nil:
	case who == nil:
		err = fault.Unauthenticated.Newf("The scan belongs to the request of a user: send that user's access token as Authorization: Bearer")
	case !isOwner(rec, who):
		err = fault.Denied.Newf("The scan belongs to the request of another user")
	}
	return scan, rec, err
}

// optionalScan returns the id of the scan of a new request; nil without a scan.
func optionalScan(plan *containerv1.Plan, record *containerv1.ContainerRequest) *string {
	if !request.IsScanned(record) || !tokens.Is(plan.GetToken()) {
		return nil
	}
	return rpc.Optional(scanID(plan.GetToken()))
}

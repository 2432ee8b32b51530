package container

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"

	containerv1 "slipway.dev/proto/gen/slipway/container/v1"
	inspectv1 "slipway.dev/proto/gen/slipway/inspect/v1"

	"slipway.dev/services/container/request"
	"slipway.dev/services/container/store"
	"slipway.dev/services/container/tokens"
	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/rpc"
)

// The states of gateway/contract/container-service.md#scans.
const (
	scanPending   = "PENDING"
	scanSucceeded = "SUCCEEDED"
	scanFailed    = "FAILED"
)

// DescribeScan returns a scan with what it found.
func (s *Service) DescribeScan(ctx context.Context, req *containerv1.DescribeScanRequest) (*containerv1.DescribeScanResponse, error) {
	scan, rec, err := s.scanFor(ctx, req.GetScanId())
	if err != nil {
		return nil, err
	}
	return s.describeScan(ctx, scan, rec)
}

// DescribeBuildScan returns the scan of the caller's newest request for the image of a build.
func (s *Service) DescribeBuildScan(ctx context.Context, req *containerv1.DescribeBuildScanRequest) (*containerv1.DescribeBuildScanResponse, error) {
	who, err := s.signedIn(ctx)
	if err != nil {
		return nil, err
	}
	scan, err := s.store.ScanOfBuild(ctx, req.GetBuildId(), who)
	if errors.Is(err, fault.NotFound) {
		return nil, fault.NotFound.New("You have no scan of the image of this build: request the image with scanMode", err)
	}
	if err != nil {
		return nil, s.sqlFault("reading the scan of a build", err)
	}
	rec, err := s.find(ctx, scan.Request)
	if err != nil {
		return nil, err
	}
	out, err := s.describeScan(ctx, scan, rec)
	return &containerv1.DescribeBuildScanResponse{Scan: out}, err
}

// describeScan returns a scan that the caller may read.
func (s *Service) describeScan(ctx context.Context, scan store.Scan, rec store.Record) (*containerv1.DescribeScanResponse, error) {
	f, ended, err := s.readScan(ctx, scan, rec)
	if err != nil {
		return nil, err
	}
	plan, res := rec.Plan, f.Result
	out := &containerv1.DescribeScanResponse{
		ScanMode: rpc.Optional(rec.Request.GetScanMode()), ScanLevels: request.ToleratedLevels(rec.Request),
		Id: proto.String(scan.ID), RequestId: proto.String(tokens.IDOf(rec.Key)), ContainerImage: proto.String(s.containerImage(plan, rec.Request)),
		Platform: rpc.Optional(plan.GetPlatform()), Digest: rpc.Optional(scan.Digest), StartTime: timestamp(f.Started), Status: proto.String(scanPending),
	}
	if plan.GetMirror() {
		out.MirrorId = rpc.Optional(plan.GetBuildId())
	} else {
		out.BuildId = rpc.Optional(plan.GetBuildId())
	}
	if !ended {
		return out, nil
	}
	allowed, reason := verdict(rec.Request, f)
	out.Status, out.Allowed, out.Reason = proto.String(scanSucceeded), proto.Bool(allowed), rpc.Optional(reason)
	if f.State == store.ScanFailed {
		out.Status, out.Allowed, out.Reason = proto.String(scanFailed), nil, proto.String(res.GetProblem())
	}
	if !f.Started.IsZero() && !f.Ended.IsZero() {
		out.Duration = proto.String(strconv.FormatInt(f.Ended.Sub(f.Started).Nanoseconds(), 10))
	}
	out.Vulnerabilities, out.Counts, out.Note = res.GetVulnerabilities(), res.GetCounts(), rpc.Optional(res.GetNote())
	out.Packages, out.Gaps = proto.Int32(res.GetPackages()), res.GetGaps()
	out.Database, out.DatabaseTime = rpc.Optional(res.GetDatabase()), res.GetDatabaseTime()
	return out, nil
}

// readScan returns what is known about the image of the scan of a request, without starting anything.
func (s *Service) readScan(ctx context.Context, scan store.Scan, rec store.Record) (f store.Findings, ended bool, err error) {
	if scan.Problem != "" {
		return store.Findings{State: store.ScanFailed, Result: &containerv1.ScanResult{Problem: scan.Problem}}, true, nil
	}
	if scan.Content == "" {
		return f, false, nil
	}
	f, err = s.store.FindingsOf(ctx, scan.Content)
	if err != nil {
		return f, false, s.sqlFault("reading a scan", err)
	}
	f, err = s.judged(ctx, rec, f)
	return f, f.State != store.ScanPending, err
}

// GetScanSpdx returns the bill of materials of the image of a scan in SPDX.
func (s *Service) GetScanSpdx(ctx context.Context, req *containerv1.GetScanSpdxRequest) (*containerv1.GetScanSpdxResponse, error) {
	doc, err := s.scannedSBOM(ctx, req.GetScanId(), "spdx")
	if err != nil {
		return nil, err
	}
	return &containerv1.GetScanSpdxResponse{Document: proto.String(doc.GetDocument()), MediaType: proto.String(doc.GetMediaType())}, nil
}

// GetScanCycloneDx returns the bill of materials of the image of a scan in CycloneDX.
func (s *Service) GetScanCycloneDx(ctx context.Context, req *containerv1.GetScanCycloneDxRequest) (*containerv1.GetScanCycloneDxResponse, error) {
	doc, err := s.scannedSBOM(ctx, req.GetScanId(), "cyclonedx")
	if err != nil {
		return nil, err
	}
	return &containerv1.GetScanCycloneDxResponse{Document: proto.String(doc.GetDocument()), MediaType: proto.String(doc.GetMediaType())}, nil
}

// scannedSBOM returns the bill of materials of the image of a scan. It is read with the login of the user who made
// the request, so that its name must be valid. It is charged as a pull.
func (s *Service) scannedSBOM(ctx context.Context, id, format string) (*inspectv1.GetScannedSBOMResponse, error) {
	scan, rec, err := s.scanFor(ctx, id)
	if err == nil {
		err = rec.Works(s.deps.Now())
	}
	switch {
	case err != nil:
		return nil, err
	case s.deps.Inspect == nil:
		return nil, errNoScans()
	case scan.Digest == "":
		return nil, fault.Conflict.Newf("The image of the scan has not been built yet").WithCode(fault.BuildRunning)
	}
	if err := s.chargePull(ctx, rec.Plan.GetIdentity()); err != nil {
		return nil, err
	}
	return s.deps.Inspect.GetScannedSBOM(ctx, &inspectv1.GetScannedSBOMRequest{Plan: tokens.Without(rec.Plan), Digest: scan.Digest, Format: format})
}

// GetScanLogs returns what a scan did, as text.
func (s *Service) GetScanLogs(ctx context.Context, req *containerv1.GetScanLogsRequest) (*containerv1.GetScanLogsResponse, error) {
	scan, rec, err := s.scanFor(ctx, req.GetScanId())
	if err != nil {
		return nil, err
	}
	f, ended, err := s.readScan(ctx, scan, rec)
	if err != nil {
		return nil, err
	}
	return &containerv1.GetScanLogsResponse{Text: proto.String(scanLog(scan, rec.Request, f, ended))}, nil
}

// scanLog returns the log of a scan, a line for each step.
func scanLog(scan store.Scan, req *containerv1.ContainerRequest, f store.Findings, ended bool) string {
	var out strings.Builder
	line := func(at time.Time, format string, args ...any) {
		if !at.IsZero() {
			_, _ = fmt.Fprintf(&out, "%s %s\n", at.UTC().Format(time.RFC3339), fmt.Sprintf(format, args...))
		}
	}
	line(scan.Created, "The scan was requested")
	if scan.Content == "" && scan.Problem == "" {
		line(scan.Created, "It waits for the image")
	}
	if scan.Digest != "" && f.Started.IsZero() {
		line(scan.Created, "It waits for a worker")
	}
	line(f.Started, "Scanning %s, try %d", scan.Digest, f.Claims)
	if !ended {
		return out.String()
	}
	end, res := f.Ended, f.Result
	if end.IsZero() {
		end = scan.Created
	}
	if p := res.GetProblem(); p != "" {
		line(end, "The scan failed: %s", p)
		return out.String()
	}
	line(end, "Looked up %d packages in the database %.12s of %s", res.GetPackages(), res.GetDatabase(), res.GetDatabaseTime().AsTime().Format(time.RFC3339))
	for _, level := range request.ScanLevels() {
		if n := res.GetCounts()[level]; n > 0 {
			line(end, "%s: %d", level, n)
		}
	}
	for _, ruled := range ruledOut(res.GetVulnerabilities()) {
		line(end, "%s", ruled)
	}
	if res.GetNote() != "" {
		line(end, "%s", res.GetNote())
	}
	if _, reason := verdict(req, f); reason != "" {
		line(end, "%s", reason)
	} else {
		line(end, "Nothing was found that the request does not tolerate")
	}
	return out.String()
}

// ruledOut states how many vulnerabilities each VEX document rules out, a sentence for each.
func ruledOut(list []*containerv1.Vulnerability) (out []string) {
	by := map[string]int{}
	for _, v := range list {
		if v.Status != nil {
			by[cmp.Or(v.GetDocument(), "server")]++
		}
	}
	for _, document := range slices.Sorted(maps.Keys(by)) {
		out = append(out, fmt.Sprintf("Ruled out by the VEX document %s: %d", document, by[document]))
	}
	return out
}

package inspect

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"github.com/package-url/packageurl-go"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	containerv1 "slipway.dev/proto/gen/slipway/container/v1"
	inspectv1 "slipway.dev/proto/gen/slipway/inspect/v1"
	platformv1 "slipway.dev/proto/gen/slipway/platform/v1"

	"slipway.dev/services/internal/caller"
	"slipway.dev/services/internal/fairshare"
	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/limits"
	"slipway.dev/services/internal/oci"
	"slipway.dev/services/internal/rpc"
	"slipway.dev/services/internal/sbom"
	"slipway.dev/services/internal/vulns"
)

// GetVulnerabilityDatabase returns the version of the current database.
func (s *Service) GetVulnerabilityDatabase(context.Context, *inspectv1.GetVulnerabilityDatabaseRequest) (*inspectv1.GetVulnerabilityDatabaseResponse, error) {
	db, release, err := s.deps.Vulnerabilities.Acquire()
	if err != nil {
		return nil, err
	}
	defer release()
	return &inspectv1.GetVulnerabilityDatabaseResponse{Version: db.Version(), Time: timestamppb.New(db.Time())}, nil
}

// FindVulnerabilities returns the known vulnerabilities of an image for one platform.
func (s *Service) FindVulnerabilities(ctx context.Context, req *inspectv1.FindVulnerabilitiesRequest) (*inspectv1.FindVulnerabilitiesResponse, error) {
	image, platform, err := parseImage("image", req.GetImage(), req.GetPlatform())
	if err != nil {
		return nil, err
	}
	who, err := s.admit(ctx, &inspectv1.ImageQuery{PlatformWorkspaceId: req.WorkspaceId})
	if err != nil {
		return nil, err
	}
	db, release, err := s.deps.Vulnerabilities.Acquire()
	if err != nil {
		return nil, err
	}
	defer release()
	l, all, err := s.variants(ctx, who, image, platform, imageOf)
	if err != nil {
		return nil, err
	}
	if err := checkScannable(all[:1]); err != nil {
		return nil, err
	}
	all[0].lock = "" // the author of the image has written it
	r := scanReader{packages: s.packageReader(who, l), db: db, seen: map[string]int{}}
	if err := r.scan(ctx, all[:1]); err != nil {
		return nil, err
	}
	own, err := s.vex.Of(ctx, who)
	if err != nil {
		return nil, err
	}
	res, err := slices.Concat(s.deps.Vulnerabilities.VEX(), own).Apply(ctx, r.result())
	if err != nil {
		return nil, err
	}
	return &inspectv1.FindVulnerabilitiesResponse{
		Vulnerabilities: res.GetVulnerabilities(), Counts: res.GetCounts(), Digest: proto.String(all[0].digest), Platform: proto.String(all[0].platform),
		Packages: proto.Int32(res.GetPackages()), Note: rpc.Optional(res.GetNote()), Gaps: res.GetGaps(), Database: proto.String(res.GetDatabase()), DatabaseTime: res.GetDatabaseTime(),
	}, nil
}

// GetServerVex returns the OpenVEX documents of the server.
func (s *Service) GetServerVex(_ context.Context, req *inspectv1.GetServerVexRequest) (*inspectv1.GetServerVexResponse, error) {
	version, documents := s.deps.Vulnerabilities.Documents()
	out := &inspectv1.GetServerVexResponse{Version: version}
	if version == req.GetKnownVersion() {
		return out, nil
	}
	for _, d := range documents {
		out.Documents = append(out.Documents, &platformv1.AppliedVex{Name: d.Name, Content: string(d.Content)})
	}
	return out, nil
}

// ScanImage returns the known vulnerabilities of the image of a plan, for all platforms of the plan. It
// charges nothing, since the request for the scan was charged.
func (s *Service) ScanImage(ctx context.Context, req *inspectv1.ScanImageRequest) (*inspectv1.ScanImageResponse, error) {
	db, release, err := s.deps.Vulnerabilities.Acquire()
	if err != nil {
		return nil, err
	}
	defer release()
	packages, all, err := s.planned(ctx, req.GetPlan(), req.GetDigest())
	if err != nil {
		return nil, err
	}
	if err := checkScannable(all); err != nil {
		return nil, err
	}
	if !req.GetTrustLock() {
		for i := range all {
			all[i].lock = "" // the author of the image has written it
		}
	}
	r := scanReader{packages: packages, db: db, seen: map[string]int{}}
	if err := r.scan(ctx, all); err != nil {
		return nil, err
	}
	return &inspectv1.ScanImageResponse{Result: r.result()}, nil
}

// GetScannedSBOM returns the bill of materials of the image of a plan, for its first platform.
func (s *Service) GetScannedSBOM(ctx context.Context, req *inspectv1.GetScannedSBOMRequest) (*inspectv1.GetScannedSBOMResponse, error) {
	format, err := sbom.ParseFormat(req.GetFormat())
	if err != nil {
		return nil, err
	}
	packages, all, err := s.planned(ctx, req.GetPlan(), req.GetDigest())
	if err != nil {
		return nil, err
	}
	doc, err := packages.document(ctx, all[0], format)
	if err != nil {
		return nil, err
	}
	return &inspectv1.GetScannedSBOMResponse{Document: string(doc), MediaType: format.MediaType()}, nil
}

// planned returns a reader of the image of a plan whose reference has resolved to a digest, and its variants.
func (s *Service) planned(ctx context.Context, plan *containerv1.Plan, root string) (*packageReader, []variant, error) {
	d, err := digest.Parse(root)
	if err != nil {
		return nil, nil, fault.Invalid.New("The digest is malformed", err)
	}
	ctx, done := s.deps.Control.Documents().Hold(ctx)
	defer done()
	image := oci.ReferenceOf(plan.GetSource())
	image.Tag, image.Digest = "", d
	l := imageReader{documents: s.deps.Control.Documents(), image: image, requested: image, plan: plan}
	if l.access, err = s.accessOf(ctx, plan, image.Registry, image.Repository); err != nil {
		return nil, nil, err
	}
	l.client = s.deps.Control.For(l.access, image.Registry)
	if err := s.augment(ctx, &l, plan); err != nil {
		return nil, nil, err
	}
	var wanted []ocispec.Platform
	if plan.GetPlatform() != "" {
		if wanted, err = oci.ParsePlatforms(plan.GetPlatform()); err != nil {
			return nil, nil, err
		}
	}
	all, err := l.variants(ctx, nil, func(x ocispec.Index, _ *ocispec.Platform) ([]ocispec.Descriptor, error) { return imagesFor(x, wanted) })
	if err != nil {
		return nil, nil, err
	}
	r := s.packageReader(caller.Of(plan.GetIdentity()), l)
	r.isFree = true
	for i := range all {
		if l.dropUnreadable(&all[i]) {
			r.unread = true
		}
	}
	return r, all, nil
}

// dropUnreadable removes the layers from a variant that a request added with a URL, since only clients fetch them. It
// reports whether there are any.
func (l imageReader) dropUnreadable(v *variant) bool {
	described := len(v.history) == len(v.layers)
	var layers []ocispec.Descriptor
	var history []string
	base := len(v.layers) - len(l.plan.GetConfig().GetLayers())
	for i, layer := range v.layers {
		added := l.added(layer)
		if i < base {
			added = nil
		}
		if added != nil && added.GetIncludedFrom() == nil && !strings.HasPrefix(added.GetLocation(), "data:") {
			continue
		}
		layers = append(layers, layer)
		if described {
			history = append(history, v.history[i])
		}
	}
	dropped := len(layers) < len(v.layers)
	v.layers = layers
	if described {
		v.history = history
	}
	return dropped
}

// unreadNote states that layers were left out.
const unreadNote = "Layers that the request added with a URL were not read, since only clients fetch them."

// imagesFor returns the images of an index for any of the wanted platforms; all images if there are none.
func imagesFor(x ocispec.Index, wanted []ocispec.Platform) ([]ocispec.Descriptor, error) {
	var out []ocispec.Descriptor
	for _, p := range wanted {
		for _, i := range oci.Matching(x, p) {
			e := x.Manifests[i]
			if isImage(e) && !slices.ContainsFunc(out, func(o ocispec.Descriptor) bool { return o.Digest == e.Digest }) {
				out = append(out, e)
			}
		}
	}
	if len(out) == 0 {
		return imagesOf(x, nil)
	}
	return out[:min(len(out), limits.ImageLockPlatforms)], nil
}

// A finding is a vulnerability with the images that have it, as bits.
type finding struct {
	*containerv1.Vulnerability
	places uint64
}

// A scanReader looks up the packages of the variants of one image in a database.
type scanReader struct {
	packages *packageReader
	db       *vulns.Database
	found    []finding
	// seen has the index in found of the findings of all variants.
	seen      map[string]int
	images    []string
	notes     []string
	manifests []string
	count     int
}

func (r *scanReader) scan(ctx context.Context, all []variant) error {
	for _, v := range all {
		m, err := r.packages.billOf(ctx, v)
		if err != nil {
			return err
		}
		found, err := r.find(ctx, m.Components)
		if err != nil {
			return err
		}
		if r.packages.unread {
			m.Note = strings.TrimSpace(m.Note + " " + unreadNote)
		}
		r.addUncovered(m.Components)
		source := cmp.Or(r.packages.image.sources[v.digest], v.digest)
		r.manifests = append(r.manifests, source)
		if len(r.packages.image.plan.GetConfig().GetLayers()) > 0 { // a statement about the source is not about what was added
			source = v.digest
		}
		r.images = append(r.images, source)
		if len(m.Components) == 0 {
			r.packages.gaps = append(r.packages.gaps, "No packages were found")
		}
		r.count += len(m.Components)
		r.note(m.Note)
		for _, f := range found {
			key := strings.Join([]string{f.ID, f.Package, f.Version, f.Path, f.PURL}, "\x00") // statements are about package URLs
			place := uint64(1) << (len(r.images) - 1)                                         // of at most limits.ImageLockPlatforms
			if i, ok := r.seen[key]; ok {
				r.found[i].places |= place
				continue
			}
			r.seen[key] = len(r.found)
			out := vulnerability(f)
			if len(all) > 1 {
				out.Platform = proto.String(v.platform)
			}
			r.found = append(r.found, finding{out, place})
		}
	}
	return nil
}

// note adds a note once.
func (r *scanReader) note(text string) {
	if text != "" && !slices.Contains(r.notes, text) {
		r.notes = append(r.notes, text)
	}
}

// addUncovered states for which components the database has no data. Those of a distribution or a language are
// gaps. Most Conda packages have no advisory anywhere, so that these are only noted.
func (r *scanReader) addUncovered(components []sbom.Component) {
	list := r.db.Uncovered(components)
	for _, name := range slices.Sorted(maps.Keys(list)) {
		if name == packageurl.TypeConda {
			r.note(fmt.Sprintf("%d Conda packages were not compared: it is not known under which names advisories mention them.", list[name]))
			continue
		}
		r.packages.gaps = append(r.packages.gaps, "The server has no data about "+name)
	}
}

// find looks up components during a turn of their client.
func (r *scanReader) find(ctx context.Context, components []sbom.Component) ([]vulns.Finding, error) {
	turn, err := r.packages.service.listings.pool.Acquire(ctx, fairshare.Request{Client: r.packages.who.Client(ctx), Class: fairshare.Short})
	if err != nil {
		return nil, err
	}
	defer turn.Release()
	return r.db.Find(ctx, components)
}

// result returns what was found, the most severe first, without the statements of VEX documents.
func (r *scanReader) result() *containerv1.ScanResult {
	out := &containerv1.ScanResult{
		Manifests: r.manifests, Images: r.images, Note: strings.Join(r.notes, " "), Packages: int32(r.count), Counts: map[string]int32{},
		Database: r.db.Version(), DatabaseTime: timestamppb.New(r.db.Time()), Gaps: slices.Compact(slices.Sorted(slices.Values(r.packages.gaps))),
	}
	slices.SortStableFunc(r.found, func(a, b finding) int {
		return cmp.Or(rank(a.Vulnerability)-rank(b.Vulnerability), strings.Compare(a.GetPkgName(), b.GetPkgName()), strings.Compare(a.GetId(), b.GetId()))
	})
	for _, v := range r.found {
		out.Counts[v.GetSeverity()]++
		if len(out.GetVulnerabilities()) == limits.ScanListed {
			continue
		}
		out.Vulnerabilities = append(out.Vulnerabilities, v.Vulnerability)
		if len(r.images) > 1 {
			out.Places = append(out.Places, v.places)
		}
	}
	for proto.Size(out) > limits.ScanResult {
		n := len(out.GetVulnerabilities()) / 2
		out.Vulnerabilities = out.Vulnerabilities[:n]
		out.Places = out.Places[:min(n, len(out.GetPlaces()))]
	}
	return out
}

func rank(v *containerv1.Vulnerability) int {
	return slices.Index(vulns.Severities(), vulns.Severity(strings.ToLower(v.GetSeverity())))
}

func vulnerability(f vulns.Finding) *containerv1.Vulnerability {
	out := &containerv1.Vulnerability{
		Id: proto.String(f.ID), Severity: proto.String(strings.ToUpper(string(cmp.Or(f.Severity, vulns.Unknown)))), Title: rpc.Optional(f.Title),
		PkgName: proto.String(f.Package), InstalledVersion: proto.String(f.Version), FixedVersion: rpc.Optional(f.Fixed), PrimaryUrl: rpc.Optional(f.URL),
		Aliases: f.Aliases, Purl: rpc.Optional(f.PURL), Path: rpc.Optional(f.Path), Layer: rpc.Optional(f.Layer), Match: rpc.Optional(string(f.Match)),
	}
	return out
}

package vex

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"google.golang.org/protobuf/proto"

	containerv1 "slipway.dev/proto/gen/slipway/container/v1"

	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/limits"
)

// A remark is what a statement states about a vulnerability of a package.
type remark struct {
	*statement
	document string
}

// rulesOut reports whether the vulnerability does not affect the product.
func (r remark) rulesOut() bool {
	return r.statement != nil && (r.status == NotAffected || r.status == Fixed)
}

// Apply returns a copy of the result of a scan with the status, the justification and the document of each
// vulnerability that statements rule out. These do not count. The newest statement about a vulnerability applies; of
// several with the same time, that of the last document. A vulnerability of several platforms must be ruled out on
// each of them. Vulnerabilities that are counted but not listed are not ruled out. Apply returns fault.Invalid if that needs
// more than limits.VEXMatches comparisons, and the error of ctx if that ends.
func (s Sets) Apply(ctx context.Context, res *containerv1.ScanResult) (*containerv1.ScanResult, error) {
	out := &containerv1.ScanResult{
		Manifests: res.GetManifests(), Note: res.GetNote(), Packages: res.GetPackages(), Database: res.GetDatabase(), DatabaseTime: res.GetDatabaseTime(),
		Problem: res.GetProblem(), Gaps: res.GetGaps(), Images: res.GetImages(), Places: res.GetPlaces(),
		Counts: maps.Clone(res.GetCounts()), Vulnerabilities: slices.Clone(res.GetVulnerabilities()),
	}
	left, texts := limits.VEXMatches, limits.VEXTexts
	for i, v := range out.GetVulnerabilities() {
		if v.Status != nil { // an earlier release has applied the documents of the server when it scanned the image
			continue
		}
		if err := ctx.Err(); err != nil {
			return nil, fmt.Errorf("applying VEX documents: %w", err)
		}
		r := s.about(v, imagesOf(res, i), &left)
		if left < 0 {
			return nil, fault.Invalid.Newf("The VEX documents have too many statements about the vulnerabilities of this image: comparing them would need more than %d comparisons", limits.VEXMatches)
		}
		if !r.rulesOut() {
			continue
		}
		reason := r.justification
		if texts -= len(reason); texts < 0 {
			reason = ""
		}
		v = proto.CloneOf(v)
		v.Status, v.Justification, v.Document = proto.String(string(r.status)), optional(reason), optional(r.document)
		out.Vulnerabilities[i] = v
		if out.Counts[v.GetSeverity()]--; out.Counts[v.GetSeverity()] == 0 {
			delete(out.Counts, v.GetSeverity())
		}
	}
	return out, nil
}

func optional(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// imagesOf returns the digests of the images that have a vulnerability of a result; "" if they are not known.
func imagesOf(res *containerv1.ScanResult, index int) []string {
	if len(res.GetPlaces()) != len(res.GetVulnerabilities()) {
		if len(res.GetImages()) == 1 {
			return res.GetImages()
		}
		return []string{""}
	}
	var out []string
	for i, digest := range res.GetImages() {
		if res.GetPlaces()[index]&(1<<i) != 0 {
			out = append(out, digest)
		}
	}
	if len(out) == 0 {
		return []string{""}
	}
	return out
}

// about returns the remark that applies to a vulnerability of images. If an image has no remark that rules it out,
// about returns the remark of that image.
func (s Sets) about(v *containerv1.Vulnerability, images []string, left *int) remark {
	var all []remark
	about := subjectOf(v.GetPurl(), left)
	for _, image := range images {
		all = append(all, s.newest(v, image, about))
	}
	if i := slices.IndexFunc(all, func(r remark) bool { return !r.rulesOut() }); i >= 0 {
		return all[i]
	}
	return all[0]
}

// newest returns the newest remark on a vulnerability of an image; the zero value without one.
func (s Sets) newest(v *containerv1.Vulnerability, image string, about *subject) remark {
	var best remark
	for _, set := range s {
		for _, id := range slices.Concat([]string{v.GetId()}, v.GetAliases()) {
			for _, st := range set.byID[id] {
				if best.statement != nil && st.time.Before(best.time) {
					continue
				}
				if st.isAbout(image, about) {
					best = remark{st, set.name}
				}
			}
		}
	}
	return best
}

package conda

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/github/go-spdx/v2/spdxexp"
	"google.golang.org/protobuf/proto"

	condav1 "slipway.dev/proto/gen/slipway/conda/v1"

	"slipway.dev/services/conda/spec"
	"slipway.dev/services/internal/limits"
)

// ListLicenses returns the licences of an environment.
func (s *Service) ListLicenses(ctx context.Context, req *condav1.ListLicensesRequest) (*condav1.ListLicensesResponse, error) {
	q, locks, err := s.environments(ctx, req.GetLock())
	if err != nil {
		return nil, err
	}
	defer q.release()
	out := &condav1.ListLicensesResponse{}
	for _, l := range locks {
		p := licensesOf(l.solution.Records)
		p.Platform = proto.String(l.platform.name)
		out.Platforms = append(out.Platforms, p)
	}
	return out, nil
}

// licensesOf groups packages by licence. Licences and packages are sorted.
func licensesOf(records []spec.Record) *condav1.PlatformLicenses {
	records = slices.SortedFunc(slices.Values(records), func(a, b spec.Record) int { return strings.Compare(a.Name, b.Name) })
	out := &condav1.PlatformLicenses{}
	by := map[string]*condav1.LicenseUse{}
	for i := range records {
		r := &records[i]
		if r.License == "" {
			out.Unknown = append(out.Unknown, r.Name)
			continue
		}
		use := by[r.License]
		if use == nil {
			use = &condav1.LicenseUse{License: proto.String(r.License), Spdx: proto.Bool(isSPDX(r.License))}
			by[r.License] = use
		}
		use.Packages = append(use.Packages, &condav1.LicensedPackage{Name: proto.String(r.Name), Version: proto.String(r.Version)})
	}
	for _, name := range slices.Sorted(maps.Keys(by)) {
		out.Licenses = append(out.Licenses, by[name])
	}
	return out
}

// hasLicense reports whether a licence is the wanted one, or an SPDX expression that contains
// it, with or without an exception. Upper and lower case are equal, as in SPDX.
func hasLicense(license, wanted string) bool {
	if strings.EqualFold(license, wanted) {
		return true
	}
	if license == "" || len(license) > limits.License {
		return false
	}
	// The list is empty if the licence is not an SPDX expression.
	ids, _ := spdxexp.ExtractLicenses(license)
	return slices.ContainsFunc(ids, func(id string) bool {
		without, _, _ := strings.Cut(id, " WITH ")
		return strings.EqualFold(id, wanted) || strings.EqualFold(without, wanted)
	})
}

// isSPDX reports whether a licence is a valid SPDX expression. The parser is recursive, so
// strings longer than limits.License are rejected.
func isSPDX(license string) bool {
	if len(license) > limits.License {
		return false
	}
	valid, _ := spdxexp.ValidateLicenses([]string{license})
	return valid
}

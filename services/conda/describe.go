package conda

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"

	condav1 "slipway.dev/proto/gen/slipway/conda/v1"

	"slipway.dev/services/conda/spec"
	"slipway.dev/services/internal/caller"
	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/limits"
)

// DescribePackage returns the versions of a package, newest first.
func (s *Service) DescribePackage(ctx context.Context, req *condav1.DescribePackageRequest) (*condav1.DescribePackageResponse, error) {
	channels, _, err := s.resolve([]string{req.GetChannel()})
	if err != nil {
		return nil, err
	}
	who, err := s.identify(ctx, caller.Claim{})
	if err != nil {
		return nil, err
	}
	lists, err := s.lists(ctx, who, channels, "linux-64", "linux-aarch64", "noarch")
	if f, ok := fault.As(err); ok && errors.Is(err, errNoChannel) { // the channel is part of the path in REST
		return nil, f.To(fault.NotFound)
	}
	if err != nil {
		return nil, err
	}
	memory, err := s.reserve(ctx, who, channels)
	if err != nil {
		return nil, err
	}
	defer memory.Release()
	name := strings.ToLower(req.GetName())
	if err := memory.reserve(ctx, name, lists); err != nil {
		return nil, err
	}
	var records []spec.Record
	for _, l := range lists {
		if l.Index == nil {
			continue
		}
		more, err := l.Index.Records(name)
		if err != nil {
			return nil, err
		}
		records = append(records, more...)
	}
	if len(records) == 0 {
		return nil, fault.NotFound.Newf("The channel %s has no package %.100q", channels[0].Name, req.GetName()).WithCode(fault.CondaNotFound)
	}
	return &condav1.DescribePackageResponse{Name: proto.String(name), Channel: proto.String(channels[0].Name), Versions: versions(records)}, nil
}

// A build is a record with its parsed version.
type build struct {
	spec.Record
	version spec.Version
}

// versions groups records by version, newest first. It omits records with an unparsable
// version.
func versions(records []spec.Record) []*condav1.PackageVersion {
	var all []build
	for _, r := range records {
		if v, err := spec.ParseVersion(r.Version); err == nil {
			all = append(all, build{r, v})
		}
	}
	slices.SortStableFunc(all, func(a, b build) int {
		return cmp.Or(b.version.Compare(a.version), cmp.Compare(b.BuildNumber, a.BuildNumber), cmp.Compare(b.Timestamp, a.Timestamp), strings.Compare(a.FileName, b.FileName))
	})
	var out []*condav1.PackageVersion
	for _, b := range all {
		if len(out) == 0 || out[len(out)-1].GetVersion() != b.Version {
			if len(out) == limits.CondaVersions {
				break
			}
			out = append(out, &condav1.PackageVersion{Version: proto.String(b.Version), License: present(b.License)})
		}
		v := out[len(out)-1]
		if !slices.Contains(v.Platforms, b.Subdir) {
			v.Platforms = append(v.Platforms, b.Subdir)
		}
		v.Builds = append(v.Builds, b.toProto())
	}
	return out
}

func (b build) toProto() *condav1.PackageBuild {
	out := &condav1.PackageBuild{
		Build: proto.String(b.Build), Subdir: proto.String(b.Subdir), FileName: proto.String(b.FileName), Size: bytesOf(b.Size), Sha256: present(b.SHA256), Depends: b.Depends,
	}
	if b.Timestamp > 0 {
		out.Date = proto.String(time.UnixMilli(b.Timestamp).UTC().Format(time.RFC3339))
	}
	return out
}

package conda

import (
	"strings"
	"time"

	"google.golang.org/protobuf/proto"

	condav1 "slipway.dev/proto/gen/slipway/conda/v1"

	"slipway.dev/services/conda/lockfile"
	"slipway.dev/services/conda/solver"
	"slipway.dev/services/conda/spec"
	"slipway.dev/services/internal/fault"
)

// present returns nil for an empty string, otherwise a pointer to it.
func present(s string) *string {
	if s == "" {
		return nil
	}
	return proto.String(s)
}

func bytesOf(n int64) *float64 {
	if n == 0 {
		return nil
	}
	return proto.Float64(float64(n))
}

// toProto returns a lock in the form of a response.
func (l lock) toProto() *condav1.PlatformLock {
	out := &condav1.PlatformLock{Platform: proto.String(l.platform.name), VirtualPackages: map[string]string{}, Snapshots: map[string]string{}}
	var size int64
	for i := range l.solution.Records {
		r := &l.solution.Records[i]
		size += r.Size
		out.Packages = append(out.Packages, packageOf(r))
	}
	out.Size = proto.Float64(float64(size))
	for _, v := range l.solution.Virtual {
		_, out.VirtualPackages[v.Name], _ = strings.Cut(v.String(), "=")
	}
	if l.from != nil {
		packages, wheels := spec.Split(l.solution.Records)
		out.Changes = differences(*l.from, lockfile.PlatformLock{Packages: packages, PyPI: wheels}).GetChanges()
	}
	if !l.newest.IsZero() {
		out.ExcludeNewer = proto.String(timeText(l.newest))
	}
	if !l.asOf.IsZero() {
		since, _ := historySince(l.lists)
		out.AsOf, out.HistorySince = proto.String(timeText(l.asOf)), proto.String(timeText(since))
	}
	for _, from := range l.lists {
		if from.Index == nil {
			continue
		}
		at := from.at()
		out.Snapshots[at] = from.Index.Meta().Snapshot
		if from.Failure != "" {
			if out.Outdated == nil {
				out.Outdated = map[string]string{}
			}
			out.Outdated[at] = "since " + from.Checked.UTC().Format(time.RFC3339) + ": " + from.Failure
		}
	}
	return out
}

func packageOf(r *spec.Record) *condav1.LockedPackage {
	return &condav1.LockedPackage{
		Name: proto.String(r.Name), Version: proto.String(r.Version), Build: proto.String(r.Build), Channel: proto.String(r.Channel), Subdir: proto.String(r.Subdir),
		FileName: proto.String(r.FileName), Url: proto.String(r.URL), Sha256: present(r.SHA256), Md5: present(r.MD5), Size: bytesOf(r.Size), License: present(r.License),
	}
}

// refusalOf returns a conflict as a response.
func refusalOf(c *solver.Conflict, suggestions []solver.Suggestion) *condav1.LockPackagesResponse {
	out := &condav1.LockPackagesResponse{Code: present(string(fault.CondaConflict)), Conflict: &condav1.Conflict{Specs: c.Specs, Summary: present(c.Summary), Reasons: reasons(c.Reasons)}}
	for _, m := range c.Missing {
		out.Conflict.Missing = append(out.Conflict.Missing, &condav1.MissingPackage{Name: present(m.Name), Nearest: m.Nearest, Elsewhere: m.InOtherChannels, Platforms: m.Platforms})
	}
	message := c.Text()
	for i, s := range suggestions {
		if i == 0 {
			message += "\nWhat would work:"
		}
		message += "\n- " + s.Change
		out.Suggestions = append(out.Suggestions, &condav1.Suggestion{Change: present(s.Change), Packages: s.Packages, Channels: s.Channels})
	}
	out.Message = &message
	return out
}

func reasons(in []solver.Reason) []*condav1.Reason {
	var out []*condav1.Reason
	for _, r := range in {
		out = append(out, &condav1.Reason{Kind: present(r.Kind), Package: present(r.Package), Spec: present(r.Spec), Text: present(r.Text), Because: reasons(r.Because)})
	}
	return out
}

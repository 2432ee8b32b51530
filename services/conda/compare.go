package conda

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"

	condav1 "slipway.dev/proto/gen/slipway/conda/v1"

	"slipway.dev/services/conda/lockfile"
	"slipway.dev/services/conda/spec"
	"slipway.dev/services/internal/caller"
	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/limits"
)

// CompareLocks returns the packages that differ between two locks.
func (s *Service) CompareLocks(ctx context.Context, req *condav1.CompareLocksRequest) (*condav1.CompareLocksResponse, error) {
	from, err := readLockFile("from", req.GetLocks().GetFrom())
	if err != nil {
		return nil, err
	}
	to, err := readLockFile("to", req.GetLocks().GetTo())
	if err != nil {
		return nil, err
	}
	who, err := s.identify(ctx, caller.Claim{})
	if err != nil {
		return nil, err
	}
	within, place, err := s.reserveSolve(ctx, who, nil)
	if err != nil {
		return nil, err
	}
	defer place.release()
	var files [2]lockfile.Lock
	read := 0
	for i, g := range []*requestLock{from, to} {
		if err := s.fetchLock(within, g); err != nil {
			return nil, err
		}
		read += len(g.text)
		if err := place.memoryFunc(within)(int64(limits.CondaFileMemory * read)); err != nil {
			return nil, err
		}
		err := s.deps.Turns.Do(within, who.Client(ctx), len(g.text), func() (err error) {
			if files[i], err = lockfile.Read(g.text, g.environment); err != nil {
				return g.bad(err)
			}
			return nil
		})
		if err != nil {
			return nil, errContended(within, err)
		}
	}
	return compare(files[0], files[1])
}

// readLockFile validates a lock in a request. It returns fault.Invalid with the name of the
// field.
func readLockFile(field string, f *condav1.LockFile) (*requestLock, error) {
	g := &requestLock{environment: f.GetEnvironmentName(), url: f.GetUrl()}
	var err error
	switch {
	case f.GetLock() == "" && f.GetUrl() == "":
		return nil, fault.Invalid.Newf("%s is missing: set lock to a lock in base64, or url to the address of one", field)
	case f.GetLock() != "" && f.GetUrl() != "":
		return nil, fault.Invalid.Newf("%s.lock and %s.url exclude each other", field, field)
	case len(f.GetUrl()) > limits.URL:
		return nil, fault.Invalid.Newf("%s.url is %d characters long; the maximum is %d", field, len(f.GetUrl()), limits.URL)
	case g.url != "":
		g.field = field + ".url"
	default:
		g.field = field + ".lock"
		g.text, err = decodeFile(g.field, f.GetLock())
	}
	return g, err
}

// fetchLock fetches the lock if the request contains its address instead.
func (s *Service) fetchLock(ctx context.Context, g *requestLock) (err error) {
	if g.url == "" || g.text != "" {
		return nil
	}
	if g.text, err = s.deps.Channels.Document(ctx, g.url); err != nil {
		return fault.In(g.field+": the lock at "+fault.Quote(g.url), err)
	}
	return nil
}

// compare returns the differences between two locks for the platforms that both have.
func compare(from, to lockfile.Lock) (*condav1.CompareLocksResponse, error) {
	adoptPlatform(&from, to)
	adoptPlatform(&to, from)
	out := &condav1.CompareLocksResponse{}
	for _, old := range from.Platforms {
		i := platformIndex(to, old.Platform)
		if i < 0 {
			out.Notes = append(out.Notes, "Only the old lock has the platform "+old.Platform+", which was not compared")
			continue
		}
		out.Differences = append(out.Differences, differences(old, to.Platforms[i]))
	}
	for _, p := range to.Platforms {
		if platformIndex(from, p.Platform) < 0 {
			out.Notes = append(out.Notes, "Only the new lock has the platform "+p.Platform+", which was not compared")
		}
	}
	if out.Differences == nil {
		return nil, fault.Invalid.Newf("The locks have no platform in common: the old lock has %s, the new lock %s", platformNames(from), platformNames(to))
	}
	return out, nil
}

// adoptPlatform sets the platform of a lock without a platform (an explicit list of noarch
// packages) to the platform of the other lock.
func adoptPlatform(l *lockfile.Lock, other lockfile.Lock) {
	if len(l.Platforms) == 1 && l.Platforms[0].Platform == "" && len(other.Platforms) == 1 {
		l.Platforms = slices.Clone(l.Platforms)
		l.Platforms[0].Platform = other.Platforms[0].Platform
	}
}

func platformIndex(l lockfile.Lock, name string) int {
	return slices.IndexFunc(l.Platforms, func(p lockfile.PlatformLock) bool { return p.Platform == name })
}

func platformNames(l lockfile.Lock) string {
	var names []string
	for _, p := range l.Platforms {
		names = append(names, cmp.Or(p.Platform, "noarch"))
	}
	return cmp.Or(strings.Join(names, ", "), "no platform")
}

// A packageKey identifies a package in a lock. A Conda package and a PyPI package may have
// the same name.
type packageKey struct{ name, kind string }

// differences returns the differences between two locks for one platform.
func differences(from, to lockfile.PlatformLock) *condav1.LockDifference {
	old, now := packagesOf(from), packagesOf(to)
	all := maps.Clone(old)
	maps.Copy(all, now)
	keys := slices.SortedFunc(maps.Keys(all), func(a, b packageKey) int {
		return cmp.Or(strings.Compare(a.name, b.name), strings.Compare(a.kind, b.kind))
	})
	var added, removed, changed, same int32
	out := &condav1.LockDifference{Platform: proto.String(cmp.Or(from.Platform, "noarch"))}
	for _, k := range keys {
		a, b := old[k], now[k]
		c := &condav1.PackageChange{Name: proto.String(k.name), Kind: proto.String(k.kind)}
		switch {
		case a == nil:
			added++
			c.Change, c.New = proto.String("added"), packageOf(b)
		case b == nil:
			removed++
			c.Change, c.Old = proto.String("removed"), packageOf(a)
		default:
			if c.Differs = differing(a, b); c.Differs == nil {
				same++
				continue
			}
			changed++
			c.Change, c.Old, c.New = proto.String("changed"), packageOf(a), packageOf(b)
		}
		out.Changes = append(out.Changes, c)
	}
	out.Added, out.Removed, out.Changed, out.Unchanged = &added, &removed, &changed, &same
	return out
}

// packagesOf returns the packages of a lock. PyPI packages are converted to records.
func packagesOf(p lockfile.PlatformLock) map[packageKey]*spec.Record {
	out := make(map[packageKey]*spec.Record, len(p.Packages)+len(p.PyPI))
	for i := range p.Packages {
		out[packageKey{p.Packages[i].Name, "conda"}] = &p.Packages[i]
	}
	for _, py := range p.PyPI {
		r := spec.Record{Name: strings.ToLower(py.Name), Version: py.Version, URL: py.URL, SHA256: py.SHA256}
		if py.URL != "" {
			r.FileName = py.URL[strings.LastIndexByte(py.URL, '/')+1:]
		}
		out[packageKey{r.Name, "pypi"}] = &r
	}
	return out
}

// differing returns the names of the properties that differ between two records of a package,
// or nil if they are the same artifact of the same channel.
func differing(a, b *spec.Record) (out []string) {
	if a.Version != b.Version {
		out = append(out, "version")
	}
	if a.Build != b.Build {
		out = append(out, "build")
	}
	if a.ChannelURL() != b.ChannelURL() {
		out = append(out, "channel")
	}
	if out == nil && !a.SameArtifact(*b) {
		out = []string{"file"}
	}
	return out
}

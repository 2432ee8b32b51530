package conda

import (
	"cmp"
	"context"
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

// ExplainPackage returns the dependencies that lead from a request to a package.
func (s *Service) ExplainPackage(ctx context.Context, req *condav1.ExplainPackageRequest) (*condav1.ExplainPackageResponse, error) {
	name := strings.ToLower(req.GetQuery().GetPackage())
	wanted, err := spec.ParseMatchSpec(name)
	switch {
	case name == "" || len(name) > limits.ChannelWord:
		return nil, fault.Invalid.Newf("package must be the name of a package, of at most %d characters", limits.ChannelWord)
	case err != nil || wanted.Name != name:
		return nil, fault.Invalid.New("package must be a name without a version, such as openssl", err)
	}
	q, locks, err := s.environments(ctx, req.GetQuery().GetLock())
	if err != nil {
		return nil, err
	}
	defer q.release()
	out := &condav1.ExplainPackageResponse{}
	for _, l := range locks {
		g := graphOf(l)
		asked := q.specs
		if q.lock != nil {
			asked = nil
			for _, root := range roots(l.solution.Records) {
				asked = append(asked, spec.MatchSpec{Name: root})
			}
		}
		r := g.reasons(asked, name)
		r.Platform = proto.String(l.platform.name)
		out.Platforms = append(out.Platforms, r)
	}
	return out, nil
}

// environments solves a request, or reads its lock, and returns records with dependencies and
// licences. It returns fault.Invalid if there is no solution. The caller must release the
// query after it has created the response.
func (s *Service) environments(ctx context.Context, in *condav1.LockQuery) (_ *query, _ []lock, err error) {
	if in.GetFormat() != "" {
		return nil, nil, fault.Invalid.Newf("format must be absent: only a lock has a text format")
	}
	q, err := s.read(ctx, caller.ID{}, in)
	if err != nil {
		return nil, nil, err
	}
	q.keep = true
	defer func() {
		if err != nil {
			q.release()
		}
	}()
	claim, err := caller.ReadClaim(in)
	if err != nil {
		return nil, nil, err
	}
	who, err := s.identify(ctx, claim)
	if err != nil {
		return nil, nil, err
	}
	locks, refusal, err := s.solve(ctx, who, &q)
	switch {
	case err != nil:
		return nil, nil, err
	case refusal != nil:
		return nil, nil, fault.Invalid.Newf("There is no such environment: %s", refusal.GetConflict().GetSummary())
	case q.lock == nil:
		return &q, locks, nil
	}
	for i := range locks {
		if err := s.describeLocked(ctx, who, &q, &locks[i]); err != nil {
			return nil, nil, err
		}
	}
	return &q, locks, nil
}

// describeLocked completes the records of a lock from the channels, unless the lock has
// dependencies and licences.
func (s *Service) describeLocked(ctx context.Context, who caller.ID, q *query, l *lock) error {
	if slices.ContainsFunc(l.solution.Records, func(r spec.Record) bool { return len(r.Depends) > 0 && r.License != "" && !r.IsWheel() }) {
		return nil
	}
	lists, err := s.lists(ctx, who, q.channels, l.platform.subdir, "noarch")
	if err != nil {
		return err
	}
	isWheel := func(r spec.Record) bool { return r.IsWheel() }
	wheels := slices.DeleteFunc(slices.Clone(l.solution.Records), func(r spec.Record) bool { return !isWheel(r) })
	records, lost, err := s.complete(ctx, who, q, lists, lockfile.PlatformLock{Packages: slices.DeleteFunc(slices.Clone(l.solution.Records), isWheel)})
	if err != nil {
		return err
	}
	if len(lost) > 0 {
		return fault.Invalid.Newf("The lock does not list dependencies, and the channels no longer have %s: use a conda-lock.yml or pixi.lock", strings.Join(lost[:min(len(lost), 5)], ", "))
	}
	l.solution.Records = append(records, wheels...)
	return nil
}

// A graph holds the dependencies between the packages of an environment.
type graph struct {
	records map[string]*spec.Record
	// names lists the names of the packages, sorted, without virtual packages.
	names []string
}

func graphOf(l lock) *graph {
	g := &graph{records: map[string]*spec.Record{}}
	for i := range l.solution.Records {
		r := &l.solution.Records[i]
		if r.IsWheel() && g.records[r.Name] != nil { // a Conda package of the same name
			continue
		}
		g.records[r.Name] = r
		g.names = append(g.names, r.Name)
	}
	for _, v := range l.solution.Virtual {
		r := v.Record()
		g.records[v.Name] = &r
	}
	slices.Sort(g.names)
	return g
}

// reasons returns the chains of dependencies from the requested specifications to a
// package.
func (g *graph) reasons(asked []spec.MatchSpec, name string) *condav1.PackageReasons {
	out := &condav1.PackageReasons{}
	r := g.records[name]
	if r == nil {
		return out
	}
	out.Package = packageOf(r)
	chains := g.shortest(asked, name)
	var ends []*link
	for _, wanted := range asked {
		if wanted.Name == name {
			ends = append(ends, &link{spec: wanted.String(), length: 1})
		}
	}
	var dependents int32
	size := 0
	for _, from := range g.names {
		of := g.records[from]
		if from == name {
			continue
		}
		for _, text := range of.Constrains {
			if nameIn(text) != name || len(out.GetConstraints()) == limits.CondaChains {
				continue
			}
			if size += len(of.Name) + len(of.Version) + len(text); size <= limits.CondaChainsSize {
				out.Constraints = append(out.Constraints, stepOf(of, text))
			}
		}
		at := slices.IndexFunc(of.Depends, func(text string) bool { return dependencyName(of, text) == name })
		if at < 0 {
			continue
		}
		dependents++
		if before := chains[from]; before != nil { // nil if from is only reached through the package itself
			ends = append(ends, before.next(of, of.Depends[at]))
		}
	}
	slices.SortStableFunc(ends, func(a, b *link) int { return cmp.Compare(a.length, b.length) })
	out.Chains = chainsOf(ends)
	out.Dependents = &dependents
	return out
}

// A link is the last step of a chain of dependencies. Chains share their first steps.
type link struct {
	before *link
	// of is the package that has the requirement, or nil for the request.
	of     *spec.Record
	spec   string
	length int
}

// next returns the chain with one more step.
func (w *link) next(of *spec.Record, wanted string) *link { return &link{w, of, wanted, w.length + 1} }

// chain returns all steps of the chain.
func (w *link) chain() *condav1.DependencyChain {
	steps := make([]*condav1.DependencyStep, w.length)
	for ; w != nil; w = w.before {
		steps[w.length-1] = stepOf(w.of, w.spec)
	}
	return &condav1.DependencyChain{Steps: steps}
}

// chainsOf returns the chains that end in the given links, up to the limits of a response.
func chainsOf(ends []*link) (out []*condav1.DependencyChain) {
	steps, size := 0, 0
	for _, w := range ends[:min(len(ends), limits.CondaChains)] {
		steps += w.length
		if steps > limits.CondaChainSteps {
			break
		}
		c := w.chain()
		if size += proto.Size(c); size > limits.CondaChainsSize {
			break
		}
		out = append(out, c)
	}
	return out
}

// shortest returns, by package, the shortest chain from the request that does not pass through
// the package named by without.
func (g *graph) shortest(asked []spec.MatchSpec, without string) map[string]*link {
	chains := map[string]*link{}
	var queue []string
	visit := func(to string, w func() *link) {
		if chains[to] == nil && to != without && g.records[to] != nil {
			chains[to] = w()
			queue = append(queue, to)
		}
	}
	for _, wanted := range asked {
		visit(wanted.Name, func() *link { return &link{spec: wanted.String(), length: 1} })
	}
	for len(queue) > 0 {
		from := queue[0]
		queue = queue[1:]
		r := g.records[from]
		for _, text := range r.Depends {
			visit(dependencyName(r, text), func() *link { return chains[from].next(r, text) })
		}
	}
	return chains
}

// stepOf returns a requirement of a package, or of the request if r is nil.
func stepOf(r *spec.Record, text string) *condav1.DependencyStep {
	if r == nil {
		return &condav1.DependencyStep{Spec: proto.String(text)}
	}
	return &condav1.DependencyStep{Package: proto.String(r.Name), Version: proto.String(r.Version), Spec: proto.String(text)}
}

// dependencyName returns the package name of a dependency of a record, or "" if it cannot be
// parsed or belongs to an extra of a wheel.
func dependencyName(of *spec.Record, text string) string {
	if of.IsWheel() {
		return of.Need(text)
	}
	return nameIn(text)
}

// nameIn returns the package name of a dependency, or "" if it cannot be parsed.
func nameIn(text string) string {
	wanted, err := spec.ParseMatchSpec(text)
	if err != nil {
		return ""
	}
	return wanted.Name
}

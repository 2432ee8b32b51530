package request

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"google.golang.org/protobuf/proto"

	condav1 "slipway.dev/proto/gen/slipway/conda/v1"

	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/limits"
)

// Foreseen is what is known of a request's Conda packages before its build. The zero
// value is of a request that was not solved.
type Foreseen struct {
	// Conflict says why there is no such environment; nil where there is one, and where
	// that is not known.
	Conflict *fault.Error
	// Refused is what this service says against the packages, where who installs them may
	// know better; nil where it says nothing. It counts where nobody installs.
	Refused *fault.Error
	// Solved are the packages, for each platform; nil where they are not known.
	Solved *condav1.SolvePackagesResponse
	// Base is the digest of the base image, where the request is remembered; "" otherwise.
	Base digest.Digest
	// Late says that the packages may be known a moment later.
	Late bool
	// Unknown says, in a line for the build's log, why they are not.
	Unknown string
}

// Foresee reads the solver's answer. isBase says whether a package is one that every
// environment gets.
func Foresee(out *condav1.SolvePackagesResponse, isBase func(string) bool) Foreseen {
	switch answer := out.GetAnswer(); {
	case answer.GetConflict() != nil && isOfMachine(answer.GetConflict().GetReasons()):
		return Foreseen{Refused: fault.Invalid.New(answer.GetMessage(), nil), Unknown: "Conda: whether the packages fit depends on the machine that builds, which resolves them itself, without a lock"}
	case answer.GetConflict() != nil:
		return Foreseen{Conflict: fault.Invalid.New(answer.GetMessage()+adviceOnBase(answer, isBase), nil)}
	case proto.Size(out) > limits.BuildLock:
		return Foreseen{Unknown: "Conda: the lock is too large to be kept with the build"}
	}
	return Foreseen{Solved: out}
}

// Before is what is said of a request that nobody here can build: what the solver says
// against its packages comes before that. Any other error stays.
func (f Foreseen) Before(err error) error {
	switch {
	case !errors.Is(err, fault.Unsupported):
		return err
	case f.Conflict != nil:
		return f.Conflict
	case f.Refused != nil:
		return f.Refused
	}
	return err
}

// adviceOnBase says how to go without a package that nobody asked for, where that is what
// cannot be; "" elsewhere.
func adviceOnBase(answer *condav1.LockPackagesResponse, isBase func(string) bool) string {
	involved := slices.Clone(answer.GetConflict().GetSpecs())
	for _, m := range answer.GetConflict().GetMissing() {
		involved = append(involved, m.GetName())
	}
	at := slices.IndexFunc(involved, isBase)
	if at < 0 {
		return ""
	}
	advice := fmt.Sprintf("\n- %s is a base package, which every environment gets: name others, or none, in packages.condaOpts.basePackages (slipway conda --base-packages=)", fault.Quote(involved[at]))
	if len(answer.GetSuggestions()) == 0 {
		advice = "\nWhat would work:" + advice
	}
	return advice
}

// IsFor says whether the packages are known for all of some platforms.
func (f Foreseen) IsFor(all []ocispec.Platform) bool {
	for _, p := range all {
		if f.position(p) < 0 {
			return false
		}
	}
	return true
}

// position is where the lock for a platform stands; -1 for nowhere.
func (f Foreseen) position(p ocispec.Platform) int {
	locks := f.Solved.GetAnswer().GetLocks()
	i := slices.IndexFunc(locks, func(l *condav1.PlatformLock) bool { return l.GetPlatform() == p.OS+"/"+p.Architecture })
	if i >= len(f.Solved.GetRecords()) || i >= len(f.Solved.GetSubdirs()) {
		return -1
	}
	return i
}

// Of is what is kept with the build for a platform: its lock, nil for none, and the
// line that its log begins with. direct says that the image is made of the lock.
func (f Foreseen) Of(p ocispec.Platform, direct bool) (lock *condav1.SolvePackagesResponse, preface string) {
	i := f.position(p)
	switch {
	case i < 0:
		return nil, f.Unknown
	case f.Solved.GetPrivate() && !direct: // whoever knows the build's id could read it
		return nil, "Conda: no lock is kept with the build, since a channel was read with a login"
	}
	of := f.Solved.GetAnswer().GetLocks()[i]
	lock = &condav1.SolvePackagesResponse{
		Answer:  &condav1.LockPackagesResponse{Locks: []*condav1.PlatformLock{of}},
		Records: f.Solved.GetRecords()[i : i+1], Subdirs: f.Solved.GetSubdirs()[i : i+1], Channels: f.Solved.GetChannels(),
		Private: f.Solved.GetPrivate(), PrivateChannels: f.Solved.GetPrivateChannels(),
	}
	return lock, fmt.Sprintf("Conda: resolved to %d packages, %.1f MB to download; the lock of the build lists them", len(of.GetPackages()), of.GetSize()/1e6)
}

// isOfMachine says whether a conflict has to do with the machine: what that has is
// known for sure only where the build runs.
func isOfMachine(reasons []*condav1.Reason) bool {
	return slices.ContainsFunc(reasons, func(r *condav1.Reason) bool {
		return r.GetKind() == "machine" || isOfMachine(r.GetBecause())
	})
}

// NotSolved is the answer to what needs a solution; otherwise is for where there will be
// none.
func (f Foreseen) NotSolved(otherwise string) error {
	if f.Late {
		return fault.Unavailable.Newf("The packages could not be resolved yet: a channel is being read for the first time, or does not answer; try again in a moment").After(5 * time.Second)
	}
	return f.Before(fault.Unsupported.Newf("%s", otherwise))
}

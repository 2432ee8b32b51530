package request

import (
	"errors"
	"fmt"
	"slices"
	"time"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"google.golang.org/protobuf/proto"

	condav1 "slipway.dev/proto/gen/slipway/conda/v1"

	"slipway.dev/services/conda/spec"
	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/limits"
)

// A Solution is the state of Conda packages before their build: Locked, Pending, Conflict or
// Unlocked.
type Solution interface {
	// inSteps returns what is stored with a build that installs the packages in steps: its
	// lock for a platform, nil for none, and the first line of its log.
	inSteps(p ocispec.Platform) (lock *condav1.SolvePackagesResponse, preface string)
}

// Locked packages are solved for all platforms of a request. As a Solution it is a pointer.
type Locked struct {
	*condav1.SolvePackagesResponse
	// Renewed explains why the packages were solved again although a solution was stored;
	// "" if they were not.
	Renewed string
}

// Pending packages could not be solved in time: the build is queued, and they are solved
// before it starts.
type Pending struct{}

// A Conflict explains why there is no solution.
type Conflict struct {
	Err *fault.Error
	// involved lists the names of the requested packages in the conflict, and absent those of
	// them for which the channels have no suitable package.
	absent, involved []string
}

// Unlocked packages are only resolved by the installer, while the image is built in steps.
type Unlocked struct {
	// Refused is the error of this service's solver if the installer may succeed nevertheless;
	// otherwise nil.
	Refused *fault.Error
	// Preface explains, in a line for the build's log, why the packages are unknown.
	Preface string
}

// SolutionOf interprets the solver's response for the platforms of a request. isBase reports
// whether a package is in every environment.
func SolutionOf(out *condav1.SolvePackagesResponse, platforms []ocispec.Platform, isBase func(string) bool) Solution {
	switch answer := out.GetAnswer(); {
	case answer.GetConflict() != nil && isOfMachine(answer.GetConflict().GetReasons()):
		return Unlocked{fault.Invalid.New(answer.GetMessage(), nil), "Conda: whether the packages fit depends on the machine that builds, which resolves them itself, without a lock"}
	case answer.GetConflict() != nil:
		absent, involved := blamed(answer.GetConflict())
		refusal := fault.Invalid.New(answer.GetMessage()+adviceOnBase(answer, isBase), nil).WithCode(fault.CondaConflict).
			WithDetail(&condav1.LockPackagesResponse{Conflict: answer.GetConflict(), Suggestions: answer.GetSuggestions()})
		return Conflict{refusal, absent, involved}
	case proto.Size(out) > limits.BuildLock:
		return Unlocked{Preface: "Conda: the lock is too large to be stored with the build"}
	}
	locked := &Locked{SolvePackagesResponse: out}
	if slices.ContainsFunc(platforms, func(p ocispec.Platform) bool { return locked.position(p) < 0 }) {
		return Unlocked{Preface: "Conda: the lock lacks a platform of the request"}
	}
	return locked
}

// position returns the index of the lock for a platform, or -1.
func (l *Locked) position(p ocispec.Platform) int {
	i := slices.IndexFunc(l.GetAnswer().GetLocks(), func(of *condav1.PlatformLock) bool { return of.GetPlatform() == p.OS+"/"+p.Architecture })
	if i >= len(l.GetRecords()) || i >= len(l.GetSubdirs()) {
		return -1
	}
	return i
}

// For returns the lock for a platform, and the first line of the log of its build. The lock
// is nil if the platform has none.
func (l *Locked) For(p ocispec.Platform) (lock *condav1.SolvePackagesResponse, preface string) {
	i := l.position(p)
	if i < 0 {
		return nil, ""
	}
	of := l.GetAnswer().GetLocks()[i]
	lock = &condav1.SolvePackagesResponse{
		Answer:  &condav1.LockPackagesResponse{Locks: []*condav1.PlatformLock{of}},
		Records: l.GetRecords()[i : i+1], Subdirs: l.GetSubdirs()[i : i+1], Channels: l.GetChannels(), ChannelUrls: l.GetChannelUrls(),
		Private: l.GetPrivate(), PrivateChannels: l.GetPrivateChannels(), IndexedChannels: l.GetIndexedChannels(),
	}
	preface = fmt.Sprintf("Conda: resolved to %d packages, %.1f MB to download; the lock of the build lists them", len(of.GetPackages()), of.GetSize()/1e6)
	if l.Renewed != "" {
		preface += ". They were resolved again, since " + l.Renewed
	}
	for _, note := range l.GetAnswer().GetNotes() {
		preface += ". " + note
	}
	return lock, preface
}

func (l *Locked) inSteps(p ocispec.Platform) (*condav1.SolvePackagesResponse, string) {
	if l.GetPrivate() { // any client that knows the build's ID could read it
		return nil, "Conda: no lock is kept with the build, since a channel was read with a login"
	}
	return l.For(p)
}

func (Pending) inSteps(ocispec.Platform) (*condav1.SolvePackagesResponse, string) { return nil, "" }

func (Conflict) inSteps(ocispec.Platform) (*condav1.SolvePackagesResponse, string) { return nil, "" }

func (u Unlocked) inSteps(ocispec.Platform) (*condav1.SolvePackagesResponse, string) {
	return nil, u.Preface
}

// Refusal returns the error for a request that no worker can build: the error of this service
// about its packages takes precedence over a fault.Unsupported. Any other error is returned
// unchanged.
func Refusal(of Solution, err error) error {
	if !errors.Is(err, fault.Unsupported) {
		return err
	}
	if conflict, ok := of.(Conflict); ok {
		return conflict.Err
	}
	if unlocked, ok := of.(Unlocked); ok && unlocked.Refused != nil {
		return unlocked.Refused
	}
	return err
}

// NotSolved returns the error for a request that requires a solution and has none. otherwise
// is the message if the solution is not pending.
func NotSolved(of Solution, otherwise string) error {
	if _, pending := of.(Pending); pending {
		return fault.Unavailable.Newf("The packages could not be resolved yet: a channel is being read for the first time, or does not respond; try again in a moment").After(5 * time.Second)
	}
	return Refusal(of, fault.Unsupported.Newf("%s", otherwise))
}

// adviceOnBase explains how to request an environment without a base package if that
// package is the conflict; otherwise it returns "".
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

// blamed returns the names of the requested packages in a conflict: absent lists those for
// which the channels have no suitable package, and involved all.
func blamed(c *condav1.Conflict) (absent, involved []string) {
	for _, asked := range c.GetReasons() {
		wanted, err := spec.ParseMatchSpec(asked.GetSpec())
		if err != nil {
			continue
		}
		involved = append(involved, wanted.Name)
		if slices.ContainsFunc(asked.GetBecause(), func(r *condav1.Reason) bool { return r.GetKind() == "unnamed" || r.GetKind() == "unfit" }) {
			absent = append(absent, wanted.Name)
		}
	}
	return absent, involved
}

// isOfMachine reports whether a conflict involves a virtual package, whose value is only
// certain on the machine that runs the build.
func isOfMachine(reasons []*condav1.Reason) bool {
	return slices.ContainsFunc(reasons, func(r *condav1.Reason) bool {
		return r.GetKind() == "machine" || isOfMachine(r.GetBecause())
	})
}

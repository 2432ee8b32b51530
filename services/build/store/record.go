package store

import (
	"fmt"
	"strconv"
	"time"

	"github.com/opencontainers/go-digest"

	buildv1 "slipway.dev/proto/gen/slipway/build/v1"
	condav1 "slipway.dev/proto/gen/slipway/conda/v1"

	"slipway.dev/services/build/engine"
	"slipway.dev/services/internal/caller"
	"slipway.dev/services/internal/sqldb"
)

// A Record is a build: a row of build_builds.
type Record struct {
	ID      string
	Number  int64 // the last part of the id
	Request *buildv1.SubmitBuildRequest
	// Owner is the client that the build counts for in the queue, as a fairshare.Client.
	Owner       string
	TraceParent string
	TimeLimit   time.Duration
	// Times are zero until the event.
	Created, Published, Started, Completed time.Time
	// Publications is how often the build has been queued again, and Delivery the newest
	// delivery that a worker took; 0 for none.
	Publications, Delivery  int64
	Worker                  string // took the newest delivery
	Succeeded               bool
	Reason, Message, Digest string
	// Environment is the digest of the artifact with which the image's environment is mounted; ""
	// without mount, and for builds of earlier releases.
	Environment string
	// LockDigest is the lock by which FindEnvironments finds the build; "" for builds without an environment
	// that is mounted, and for builds of earlier releases. Insert does not use it.
	LockDigest string
	// Counted is 0 for an admission that is to be counted, or NeverCounted. Insert stores it;
	// it is not set in a record that was read.
	Counted int64
	// Lock is nil for none. Insert stores it; it is not set in a record that was read.
	Lock *condav1.SolvePackagesResponse
}

// NeverCounted is the number of builds that are not admissions.
const NeverCounted = -1

// MaxNumber is the largest number in a build's id, which has at most 9 digits.
const MaxNumber = 999_999_999

// Renumber sets the number, and with it the id, of a build that is not stored yet.
func (r *Record) Renumber(n int64) {
	r.ID, r.Number = r.Request.GetContentId()+"_"+strconv.FormatInt(n, 10), n
}

// IsPending reports whether a build has not ended.
func (r Record) IsPending() bool { return r.Completed.IsZero() }

// Deadline returns when the build must have ended; zero while no worker has it.
func (r Record) Deadline() time.Time {
	if r.Started.IsZero() {
		return time.Time{}
	}
	return r.Started.Add(r.TimeLimit)
}

// solveAt returns when the build's packages are to be solved, in microseconds; 0 for never.
func (r Record) solveAt() int64 {
	if r.Request.GetUnsolved() == nil || !r.IsPending() {
		return 0
	}
	return sqldb.Micros(r.Created)
}

// Kind returns the requirements for a worker.
func (r Record) Kind() engine.Kind { return engine.KindOf(r.Request.GetRecipe()) }

// CacheScope identifies the caches of one owner, so that no owner uses cached data of
// another. So do an owner's access tokens for different repositories, as SECURITY.md says.
// Compressions have separate caches, since a cached layer keeps its compression.
func (r Record) CacheScope() string {
	id, owner := caller.Of(r.Request.GetIdentity()), r.Owner
	if id.RobotOrgID != 0 { // Owner is the organisation, whose robots must not share caches
		owner = id.User()
	}
	name := owner + "\n" + r.Request.GetScope()
	if restriction := id.Restriction(); restriction != "" {
		name += "\n" + restriction
	}
	if c := r.Request.GetRecipe().GetCompression(); c != nil {
		name += fmt.Sprintf("\n%s %t %d %t", c.GetMode(), c.Level != nil, c.GetLevel(), c.GetForce())
	}
	return digest.FromString(name).Encoded()[:16]
}

// Image returns a target as one string.
func Image(t *buildv1.Target) string {
	if t.GetDigest() != "" {
		return t.GetRegistry() + "/" + t.GetRepository() + "@" + t.GetDigest()
	}
	return t.GetRegistry() + "/" + t.GetRepository() + ":" + t.GetTag()
}

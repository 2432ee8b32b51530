package store

import (
	"fmt"
	"strconv"
	"time"

	"github.com/opencontainers/go-digest"

	buildv1 "slipway.dev/proto/gen/slipway/build/v1"
	condav1 "slipway.dev/proto/gen/slipway/conda/v1"

	"slipway.dev/services/build/engine"
)

// Record is a build: a row of build_builds.
type Record struct {
	ID      string
	Number  int64 // the last part of the id
	Request *buildv1.SubmitBuildRequest
	// Owner is whose turn the build takes.
	Owner       string
	TraceParent string
	TimeLimit   time.Duration
	// Times are zero while it has not come to that.
	Created, Published, Started, Completed time.Time
	// Publications are how often the build waited anew; Delivery is the newest that a
	// worker took of its job, 0 for none.
	Publications, Delivery  int64
	Succeeded               bool
	Reason, Message, Digest string
	// Counted is 0 for an admission, which is to be counted, or NeverCounted. It is
	// written once and not read here.
	Counted int64
	// Lock is written once and not read here; nil is none.
	Lock *condav1.SolvePackagesResponse
}

// NeverCounted is the number of what is not the admission of a build.
const NeverCounted = -1

// MaxNumber is the largest number that a build's id may have.
const MaxNumber = 1 << 40

// Renumber gives a build that is not written yet the id with a number.
func (r *Record) Renumber(n int64) {
	r.ID, r.Number = r.Request.GetContentId()+"_"+strconv.FormatInt(n, 10), n
}

// IsPending says whether a build has not ended.
func (r Record) IsPending() bool { return r.Completed.IsZero() }

// Deadline is when the build has to be over; zero while no worker has it.
func (r Record) Deadline() time.Time {
	if r.Started.IsZero() {
		return time.Time{}
	}
	return r.Started.Add(r.TimeLimit)
}

// Kind is what has to make it.
func (r Record) Kind() engine.Kind { return engine.KindOf(r.Request.GetRecipe()) }

// CacheScope names the caches of one owner: nobody finds there what another's
// build has left. So are those of another compression apart: a layer that is found stays
// as it was compressed.
func (r Record) CacheScope() string {
	name := r.Owner + "\n" + r.Request.GetScope()
	if c := r.Request.GetRecipe().GetCompression(); c != nil {
		name += fmt.Sprintf("\n%s %t %d %t", c.GetMode(), c.Level != nil, c.GetLevel(), c.GetForce())
	}
	return digest.FromString(name).Encoded()[:16]
}

// Image is a target in one string.
func Image(t *buildv1.Target) string {
	return t.GetRegistry() + "/" + t.GetRepository() + ":" + t.GetTag()
}

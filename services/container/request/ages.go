package request

import (
	"time"

	containerv1 "slipway.dev/proto/gen/slipway/container/v1"

	"slipway.dev/services/conda/spec"
	"slipway.dev/services/internal/fault"
)

// ages are the rules of a request about the age of Conda packages; the zero value has none.
type ages struct {
	// asOf is the date or time whose channels are used; "" for the present.
	asOf string
	// excludeNewer is the time after which packages are excluded, in RFC 3339; "" for none.
	// except lists the names to which it does not apply.
	excludeNewer string
	except       []string
}

// readAges validates the rules of a request. It converts minAge to a time, so that a build and
// its lock do not depend on when they are made. Without asOf, it subtracts the age from the
// beginning of the current day in UTC, or of the current hour for ages of less than a day, so
// that equal requests resolve to the same packages within that day or hour.
func readAges(r *containerv1.ContainerRequest, now time.Time) (ages, error) {
	until, err := spec.ParseAsOf(r.GetAsOf())
	if err != nil {
		return ages{}, err
	}
	out := ages{asOf: r.GetAsOf()}
	if out.except, err = spec.ParseAgeExceptions(r.GetMinAgeExcept()); err != nil {
		return ages{}, err
	}
	if r.GetMinAge() == "" {
		if len(out.except) > 0 {
			return ages{}, fault.Invalid.Newf("minAgeExcept requires minAge")
		}
		return out, nil
	}
	age, err := spec.ParseAge(r.GetMinAge())
	if err != nil {
		return ages{}, err
	}
	const day = 24 * time.Hour
	switch {
	case !until.IsZero():
	case age >= day:
		until = now.Truncate(day)
	default:
		until = now.Truncate(time.Hour)
	}
	out.excludeNewer = until.Add(-age).UTC().Format(time.RFC3339)
	return out, nil
}

func (a ages) isSet() bool { return a.asOf != "" || a.excludeNewer != "" }

// ages adds the rules about the age of packages. It adds nothing without rules, because the
// IDs of such requests must not change.
func (w digester) ages(a ages) {
	if a.isSet() {
		w.text("slipway ages", a.asOf, a.excludeNewer)
		w.list(a.except)
	}
}

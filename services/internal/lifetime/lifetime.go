// Package lifetime provides the flag value for durations such as the lifetime of a token.
package lifetime

import (
	"errors"
	"strconv"
	"strings"
	"time"
)

// A Value is a duration that implements pflag.Value. Its text form is whole days ("90d") or
// the form of time.ParseDuration ("12h30m"). The zero value means unlimited.
type Value time.Duration

const day = 24 * time.Hour

var errForm = errors.New("must be a duration such as 90d, 12h or 30m, from one second to 100 years")

// Set implements pflag.Value.
func (v *Value) Set(text string) error {
	d, err := time.ParseDuration(text)
	if days, ok := strings.CutSuffix(text, "d"); ok {
		var n uint64
		n, err = strconv.ParseUint(days, 10, 16)
		d = time.Duration(n) * day
	}
	if err != nil || d != 0 && d < time.Second || d > 36525*day {
		return errForm
	}
	*v = Value(d)
	return nil
}

// String implements pflag.Value.
func (v *Value) String() string {
	d := time.Duration(*v)
	if d != 0 && d%day == 0 {
		return strconv.Itoa(int(d/day)) + "d"
	}
	return d.String()
}

// Type implements pflag.Value.
func (*Value) Type() string { return "duration" }

// From returns the time at which a lifetime that starts at now ends, or the zero time if it
// is unlimited.
func (v *Value) From(now time.Time) time.Time {
	if *v == 0 {
		return time.Time{}
	}
	return now.Add(time.Duration(*v))
}

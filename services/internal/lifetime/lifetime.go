// Package lifetime is the flag that says how long something works.
package lifetime

import (
	"errors"
	"strconv"
	"strings"
	"time"
)

// Value is a pflag.Value: whole days ("90d"), or hours, minutes and seconds as Go writes
// them ("12h30m"). The zero value is for ever, as "0" is.
type Value time.Duration

const day = 24 * time.Hour

var errForm = errors.New("write it as 90d, 12h or 30m: a second or more, a hundred years or less")

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

// From is when something ends that begins now; the zero time for never.
func (v *Value) From(now time.Time) time.Time {
	if *v == 0 {
		return time.Time{}
	}
	return now.Add(time.Duration(*v))
}

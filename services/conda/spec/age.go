package spec

import (
	"strconv"
	"strings"
	"time"

	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/limits"
)

// ParseAsOf parses the field asOf: a date, which means the end of its day in UTC, or a time in
// RFC 3339. "" is the zero time. It returns fault.Invalid for any other text.
func ParseAsOf(text string) (time.Time, error) {
	const day = 24 * time.Hour
	if text == "" {
		return time.Time{}, nil
	}
	if date, err := time.Parse(time.DateOnly, text); err == nil {
		return date.Add(day - time.Millisecond), nil
	}
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return at, fault.Invalid.New("asOf must be a date such as 2026-01-31, or a time such as 2026-01-31T12:00:00Z", err)
	}
	return at, nil
}

// ParseAge parses the field minAge: a number of days or weeks such as "7d" or "2w", or a
// duration such as "36h". It returns fault.Invalid for any other text, and for more than
// limits.CondaMinAge.
func ParseAge(text string) (time.Duration, error) {
	bad := func(err error) (time.Duration, error) {
		return 0, fault.Invalid.New("minAge must be an age such as 7d, 2w or 36h, of at most "+AgeText(limits.CondaMinAge), err)
	}
	if text == "" || len(text) > limits.CondaAgeText {
		return bad(nil)
	}
	unit := time.Duration(0)
	switch text[len(text)-1] {
	case 'd':
		unit = 24 * time.Hour
	case 'w':
		unit = 7 * 24 * time.Hour
	}
	var age time.Duration
	if unit > 0 {
		n, err := strconv.ParseUint(text[:len(text)-1], 10, 16)
		if err != nil {
			return bad(err)
		}
		age = time.Duration(n) * unit
	} else {
		var err error
		if age, err = time.ParseDuration(text); err != nil {
			return bad(err)
		}
	}
	if age < 0 || age > limits.CondaMinAge {
		return bad(nil)
	}
	return age, nil
}

// AgeText formats an age, in days if it is a whole number of days.
func AgeText(age time.Duration) string {
	const day = 24 * time.Hour
	if age >= day && age%day == 0 {
		return strconv.Itoa(int(age/day)) + "d"
	}
	return age.String()
}

// ParseAgeExceptions returns the names of the field minAgeExcept, in lower case. It returns
// fault.Invalid if an entry is not a package name, or if there are more than
// limits.CondaExceptions.
func ParseAgeExceptions(names []string) (out []string, err error) {
	if len(names) > limits.CondaExceptions {
		return nil, fault.Invalid.Newf("minAgeExcept has %d names; the maximum is %d", len(names), limits.CondaExceptions)
	}
	for _, name := range names {
		spec, err := ParseMatchSpec(name)
		if err != nil || spec.Name != strings.ToLower(name) {
			return nil, fault.Invalid.New("minAgeExcept must list names of packages, such as openssl; it has "+strconv.Quote(fault.Quote(name)), err)
		}
		out = append(out, spec.Name)
	}
	return out, nil
}

package ratelimit

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Rule allows Count charges within any period of length Window.
type Rule struct {
	Count  int
	Window time.Duration
}

// A Kind is a kind of limited call, as named in keys and messages.
type Kind string

// The kinds of calls that limits are configured for.
const (
	Pulls    Kind = "pulls"
	Requests Kind = "requests"
	Searches Kind = "searches"
	Builds   Kind = "builds"
	Calls    Kind = "calls"
)

// Limits are the limits by kind. A kind that is missing is not limited.
type Limits map[Kind]ByClient

// ByClient are the limit of one user, that of one address without a user, and the one that all
// callers in the workspaces of one organisation share.
type ByClient struct{ User, Anonymous, Organization Limit }

// Limit is a list of rules that must all hold, e.g. 20 in a second and 72,000 in
// an hour. The zero value limits nothing.
type Limit []Rule

// UnmarshalText parses the form of the configuration: `250/1h`, several separated by
// commas, `0` or nothing for no limit.
func (l *Limit) UnmarshalText(text []byte) error {
	*l = nil
	if s := strings.TrimSpace(string(text)); s == "" || s == "0" {
		return nil
	}
	for part := range strings.SplitSeq(string(text), ",") {
		count, window, ok := strings.Cut(strings.TrimSpace(part), "/")
		n, err := strconv.Atoi(count)
		if !ok || err != nil || n < 1 {
			return fmt.Errorf("a limit is COUNT/WINDOW, e.g. 250/1h, or 0 for none; got %q", part)
		}
		d, err := time.ParseDuration(window)
		if err != nil || d < 60*time.Millisecond {
			return fmt.Errorf("the window of a limit is a duration of 60ms or more, e.g. 1h; got %q", window)
		}
		*l = append(*l, Rule{Count: n, Window: d})
	}
	return nil
}

// MarshalText writes the form that UnmarshalText reads.
func (l Limit) MarshalText() ([]byte, error) {
	if len(l) == 0 {
		return []byte("0"), nil
	}
	parts := make([]string, len(l))
	for i, r := range l {
		parts[i] = fmt.Sprintf("%d/%s", r.Count, shortDuration(r.Window))
	}
	return []byte(strings.Join(parts, ",")), nil
}

// shortDuration drops the zero units that Duration.String shows: 1h, not 1h0m0s.
func shortDuration(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

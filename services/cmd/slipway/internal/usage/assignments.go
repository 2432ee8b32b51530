package usage

import (
	"errors"
	"strings"
)

// Assignments is a flag that collects NAME=value.
type Assignments []string

// Set adds one.
func (a *Assignments) Set(s string) error {
	if name, _, ok := strings.Cut(s, "="); !ok || name == "" {
		return errors.New("must be NAME=value")
	}
	*a = append(*a, s)
	return nil
}

// Values are what is assigned to each name; the last holds.
func (a *Assignments) Values() map[string]string {
	all := map[string]string{}
	for _, s := range *a {
		name, value, _ := strings.Cut(s, "=")
		all[name] = value
	}
	return all
}

// String returns all of them.
func (a *Assignments) String() string { return strings.Join(*a, " ") }

// Type names the flag's kind in the help.
func (a *Assignments) Type() string { return "NAME=value" }

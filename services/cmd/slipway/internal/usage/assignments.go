package usage

import (
	"errors"
	"strings"
)

// Assignments is a flag that collects NAME=value.
type Assignments []string

// Set adds an assignment.
func (a *Assignments) Set(s string) error {
	if name, _, ok := strings.Cut(s, "="); !ok || name == "" {
		return errors.New("must be NAME=value")
	}
	*a = append(*a, s)
	return nil
}

// Values returns the value of each name; the last one wins.
func (a *Assignments) Values() map[string]string {
	all := map[string]string{}
	for _, s := range *a {
		name, value, _ := strings.Cut(s, "=")
		all[name] = value
	}
	return all
}

// String returns all assignments.
func (a *Assignments) String() string { return strings.Join(*a, " ") }

// Type returns the flag's type for the help.
func (a *Assignments) Type() string { return "NAME=value" }

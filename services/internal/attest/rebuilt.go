package attest

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// Rebuilt is the predicate of a statement that two workers made the same bytes from the same inputs.
type Rebuilt struct {
	// BuildID is the build that was repeated.
	BuildID string `json:"buildId"`
	// Builds are the two builds: the first one pushed the image.
	Builds []WorkerBuild `json:"builds"`
}

// A WorkerBuild is one of the builds of an image.
type WorkerBuild struct {
	// Worker is an opaque id of the worker. The server's operator can resolve it.
	Worker string `json:"worker"`
	// FinishedOn is when the build ended, as in provenance.
	FinishedOn string `json:"finishedOn"`
}

// Rebuilt returns the predicate of a statement with RebuiltPredicate.
func (s *Statement) Rebuilt() (*Rebuilt, error) {
	if s.PredicateType != RebuiltPredicate {
		return nil, fmt.Errorf("the predicate type is %.100q instead of %q", s.PredicateType, RebuiltPredicate)
	}
	r := &Rebuilt{}
	if err := json.Unmarshal(s.Predicate, r); err != nil {
		return nil, fmt.Errorf("the statement about a second build is malformed: %w", err)
	}
	if len(r.Builds) != 2 || r.Builds[0].Worker == "" || r.Builds[1].Worker == "" || r.Builds[0].Worker == r.Builds[1].Worker {
		return nil, errors.New("the statement about a second build does not name two workers")
	}
	for _, b := range r.Builds {
		if _, err := time.Parse(time.RFC3339, b.FinishedOn); err != nil {
			return nil, fmt.Errorf("the statement about a second build has an invalid time: %w", err)
		}
	}
	return r, nil
}

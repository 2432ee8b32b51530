package attest_test

import (
	"encoding/json"
	"testing"

	"slipway.dev/services/internal/attest"
)

// TestRebuilt checks which predicates state that two workers made the same bytes.
func TestRebuilt(t *testing.T) {
	t.Parallel()
	const one, other = `{"worker": "a", "finishedOn": "2026-01-02T03:04:05Z"}`, `{"worker": "b", "finishedOn": "2026-01-03T03:04:05Z"}`
	for predicate, valid := range map[string]bool{
		`{"buildId": "x_1", "builds": [` + one + `, ` + other + `]}`:        true,
		`{"builds": [` + one + `, ` + one + `]}`:                            false,
		`{"builds": [` + one + `]}`:                                         false,
		`{"builds": [` + one + `, {"worker": "b"}]}`:                        false,
		`{"builds": [` + one + `, {"finishedOn": "2026-01-02T03:04:05Z"}]}`: false,
		`{}`: false, `[]`: false,
	} {
		s := &attest.Statement{PredicateType: attest.RebuiltPredicate, Predicate: json.RawMessage(predicate)}
		if r, err := s.Rebuilt(); (err == nil) != valid {
			t.Errorf("%s: %+v, %v", predicate, r, err)
		}
	}
	if _, err := (&attest.Statement{PredicateType: attest.ProvenancePredicate, Predicate: json.RawMessage(`{}`)}).Rebuilt(); err == nil {
		t.Error("a statement of another type is accepted")
	}
}

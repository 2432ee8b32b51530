package platform

import (
	"context"

	"slipway.dev/services/platform/orgs"
)

// Requirements are the calls that the table of people lists, and how often.
func Requirements() map[string]int {
	times := map[string]int{}
	for _, rule := range people() {
		for _, call := range rule.calls {
			times[call]++
		}
	}
	return times
}

// NamesItsScope says whether admit finds in a request where the call acts, if the
// call asks for a role anywhere.
func NamesItsScope(call string, req any) bool {
	need := requirements()[call].Need
	_, ok := scopeOf(req, need)
	return ok || need == orgs.Need{}
}

// Sweep does at once what Run does from time to time.
func (s *Service) Sweep(ctx context.Context) error { return s.sweep(ctx) }

package platform

import (
	"context"

	"slipway.dev/services/platform/orgs"
)

// Requirements returns the number of rules for each call.
func Requirements() map[string]int {
	times := map[string]int{}
	for _, rule := range accessRules() {
		for _, call := range rule.calls {
			times[call]++
		}
	}
	return times
}

// HasScope reports whether admit finds a scope in a request, if the call requires a role.
func HasScope(call string, req any) bool {
	need := requirements()[call].RequiredRoles
	_, ok := scopeOf(req, need)
	return ok || need == orgs.RequiredRoles{}
}

// Sweep does once what Run does periodically.
func (s *Service) Sweep(ctx context.Context) error { return s.sweep(ctx) }

package channel

import (
	"fmt"

	"slipway.dev/services/internal/fault"
)

// Health returns an error if a package list that all callers share could not be refreshed.
// It reports the outcome of earlier fetches and contacts no channel, so that a readiness
// probe does not depend on external hosts.
func (s *Store) Health() error {
	var failed []Status
	for _, one := range s.Statuses() {
		if one.Channel != "" && one.Failure != "" {
			failed = append(failed, one)
		}
	}
	if len(failed) == 0 {
		return nil
	}
	first := fmt.Sprintf("%s/%s: %s", failed[0].Channel, failed[0].Subdir, failed[0].Failure)
	if len(failed) > 1 {
		first += fmt.Sprintf(" (and %d more)", len(failed)-1)
	}
	return fault.Unavailable.Newf("%s", first)
}

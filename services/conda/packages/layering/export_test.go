package layering

import (
	"context"

	"slipway.dev/services/conda/spec"
)

// Gather exports gather: it copies layers of other workers into the store.
func (m *Builder) Gather(ctx context.Context, records []spec.Record, packages []Package, which []int) error {
	return m.gather(ctx, records, packages, which)
}

package layering

import (
	"context"

	"slipway.dev/services/internal/conda"
)

// Gather has layers in the store that others have made.
func (m *Maker) Gather(ctx context.Context, records []conda.Record, packages []Package, which []int) error {
	return m.gather(ctx, records, packages, which)
}

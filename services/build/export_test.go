package build

import "context"

// Sweep does what Run does from time to time.
func (s *Service) Sweep(ctx context.Context) { s.sweep(ctx) }

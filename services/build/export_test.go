package build

import "context"

// Sweep runs the periodic part of Run.
func (s *Service) Sweep(ctx context.Context) { s.sweep(ctx) }

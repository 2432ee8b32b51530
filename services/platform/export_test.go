package platform

import "context"

// HasRule says whether somebody thought of who may make a call.
func (s *Service) HasRule(call string) bool {
	_, ok := s.rules[call]
	return ok
}

// HasDoor says whether a call is for other parts alone.
func HasDoor(call string) bool { return len(doors()[call]) > 0 }

// Sweep does at once what Run does from time to time.
func (s *Service) Sweep(ctx context.Context) error { return s.sweep(ctx) }

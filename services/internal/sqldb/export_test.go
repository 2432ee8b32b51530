package sqldb

import "time"

// Forget has the space measured again when it is next asked for.
func (s *Space) Forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.at = time.Time{}
}

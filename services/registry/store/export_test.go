package store

import "time"

// VerifyWithin sets how long a request waits for the verification of a composed blob.
func (s *Store) VerifyWithin(d time.Duration) { s.verificationWait = d }

package store

import "time"

// VerifyWithin sets how long a request waits for the verification of a composed blob.
func (s *Store) VerifyWithin(d time.Duration) { s.verificationWait = d }

// QueueWithin sets how long a verification waits for others.
func (s *Store) QueueWithin(d time.Duration) { s.verificationQueue = d }

// Verify occupies one of the verifications at a time until end is called.
func (s *Store) Verify() (end func()) {
	s.verifying <- struct{}{}
	return func() { <-s.verifying }
}

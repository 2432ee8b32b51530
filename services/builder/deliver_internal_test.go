package builder

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"testing"
	"testing/synctest"
)

// TestOnlyAProofCancels checks that a build is only cancelled by the ticket's hash, however
// often other clients of the bus guess.
func TestOnlyAProofCancels(t *testing.T) {
	t.Parallel()
	proof := func(ticket string) string {
		sum := sha256.Sum256([]byte(ticket))
		return hex.EncodeToString(sum[:])
	}
	for _, tc := range []struct {
		name, ticket, said string
		want               bool
	}{
		{"proof", "secret", proof("secret"), true},
		{"nothing", "secret", "", false},
		{"guess", "secret", "guessed", false},
		{"the ticket itself", "secret", "secret", false},
		{"proof of another", "secret", proof("other"), false},
		{"build without a ticket", "", proof(""), false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancelCause(t.Context())
				defer cancel(nil)
				proofs := make(chan string)
				go cancelled(ctx, tc.ticket, proofs, cancel)
				proofs <- tc.said
				synctest.Wait()
				if got := errors.Is(context.Cause(ctx), errCancelled); got != tc.want {
					t.Errorf("it is cancelled: %t", got)
				}
			})
		})
	}
}

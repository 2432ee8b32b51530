package htpasswd

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/crypto/bcrypt"

	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/limits"
)

// guessed is an account "ada" with the password "right", and a clock.
func guessed(t *testing.T) (*Accounts, *time.Time) {
	t.Helper()
	hash, err := bcrypt.GenerateFromPassword([]byte("right"), bcrypt.MinCost)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Unix(1e9, 0)
	return newAccounts(File{Path: "accounts", Account: "an operator", Now: func() time.Time { return now }}, map[string][]byte{"ada": hash}), &now
}

func login(name, password string) string {
	return "Basic " + base64.StdEncoding.EncodeToString([]byte(name+":"+password))
}

// TestGuessesOfOneClient: whoever guesses is stopped before bcrypt is asked, for
// known and unknown names alike; others are not, nor is who was let in before.
func TestGuessesOfOneClient(t *testing.T) {
	t.Parallel()
	const attacker, operator = "ip:192.0.2.1", "ip:192.0.2.2"
	for _, name := range []string{"ada", "eve"} {
		a, now := guessed(t)
		if _, err := a.Check(t.Context(), attacker, login("ada", "right")); err != nil {
			t.Fatal(err)
		}
		for i := range limits.LoginsClient {
			if _, err := a.Check(t.Context(), attacker, login(name, fmt.Sprint(i))); !errors.Is(err, fault.Unauthenticated) {
				t.Fatalf("guess %d for %s: %v", i, name, err)
			}
		}
		_, err := a.Check(t.Context(), attacker, login(name, "one more"))
		if e, ok := fault.As(err); !ok || e.Kind != fault.Exhausted || e.RetryAfter != limits.LoginWindow {
			t.Errorf("one guess more for %s: %v", name, err)
		}
		if _, err := a.Check(t.Context(), attacker, login("ada", "right")); err != nil {
			t.Errorf("what has passed before: %v", err)
		}
		if _, err := a.Check(t.Context(), operator, login("ada", "wrong")); !errors.Is(err, fault.Unauthenticated) {
			t.Errorf("another client: %v", err)
		}
		*now = now.Add(limits.LoginWindow)
		if _, err := a.Check(t.Context(), attacker, login(name, "later")); !errors.Is(err, fault.Unauthenticated) {
			t.Errorf("a minute later: %v", err)
		}
	}
}

// TestGuessesOfManyClients: a name is guessed so often and no more.
func TestGuessesOfManyClients(t *testing.T) {
	t.Parallel()
	a, _ := guessed(t)
	exhausted := 0
	for i := range limits.LoginsName + 5 {
		if _, err := a.Check(t.Context(), fmt.Sprintf("ip:192.0.2.%d", i), login("ada", "wrong")); errors.Is(err, fault.Exhausted) {
			exhausted++
		}
	}
	if exhausted != 5 {
		t.Errorf("%d guesses were stopped, want 5", exhausted)
	}
}

// TestGoodLoginsAreNotCounted: only what fails counts.
func TestGoodLoginsAreNotCounted(t *testing.T) {
	t.Parallel()
	a, _ := guessed(t)
	for i := range 2 * limits.LoginsClient {
		a.passed = map[string][]byte{} // bcrypt is asked each time
		if _, err := a.Check(t.Context(), "ip:192.0.2.1", login("ada", "right")); err != nil {
			t.Fatalf("login %d: %v", i, err)
		}
	}
}

// TestOneComparisonAtATime: while bcrypt is busy few wait, and those who wait for
// nothing are not counted.
func TestOneComparisonAtATime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a, _ := guessed(t)
		a.comparing <- struct{}{}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, limits.LoginsWaiting)
		for i := range limits.LoginsWaiting {
			go func() {
				_, err := a.Check(ctx, fmt.Sprintf("ip:192.0.2.%d", i), login("ada", "right"))
				ended <- err
			}()
		}
		synctest.Wait()
		if _, err := a.Check(t.Context(), "ip:198.51.100.1", login("ada", "right")); !errors.Is(err, fault.Exhausted) {
			t.Errorf("one more than may wait: %v", err)
		}
		cancel()
		for range limits.LoginsWaiting {
			if err := <-ended; !errors.Is(err, context.Canceled) {
				t.Errorf("one that went away: %v", err)
			}
		}
		<-a.comparing
		if _, err := a.Check(t.Context(), "ip:192.0.2.1", login("ada", "right")); err != nil {
			t.Errorf("afterwards: %v", err)
		}
		for key, w := range a.failed {
			if w.count != 0 {
				t.Errorf("%x was counted %d times", key, w.count)
			}
		}
	})
}

// TestLongLogins: what bcrypt would not read is not hashed, and names leave
// nothing behind that grows with them.
func TestLongLogins(t *testing.T) {
	t.Parallel()
	a, _ := guessed(t)
	for _, header := range []string{login("ada", strings.Repeat("x", limits.LoginPassword+1)), login(strings.Repeat("x", limits.LoginName+1), "x")} {
		if _, err := a.Check(t.Context(), "ip:192.0.2.1", header); !errors.Is(err, fault.Unauthenticated) {
			t.Errorf("a login of %d bytes: %v", len(header), err)
		}
	}
	if len(a.failed) != 0 {
		t.Errorf("%d logins were compared", len(a.failed))
	}
}

// TestAttemptsAreBounded: any number of clients is counted in the same memory.
func TestAttemptsAreBounded(t *testing.T) {
	t.Parallel()
	a, now := attempts{}, time.Unix(1e9, 0)
	for i := range 3 * limits.LoginsKnown {
		a.take([]counter{{fmt.Sprint(i), limits.LoginsClient}}, now)
	}
	if len(a) > limits.LoginsKnown {
		t.Errorf("%d are counted", len(a))
	}
}

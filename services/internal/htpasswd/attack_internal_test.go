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

// newTestAccounts returns an account "ada" with the password "right", and its clock.
func newTestAccounts(t *testing.T) (*Accounts, *time.Time) {
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

// TestGuessesOfOneClient verifies that a client with too many failures is rejected without a
// comparison, for known and unknown names alike. Other clients, and logins that were verified
// before, are still accepted.
func TestGuessesOfOneClient(t *testing.T) {
	t.Parallel()
	const attacker, operator = "ip:192.0.2.1", "ip:192.0.2.2"
	for _, name := range []string{"ada", "eve"} {
		a, now := newTestAccounts(t)
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
			t.Errorf("the guess after the limit for %s: %v", name, err)
		}
		if _, err := a.Check(t.Context(), attacker, login("ada", "right")); err != nil {
			t.Errorf("a login that was verified before: %v", err)
		}
		if _, err := a.Check(t.Context(), operator, login("ada", "wrong")); !errors.Is(err, fault.Unauthenticated) {
			t.Errorf("another client: %v", err)
		}
		*now = now.Add(limits.LoginWindow)
		if _, err := a.Check(t.Context(), attacker, login(name, "later")); !errors.Is(err, fault.Unauthenticated) {
			t.Errorf("after the window: %v", err)
		}
	}
}

// TestGuessesOfManyClients verifies the limit of failures per name.
func TestGuessesOfManyClients(t *testing.T) {
	t.Parallel()
	a, _ := newTestAccounts(t)
	exhausted := 0
	for i := range limits.LoginsName + 5 {
		if _, err := a.Check(t.Context(), fmt.Sprintf("ip:192.0.2.%d", i), login("ada", "wrong")); errors.Is(err, fault.Exhausted) {
			exhausted++
		}
	}
	if exhausted != 5 {
		t.Errorf("%d guesses were rejected, want 5", exhausted)
	}
}

// TestGoodLoginsAreNotCounted verifies that only failures are counted.
func TestGoodLoginsAreNotCounted(t *testing.T) {
	t.Parallel()
	a, _ := newTestAccounts(t)
	for i := range 2 * limits.LoginsClient {
		a.verified = map[string][]byte{} // forces a comparison each time
		if _, err := a.Check(t.Context(), "ip:192.0.2.1", login("ada", "right")); err != nil {
			t.Fatalf("login %d: %v", i, err)
		}
	}
}

// TestOneComparisonAtATime verifies that few callers may wait for a comparison, and that
// cancelled ones are not counted as failures.
func TestOneComparisonAtATime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a, _ := newTestAccounts(t)
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
			t.Errorf("a caller above the limit of waiting ones: %v", err)
		}
		cancel()
		for range limits.LoginsWaiting {
			if err := <-ended; !errors.Is(err, context.Canceled) {
				t.Errorf("a cancelled caller: %v", err)
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

// TestLongLogins verifies that names and passwords above their limits are rejected without a
// comparison and without being stored.
func TestLongLogins(t *testing.T) {
	t.Parallel()
	a, _ := newTestAccounts(t)
	for _, header := range []string{login("ada", strings.Repeat("x", limits.LoginPassword+1)), login(strings.Repeat("x", limits.LoginName+1), "x")} {
		if _, err := a.Check(t.Context(), "ip:192.0.2.1", header); !errors.Is(err, fault.Unauthenticated) {
			t.Errorf("a login of %d bytes: %v", len(header), err)
		}
	}
	if len(a.failed) != 0 {
		t.Errorf("%d logins were counted", len(a.failed))
	}
}

// TestAttemptsAreBounded verifies that the number of stored counters is limited.
func TestAttemptsAreBounded(t *testing.T) {
	t.Parallel()
	a, now := attempts{}, time.Unix(1e9, 0)
	for i := range 3 * limits.LoginsKnown {
		a.take([]counter{{fmt.Sprint(i), limits.LoginsClient}}, now)
	}
	if len(a) > limits.LoginsKnown {
		t.Errorf("%d counters are stored", len(a))
	}
}

package jobs

import (
	"context"
	"encoding/base64"
	"errors"
	"strings"
	"sync"
	"time"

	buildv1 "slipway.dev/proto/gen/slipway/build/v1"
	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/retry"
	"slipway.dev/services/internal/upstream"
)

// Logins fetches the logins for the repositories of one build from the build service. They
// are held in memory only. Safe for concurrent use.
type Logins struct {
	work   buildv1.WorkServiceClient
	ticket string

	mu      sync.Mutex
	secrets []string // passwords that were returned, which must not appear in the log
}

// retryInterval is the pause before the build service is called again.
const retryInterval = 500 * time.Millisecond

// NewLogins returns the logins that a ticket grants access to.
func NewLogins(work buildv1.WorkServiceClient, ticket string) *Logins {
	return &Logins{work: work, ticket: ticket}
}

// Read returns the login for an image that the recipe names.
func (l *Logins) Read(ctx context.Context, repo upstream.Repository) (upstream.Login, error) {
	return l.Lookup(ctx, repo, buildv1.LoginPurpose_LOGIN_PURPOSE_READ)
}

// Push returns the login for the target repository.
func (l *Logins) Push(ctx context.Context, repo upstream.Repository) (upstream.Login, error) {
	return l.Lookup(ctx, repo, buildv1.LoginPurpose_LOGIN_PURPOSE_PUSH)
}

// Cache returns the login for the repository of cached layers.
func (l *Logins) Cache(ctx context.Context, repo upstream.Repository) (upstream.Login, error) {
	return l.Lookup(ctx, repo, buildv1.LoginPurpose_LOGIN_PURPOSE_CACHE)
}

// Lookup returns the login for a repository and a purpose, or the zero Login if the build
// service has none.
func (l *Logins) Lookup(ctx context.Context, repo upstream.Repository, why buildv1.LoginPurpose) (upstream.Login, error) {
	req := &buildv1.GetBuildCredentialsRequest{Ticket: l.ticket, Registry: repo.Host, Repository: repo.Name, Purpose: why}
	r, err := withRetry(ctx, func(ctx context.Context) (*buildv1.GetBuildCredentialsResponse, error) {
		return l.work.GetBuildCredentials(ctx, req)
	})
	if errors.Is(err, fault.NotFound) {
		return upstream.Login{}, nil
	}
	if err != nil {
		return upstream.Login{}, err
	}
	l.addSecret(r.GetUsername(), r.GetPassword())
	return upstream.Login{Username: r.GetUsername(), Password: r.GetPassword()}, nil
}

// SignSif returns the signature object of a Singularity image for the metadata that it covers.
func (l *Logins) SignSif(ctx context.Context, metadata []byte) ([]byte, error) {
	req := &buildv1.SignSifRequest{Ticket: l.ticket, Metadata: metadata}
	r, err := withRetry(ctx, func(ctx context.Context) (*buildv1.SignSifResponse, error) { return l.work.SignSif(ctx, req) })
	return r.GetEnvelope(), err
}

// withRetry repeats a call while the build service is unavailable, so that its restart does not
// fail a long build.
func withRetry[T any](ctx context.Context, call func(context.Context) (T, error)) (T, error) {
	for {
		r, err := call(ctx)
		if !IsUnavailable(err) || !retry.Sleep(ctx, retryInterval) {
			return r, err
		}
	}
}

// addSecret records a password in each form that a tool may print it in.
func (l *Logins) addSecret(user, password string) {
	if len(password) < 6 { // too short to distinguish from other text
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	basic := base64.StdEncoding.EncodeToString([]byte(user + ":" + password))
	l.secrets = append(l.secrets, password, basic)
}

// Redact removes secrets from a text.
func (l *Logins) Redact(text string) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, s := range l.secrets {
		text = strings.ReplaceAll(text, s, "[redacted]")
	}
	return text
}

// IsUnavailable reports whether the build service is temporarily unavailable.
func IsUnavailable(err error) bool {
	return errors.Is(err, fault.Unavailable) || errors.Is(err, fault.Timeout) || errors.Is(err, context.DeadlineExceeded)
}

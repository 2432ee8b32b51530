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

// Logins are what a build may do at registries: for each of its own repositories
// the login that the build room has for it. They are in memory only. Safe for
// concurrent use.
type Logins struct {
	work   buildv1.WorkServiceClient
	ticket string

	mu      sync.Mutex
	secrets []string // what was handed out, and so must not be in the log
}

// askAgain is how long a build room that cannot answer is left alone.
const askAgain = 500 * time.Millisecond

// NewLogins are those that a ticket is good for.
func NewLogins(work buildv1.WorkServiceClient, ticket string) *Logins {
	return &Logins{work: work, ticket: ticket}
}

// Read returns the login for an image that the recipe names.
func (l *Logins) Read(ctx context.Context, repo upstream.Repository) (upstream.Login, error) {
	return l.Ask(ctx, repo, buildv1.LoginPurpose_LOGIN_PURPOSE_READ)
}

// Push returns the login for the repository that the image goes to.
func (l *Logins) Push(ctx context.Context, repo upstream.Repository) (upstream.Login, error) {
	return l.Ask(ctx, repo, buildv1.LoginPurpose_LOGIN_PURPOSE_PUSH)
}

// Cache returns the login for the repository that keeps layers.
func (l *Logins) Cache(ctx context.Context, repo upstream.Repository) (upstream.Login, error) {
	return l.Ask(ctx, repo, buildv1.LoginPurpose_LOGIN_PURPOSE_CACHE)
}

// Ask returns none where the build room has none.
func (l *Logins) Ask(ctx context.Context, repo upstream.Repository, why buildv1.LoginPurpose) (upstream.Login, error) {
	r, err := l.patiently(ctx, &buildv1.GetBuildCredentialsRequest{Ticket: l.ticket, Registry: repo.Host, Repository: repo.Name, Purpose: why})
	if errors.Is(err, fault.NotFound) {
		return upstream.Login{}, nil
	}
	if err != nil {
		return upstream.Login{}, err
	}
	l.remember(r.GetUsername(), r.GetPassword())
	return upstream.Login{Username: r.GetUsername(), Password: r.GetPassword()}, nil
}

// patiently asks for as long as the build room is away: a build that has come far
// must not fail because that restarts.
func (l *Logins) patiently(ctx context.Context, req *buildv1.GetBuildCredentialsRequest) (*buildv1.GetBuildCredentialsResponse, error) {
	for {
		r, err := l.work.GetBuildCredentials(ctx, req)
		if !Away(err) || !retry.Sleep(ctx, askAgain) {
			return r, err
		}
	}
}

// remember notes a password as it may be printed by a careless tool.
func (l *Logins) remember(user, password string) {
	if len(password) < 6 { // too short to be told from other text
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	basic := base64.StdEncoding.EncodeToString([]byte(user + ":" + password))
	l.secrets = append(l.secrets, password, basic)
}

// Redact takes secrets out of a text.
func (l *Logins) Redact(text string) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, s := range l.secrets {
		text = strings.ReplaceAll(text, s, "[redacted]")
	}
	return text
}

// Away says whether the build room just cannot answer now.
func Away(err error) bool {
	return errors.Is(err, fault.Unavailable) || errors.Is(err, fault.Timeout) || errors.Is(err, context.DeadlineExceeded)
}

package builder

import (
	"context"
	"encoding/base64"
	"errors"
	"strings"
	"sync"

	"github.com/moby/buildkit/session/auth"
	"google.golang.org/grpc"

	buildv1 "slipway.dev/proto/gen/slipway/build/v1"
	"slipway.dev/services/internal/fault"
)

// logins hands a build's logins to the daemon over the build's own session: they
// are in memory only, and other builds do not see them. The daemon itself asks
// registries for tokens, under its own egress rules: the other calls of the
// service stay unimplemented.
type logins struct {
	auth.UnimplementedAuthServer
	work   buildv1.WorkServiceClient
	ticket string

	mu      sync.Mutex
	secrets []string // what was handed out, and so must not be in the log
}

// Register offers it on the session.
func (l *logins) Register(s *grpc.Server) { auth.RegisterAuthServer(s, l) }

// Credentials answers the login for a registry; an empty one where the build has
// none.
func (l *logins) Credentials(ctx context.Context, req *auth.CredentialsRequest) (*auth.CredentialsResponse, error) {
	user, password, err := l.of(ctx, req.GetHost())
	if err != nil {
		return nil, err
	}
	return &auth.CredentialsResponse{Username: user, Secret: password}, nil
}

// of asks the build room for a login.
func (l *logins) of(ctx context.Context, host string) (user, password string, err error) {
	if host == "registry-1.docker.io" { // where "docker.io" is reached
		host = "docker.io"
	}
	return l.ask(ctx, &buildv1.GetBuildCredentialsRequest{Ticket: l.ticket, Registry: host})
}

// ofSource asks for the login that the recipe's source is read with.
func (l *logins) ofSource(ctx context.Context, host string) (user, password string, err error) {
	return l.ask(ctx, &buildv1.GetBuildCredentialsRequest{Ticket: l.ticket, Registry: host, Source: true})
}

func (l *logins) ask(ctx context.Context, req *buildv1.GetBuildCredentialsRequest) (user, password string, err error) {
	r, err := l.patiently(ctx, req)
	if errors.Is(err, fault.NotFound) {
		return "", "", nil
	}
	if err != nil {
		return "", "", err
	}
	l.remember(r.GetUsername(), r.GetPassword())
	return r.GetUsername(), r.GetPassword(), nil
}

// patiently asks for as long as the build room is away: a build that has come far
// must not fail because that restarts.
func (l *logins) patiently(ctx context.Context, req *buildv1.GetBuildCredentialsRequest) (*buildv1.GetBuildCredentialsResponse, error) {
	for {
		r, err := l.work.GetBuildCredentials(ctx, req)
		if !away(err) || !pause(ctx, usualPace().retry) {
			return r, err
		}
	}
}

// remember notes a password as it may be printed by a careless tool.
func (l *logins) remember(user, password string) {
	if len(password) < 6 { // too short to be told from other text
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	basic := base64.StdEncoding.EncodeToString([]byte(user + ":" + password))
	l.secrets = append(l.secrets, password, basic)
}

// redact takes secrets out of a text.
func (l *logins) redact(text string) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, s := range l.secrets {
		text = strings.ReplaceAll(text, s, "[redacted]")
	}
	return text
}

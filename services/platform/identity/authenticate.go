package identity

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/limits"
	"slipway.dev/services/internal/ratelimit"
	"slipway.dev/services/internal/rpc"
	"slipway.dev/services/platform/api"
)

// Caller is who makes a call.
type Caller struct {
	// User is whose access token it is; the zero User in an operator's call.
	User    User
	TokenID int64 // of the token, or of the session
	// Operator is the account of an operator's call; "" in any other.
	Operator string
}

type callerKey struct{}

// WithCaller returns a context that carries c.
func WithCaller(ctx context.Context, c Caller) context.Context {
	return context.WithValue(ctx, callerKey{}, c)
}

// CallerFrom returns who makes the call; the zero Caller where nobody was let in.
func CallerFrom(ctx context.Context) Caller {
	c, _ := ctx.Value(callerKey{}).(Caller)
	return c
}

// Authenticate says who calls with an Authorization header, and counts the call
// against the token's limit. fault.Unauthenticated, fault.Exhausted.
func (s *Service) Authenticate(ctx context.Context, header string) (Caller, error) {
	secret, err := presented(header)
	if err != nil {
		return Caller{}, err
	}
	rec, err := s.authenticate(ctx, secret)
	if err != nil {
		return Caller{}, err
	}
	return Caller{User: rec.user, TokenID: rec.id}, s.charge(ctx, rec.id)
}

// Holder says whose access token it is. fault.Unauthenticated.
func (s *Service) Holder(ctx context.Context, secret string) (User, error) {
	rec, err := s.authenticate(ctx, secret)
	return rec.user, err
}

// presented is the token of an Authorization header: Bearer, or Basic with the
// user @token.
func presented(header string) (string, error) {
	scheme, value, _ := strings.Cut(header, " ")
	value = strings.TrimSpace(value)
	switch {
	case header == "":
		return "", fault.Unauthenticated.Newf("This call needs an access token: Authorization: Bearer <token>")
	case strings.EqualFold(scheme, "Bearer"):
		return value, nil
	case strings.EqualFold(scheme, "Basic"):
		raw, err := base64.StdEncoding.DecodeString(value)
		if name, password, ok := strings.Cut(string(raw), ":"); err == nil && ok && name == "@token" {
			return password, nil
		}
	}
	return "", refused(errors.New("the Authorization header is neither Bearer nor Basic with @token"))
}

// authenticate says whose token it is. What is wrong with one that is refused
// stays in the log.
func (s *Service) authenticate(ctx context.Context, secret string) (tokenRecord, error) {
	if isJWT(secret) {
		return s.authenticateJWT(ctx, secret)
	}
	t, err := parseToken(secret)
	if err != nil {
		return tokenRecord{}, refused(err)
	}
	rec, err := s.store.token(ctx, t.id)
	if err != nil && !errors.Is(err, fault.NotFound) {
		return tokenRecord{}, fmt.Errorf("reading token %d: %w", t.id, err)
	}
	// One that is unknown takes as long as one that is wrong.
	if ok := t.matches(rec.secretHash); err != nil || !ok {
		return tokenRecord{}, refused(errors.Join(errors.New("unknown or wrong"), err))
	}
	now := s.deps.Now()
	if !rec.expires.IsZero() && !now.Before(rec.expires) {
		return tokenRecord{}, refused(fmt.Errorf("token %d expired at %s", rec.id, rec.expires))
	}
	if now.Sub(rec.used) >= api.UsedEvery {
		if err := s.store.touchToken(ctx, rec.id, now); err != nil {
			return tokenRecord{}, fmt.Errorf("writing the last use of token %d: %w", rec.id, err)
		}
	}
	return rec, nil
}

func refused(cause error) error {
	return fault.Unauthenticated.New("The access token is not valid", cause)
}

// chargeSignIn counts a sign-in, which nobody needs a token for, against the client.
func (s *Service) chargeSignIn(ctx context.Context) error {
	if s.deps.Limiter == nil {
		return nil
	}
	limit := ratelimit.Limit{{Count: limits.SignIns, Window: limits.LoginWindow}}
	_, err := s.deps.Limiter.Charge(ctx, "sign-ins", rpc.CallFrom(ctx).Client(), limit, 1)
	return err
}

// chargeClient counts a call of nobody in particular against its client's address.
func (s *Service) chargeClient(ctx context.Context) error {
	if s.deps.Limiter == nil {
		return nil
	}
	_, err := s.deps.Limiter.Charge(ctx, "calls", rpc.CallFrom(ctx).Client(), s.deps.CallLimit, 1)
	return err
}

// charge counts a call against its token.
func (s *Service) charge(ctx context.Context, tokenID int64) error {
	if s.deps.Limiter == nil {
		return nil
	}
	_, err := s.deps.Limiter.Charge(ctx, "calls", "token:"+strconv.FormatInt(tokenID, 10), s.deps.CallLimit, 1)
	return err
}

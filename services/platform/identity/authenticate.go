package identity

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"slipway.dev/services/internal/fairshare"
	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/limits"
	"slipway.dev/services/internal/ratelimit"
	"slipway.dev/services/internal/rpc"
	"slipway.dev/services/platform/api"
)

// A Caller is the authenticated caller of an RPC: a user, a robot or an operator.
type Caller struct {
	// User is the owner of the access token; the zero User for an operator. The User of a robot
	// has only an id and a name.
	User User
	// RobotOrg is the organisation of a robot, which has no personal workspace; 0 for a user.
	RobotOrg int64
	TokenID  int64 // of the token, or of the session of a JWT
	// Restriction is the restriction of the token; zero for a session.
	Restriction Restriction
	// expires is when the token expires; zero for never, and for a session.
	expires time.Time
	// Operator is the operator's account; "" for a user.
	Operator string
}

type callerKey struct{}

// WithCaller returns a context that carries c.
func WithCaller(ctx context.Context, c Caller) context.Context {
	return context.WithValue(ctx, callerKey{}, c)
}

// CallerFrom returns the caller that ctx carries, or the zero Caller.
func CallerFrom(ctx context.Context) Caller {
	c, _ := ctx.Value(callerKey{}).(Caller)
	return c
}

// Authenticate returns the user that an Authorization header identifies, and charges the call
// to the user's limit. It returns fault.Unauthenticated for an invalid token and
// fault.Exhausted if the limit is reached.
func (s *Service) Authenticate(ctx context.Context, header string) (Caller, error) {
	secret, err := tokenFromHeader(header)
	if err != nil {
		return Caller{}, err
	}
	rec, err := s.authenticate(ctx, secret)
	if err != nil {
		return Caller{}, err
	}
	return rec.caller(), s.charge(ctx, rec.caller())
}

// TokenOwner returns the owner of an access token with the restriction of the token;
// fault.Unauthenticated if the token is invalid.
func (s *Service) TokenOwner(ctx context.Context, secret string) (Caller, error) {
	rec, err := s.authenticate(ctx, secret)
	return rec.caller(), err
}

// authenticateFull is authenticate for calls that give a program the rights of the user. It
// returns fault.Denied for a restricted token, because the program would get more rights than
// the token has.
func (s *Service) authenticateFull(ctx context.Context, secret string) (tokenRecord, error) {
	rec, err := s.authenticate(ctx, secret)
	if err == nil && !rec.restriction.IsZero() {
		err = errScope("A token with scopes, of one workspace or of some repositories cannot be used to sign in a program, which would get all permissions of the user; use a token without restrictions")
	}
	return rec, err
}

// tokenFromHeader returns the token of an Authorization header, which is Bearer, or Basic with
// the user name @token.
func tokenFromHeader(header string) (string, error) {
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
	return "", errInvalidToken(errors.New("the Authorization header is neither Bearer nor Basic with @token"))
}

// authenticate returns the record of a token with its owner. The reason for a rejection is
// only logged, never returned.
func (s *Service) authenticate(ctx context.Context, secret string) (tokenRecord, error) {
	if isJWT(secret) {
		return s.authenticateJWT(ctx, secret)
	}
	t, err := parseToken(secret)
	if err != nil {
		return tokenRecord{}, errInvalidToken(err)
	}
	rec, err := s.store.token(ctx, t.id)
	if errors.Is(err, fault.NotFound) {
		rec, err = s.store.robotToken(ctx, t.id)
	}
	if err != nil && !errors.Is(err, fault.NotFound) {
		return tokenRecord{}, fmt.Errorf("reading token %d: %w", t.id, err)
	}
	// The comparison also runs for an unknown id, so that the response time does not reveal
	// which ids exist.
	if ok := t.matches(rec.hash()); err != nil || !ok {
		return tokenRecord{}, errInvalidToken(errors.Join(errors.New("unknown or wrong"), err))
	}
	now := s.deps.Now()
	if !rec.expires.IsZero() && !now.Before(rec.expires) {
		return tokenRecord{}, errInvalidToken(fmt.Errorf("token %d expired at %s", rec.id, rec.expires))
	}
	if now.Sub(rec.used) >= api.LastUsedResolution {
		// A token stays valid if the time cannot be stored, for instance on a full disk.
		if err := s.store.touchToken(ctx, rec, now, rpc.CallFrom(ctx).ClientIP); err != nil {
			s.deps.Log.WarnContext(ctx, "The last use of an access token was not stored", "token_id", rec.id, "err", err)
		}
	}
	return rec, nil
}

// errInvalidToken returns the fault for an invalid access token.
func errInvalidToken(cause error) error {
	return fault.Unauthenticated.New("The access token is not valid", cause)
}

// chargeSignIn charges a sign-in, which needs no token, to the client's address.
func (s *Service) chargeSignIn(ctx context.Context) error {
	if s.deps.Limiter == nil {
		return nil
	}
	limit := ratelimit.Limit{{Count: limits.SignIns, Window: limits.LoginWindow}}
	_, err := s.deps.Limiter.Charge(ctx, "sign-ins", rpc.CallFrom(ctx).Client(), limit, 1)
	return err
}

// chargeClient charges an anonymous call to the client's address.
func (s *Service) chargeClient(ctx context.Context) error {
	if s.deps.Limiter == nil {
		return nil
	}
	_, err := s.deps.Limiter.ChargeClient(ctx, ratelimit.Calls, rpc.CallFrom(ctx).Address(), 1)
	return err
}

// charge charges a call to the user rather than the token, and to the organisation of a robot, so
// that more tokens or robots do not allow more calls.
func (s *Service) charge(ctx context.Context, c Caller) error {
	if s.deps.Limiter == nil {
		return nil
	}
	who := strconv.FormatInt(c.User.ID, 10)
	if c.RobotOrg != 0 {
		who = "organization/" + strconv.FormatInt(c.RobotOrg, 10)
	}
	_, err := s.deps.Limiter.ChargeClient(ctx, ratelimit.Calls, fairshare.User(who), 1)
	return err
}

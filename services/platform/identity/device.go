package identity

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"math/big"
	"strconv"
	"strings"
	"time"

	platformv1 "slipway.dev/proto/gen/slipway/platform/v1"

	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/limits"
	"slipway.dev/services/internal/ratelimit"
	"slipway.dev/services/internal/rpc"
	"slipway.dev/services/platform/api"
)

// DeviceGrant is the grant_type of a program that displayed a code (RFC 8628, 3.4).
const DeviceGrant = "urn:ietf:params:oauth:grant-type:device_code"

// devicePause is the minimum interval between two polls of a program. Each poll that comes too
// early lengthens the interval by the same amount (RFC 8628, 3.5).
const devicePause = 5 * time.Second

// userLetters are the letters of a user code: no vowels, so that they spell no word, and none
// that are easily confused (RFC 8628, 6.1).
const userLetters = "BCDFGHJKLMNPQRSTVWXZ"

// userCodeLength is the number of letters of a user code, which is about 34 bits.
// chargeUserCode limits the number of guesses.
const userCodeLength = 8

// BeginDeviceSignIn returns two codes to a program without a browser: a user code to display,
// and a device code to poll with.
func (s *Service) BeginDeviceSignIn(ctx context.Context, req *platformv1.BeginDeviceSignInRequest) (*platformv1.BeginDeviceSignInResponse, error) {
	if err := s.deps.Keys.Check(); err != nil {
		return nil, err
	}
	if req.GetClientId() == "" {
		return nil, fault.Invalid.Newf("client_id must be set to the name of the program")
	}
	if err := api.CheckLength("client_id", req.GetClientId(), 100); err != nil {
		return nil, err
	}
	if err := s.chargeSignIn(ctx); err != nil {
		return nil, err
	}
	if err := s.chargeDevice(ctx); err != nil {
		return nil, err
	}
	now, secret, userCode := s.deps.Now(), api.NewTextID(40), newUserCode()
	err := s.store.putDevice(ctx, device{
		hash: hashText(secret), userHash: hashText(userCode), clientID: req.GetClientId(), pause: devicePause, expires: now.Add(limits.DeviceLife),
	}, now)
	if err != nil {
		return nil, fmt.Errorf("writing a device: %w", err)
	}
	return &platformv1.BeginDeviceSignInResponse{
		DeviceCode: secret, UserCode: userCode[:userCodeLength/2] + "-" + userCode[userCodeLength/2:], VerificationUri: s.deps.Endpoint + "/oauth/device",
		ExpiresIn: int32(limits.DeviceLife / time.Second), Interval: int32(devicePause / time.Second),
	}, nil
}

// chargeDevice charges a device code to the client's address for the life of the code, so that
// a few clients cannot use up all device codes.
func (s *Service) chargeDevice(ctx context.Context) error {
	if s.deps.Limiter == nil {
		return nil
	}
	limit := ratelimit.Limit{{Count: limits.DevicesClient, Window: limits.DeviceLife}}
	_, err := s.deps.Limiter.Charge(ctx, "device codes", rpc.CallFrom(ctx).Client(), limit, 1)
	return err
}

func newUserCode() string {
	code := make([]byte, 0, userCodeLength)
	for len(code) < userCodeLength {
		n, _ := rand.Int(rand.Reader, big.NewInt(int64(len(userLetters)))) // never fails
		code = append(code, userLetters[n.Int64()])
	}
	return string(code)
}

// parseUserCode returns the canonical form of a code that a user entered, in any case and with
// spaces or dashes. It returns "" for an invalid code.
func parseUserCode(s string) string {
	if len(s) > 100 {
		return ""
	}
	s = strings.ToUpper(strings.NewReplacer("-", "", " ", "", "\t", "").Replace(s))
	if len(s) != userCodeLength || strings.Trim(s, userLetters) != "" {
		return ""
	}
	return s
}

// DescribeDevice returns the program that displays a code, and the consent code that
// GrantConsent requires if the user accepts the program.
func (s *Service) DescribeDevice(ctx context.Context, req *platformv1.DescribeDeviceRequest) (*platformv1.DescribeDeviceResponse, error) {
	if err := s.chargeClient(ctx); err != nil {
		return nil, err
	}
	by, err := s.identifyUser(ctx, req)
	if err != nil {
		return nil, err
	}
	if err := s.chargeUserCode(ctx, by.user.ID); err != nil {
		return nil, err
	}
	userCode := parseUserCode(req.GetUserCode())
	if userCode == "" {
		return nil, fault.Invalid.Newf("A code has %d letters, such as BDFG-HJKL; enter the code that the program displays", userCodeLength)
	}
	text, now := api.NewTextID(40), s.deps.Now()
	c, err := s.store.putConsent(ctx, by, code{
		kind: consentCode, hash: hashText(text), userID: by.user.ID, token: by.token, userHash: hashText(userCode), expires: now.Add(signInTTL),
	}, now)
	if errors.Is(err, fault.NotFound) {
		return nil, errNoDevice(err)
	}
	if err != nil {
		return nil, fmt.Errorf("writing a consent: %w", err)
	}
	return &platformv1.DescribeDeviceResponse{ClientId: c.clientID, UserName: by.user.Name, Consent: text}, nil
}

func errNoDevice(cause error) error {
	return fault.Invalid.New("No program is waiting with this code: a code works once, for "+strconv.Itoa(int(limits.DeviceLife.Minutes()))+" minutes; check the code, or begin again", cause)
}

// A browserUser is a user who has signed in with an access token or at the provider.
type browserUser struct {
	user  User
	token int64  // the access token; 0 if the user signed in at the provider
	code  []byte // hash of the sign-in code; nil if the user has an access token
}

// identifyUser returns the user who enters a code: the owner of an access token, or a user who
// has signed in at the provider.
func (s *Service) identifyUser(ctx context.Context, req *platformv1.DescribeDeviceRequest) (browserUser, error) {
	if req.GetConsent() != "" {
		p, err := s.store.signedIn(ctx, hashText(req.GetConsent()), s.deps.Now())
		if errors.Is(err, fault.NotFound) {
			return browserUser{}, fault.Unauthenticated.New("This sign-in is used or has expired; begin again", err)
		}
		return p, err
	}
	if isJWT(req.GetAccessToken()) { // a new session must not outlive the session of the JWT
		return browserUser{}, errSessionToken()
	}
	rec, err := s.authenticateFull(ctx, req.GetAccessToken())
	return browserUser{user: rec.user, token: rec.id}, err
}

// chargeUserCode charges the entry of a user code to the user, so that users cannot find codes
// by guessing.
func (s *Service) chargeUserCode(ctx context.Context, userID int64) error {
	if s.deps.Limiter == nil {
		return nil
	}
	limit := ratelimit.Limit{{Count: limits.DeviceTries, Window: limits.LoginWindow}}
	_, err := s.deps.Limiter.Charge(ctx, "codes", "user:"+strconv.FormatInt(userID, 10), limit, 1)
	return err
}

// redeemDevice begins a session for a program whose user code has been entered. Otherwise the
// fault has the error code of RFC 8628, 3.5, under the metadata key "oauth".
func (s *Service) redeemDevice(ctx context.Context, req *platformv1.IssueTokensRequest) (session, token, error) {
	hash, now := hashText(req.GetDeviceCode()), s.deps.Now()
	d, err := s.store.pollDevice(ctx, hash, req.GetClientId(), now)
	switch {
	case err == nil && d.early:
		return session{}, token{}, oauthError("slow_down", fmt.Sprintf("Polled too early; poll every %d seconds", int(d.pause.Seconds())))
	case err == nil && now.Before(d.expires):
		return session{}, token{}, oauthError("authorization_pending", "The code has not been entered yet; poll again")
	case err != nil && !errors.Is(err, fault.NotFound):
		return session{}, token{}, fmt.Errorf("reading a device: %w", err)
	}
	v, t, err := s.beginSession(ctx, deviceCode, req.GetDeviceCode(), req.GetClientId(), func(c code) bool { return now.Before(c.expires) })
	if errors.Is(err, fault.NotFound) {
		err = oauthError("expired_token", "The device code is invalid or has expired; begin again")
	}
	return v, t, err
}

// oauthError returns fault.Invalid with an OAuth error code.
func oauthError(oauth, public string) error {
	e := fault.Invalid.New(public, nil)
	e.Meta = map[string]string{"oauth": oauth}
	return e
}

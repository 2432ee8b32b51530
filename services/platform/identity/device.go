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

// DeviceGrant is the grant_type of a program that showed a code (RFC 8628, 3.4).
const DeviceGrant = "urn:ietf:params:oauth:grant-type:device_code"

// devicePause is how long a program waits between two questions, and how much
// longer after each that came too early (RFC 8628, 3.5).
const devicePause = 5 * time.Second

// userLetters spell no word, and none looks like another (RFC 8628, 6.1).
const userLetters = "BCDFGHJKLMNPQRSTVWXZ"

// userCodeLength is in letters; 34 bits, of which a person may try few.
const userCodeLength = 8

// BeginDeviceSignIn gives a program without a browser a code to show, and one to wait
// with.
func (s *Service) BeginDeviceSignIn(ctx context.Context, req *platformv1.BeginDeviceSignInRequest) (*platformv1.BeginDeviceSignInResponse, error) {
	if err := s.deps.Keys.Check(); err != nil {
		return nil, err
	}
	if req.GetClientId() == "" {
		return nil, fault.Invalid.Newf("client_id must be given: what the program calls itself")
	}
	if err := api.Within("client_id", req.GetClientId(), 100); err != nil {
		return nil, err
	}
	if err := s.chargeSignIn(ctx); err != nil {
		return nil, err
	}
	if err := s.chargeDevice(ctx); err != nil {
		return nil, err
	}
	now, secret, shown := s.deps.Now(), api.NewTextID(40), newUserCode()
	err := s.store.putDevice(ctx, device{
		hash: hashText(secret), userHash: hashText(shown), clientID: req.GetClientId(), pause: devicePause, expires: now.Add(limits.DeviceLife),
	}, now)
	if err != nil {
		return nil, fmt.Errorf("writing a device: %w", err)
	}
	return &platformv1.BeginDeviceSignInResponse{
		DeviceCode: secret, UserCode: shown[:userCodeLength/2] + "-" + shown[userCodeLength/2:], VerificationUri: s.deps.Endpoint + "/oauth/device",
		ExpiresIn: int32(limits.DeviceLife / time.Second), Interval: int32(devicePause / time.Second),
	}, nil
}

// chargeDevice counts a code against the client for as long as it waits: few hold all that
// may.
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

// userCode reads a code as people write it; "" is none.
func userCode(s string) string {
	if len(s) > 100 {
		return ""
	}
	s = strings.ToUpper(strings.NewReplacer("-", "", " ", "", "\t", "").Replace(s))
	if len(s) != userCodeLength || strings.Trim(s, userLetters) != "" {
		return ""
	}
	return s
}

// AllowDevice lets the program in that showed a code.
func (s *Service) AllowDevice(ctx context.Context, req *platformv1.AllowDeviceRequest) (*platformv1.AllowDeviceResponse, error) {
	if err := s.chargeClient(ctx); err != nil {
		return nil, err
	}
	by, err := s.consenting(ctx, req)
	if err != nil {
		return nil, err
	}
	if err := s.chargeUserCode(ctx, by.user.ID); err != nil {
		return nil, err
	}
	shown := userCode(req.GetUserCode())
	if shown == "" {
		return nil, fault.Invalid.Newf("A code has %d letters, such as BDFG-HJKL; enter the one that the program shows", userCodeLength)
	}
	d, err := s.store.allowDevice(ctx, hashText(shown), by, s.deps.Now())
	if errors.Is(err, fault.NotFound) {
		return nil, fault.Invalid.New("No program waits with this code: it works once, for "+strconv.Itoa(int(limits.DeviceLife.Minutes()))+" minutes; look at it again, or begin again", err)
	}
	if err != nil {
		return nil, fmt.Errorf("writing a consent: %w", err)
	}
	return &platformv1.AllowDeviceResponse{ClientId: d.clientID}, nil
}

// consent is who says yes, and with what.
type consent struct {
	user  User
	token int64  // see session
	hash  []byte // of what ends with it; nil for an access token, which stays
}

// consenting says who lets a program in: whose access token it is, or who has come
// back from the provider.
func (s *Service) consenting(ctx context.Context, req *platformv1.AllowDeviceRequest) (consent, error) {
	if req.GetConsent() != "" {
		c, err := s.store.consent(ctx, hashText(req.GetConsent()), s.deps.Now())
		if errors.Is(err, fault.NotFound) {
			return consent{}, fault.Unauthenticated.New("This sign-in is over: begin again", err)
		}
		return c, err
	}
	if isJWT(req.GetAccessToken()) { // nothing that a session begets may outlive it
		return consent{}, notOwn()
	}
	rec, err := s.authenticate(ctx, req.GetAccessToken())
	return consent{user: rec.user, token: rec.id}, err
}

// chargeUserCode counts a code that somebody enters: nobody finds another's by trying.
func (s *Service) chargeUserCode(ctx context.Context, userID int64) error {
	if s.deps.Limiter == nil {
		return nil
	}
	limit := ratelimit.Limit{{Count: limits.DeviceTries, Window: limits.LoginWindow}}
	_, err := s.deps.Limiter.Charge(ctx, "codes", "user:"+strconv.FormatInt(userID, 10), limit, 1)
	return err
}

// redeemDevice begins a session for a program whose code was entered. One that has to
// wait is told so in the words of RFC 8628, 3.5, under "oauth".
func (s *Service) redeemDevice(ctx context.Context, req *platformv1.IssueTokensRequest) (session, token, error) {
	hash, now := hashText(req.GetDeviceCode()), s.deps.Now()
	d, err := s.store.askDevice(ctx, hash, req.GetClientId(), now)
	switch {
	case err == nil && d.early:
		return session{}, token{}, waits("slow_down", fmt.Sprintf("That was too early: ask every %d seconds", int(d.pause.Seconds())))
	case err == nil && now.Before(d.expires):
		return session{}, token{}, waits("authorization_pending", "Nobody has entered the code yet; ask again")
	case err != nil && !errors.Is(err, fault.NotFound):
		return session{}, token{}, fmt.Errorf("reading a device: %w", err)
	}
	c, err := s.store.takeGrant(ctx, hash, req.GetClientId(), now)
	if errors.Is(err, fault.NotFound) {
		return session{}, token{}, waits("expired_token", "The device code is not valid, or no more: begin again")
	}
	if err != nil {
		return session{}, token{}, fmt.Errorf("reading a consent: %w", err)
	}
	return s.begin(ctx, c)
}

func waits(oauth, public string) error {
	e := fault.Invalid.New(public, nil)
	e.Meta = map[string]string{"oauth": oauth}
	return e
}

// consentOf makes what stands for a person who came back from the provider, until they
// have entered a code.
func (s *Service) consentOf(ctx context.Context, u User) (string, error) {
	text, now := api.NewTextID(40), s.deps.Now()
	c := code{hash: hashText(text), userID: u.ID, challenge: consentCode, expires: now.Add(signInTTL)}
	if err := s.store.putCode(ctx, c, now); err != nil {
		return "", fmt.Errorf("writing a consent: %w", err)
	}
	return text, nil
}

package platform_test

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	platformv1 "slipway.dev/proto/gen/slipway/platform/v1"

	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/limits"
	"slipway.dev/services/internal/ratelimit"
	"slipway.dev/services/internal/rpc"
	"slipway.dev/services/internal/sqldb"
	"slipway.dev/services/internal/testkit"
	"slipway.dev/services/platform/identity"
)

// device begins a sign-in for a program that displays a code.
func (w *world) device() *platformv1.BeginDeviceSignInResponse {
	w.t.Helper()
	return must(w.client.BeginDeviceSignIn(w.t.Context(), &platformv1.BeginDeviceSignInRequest{ClientId: "cli"}))(w.t)
}

// poll requests a device's tokens after some time, and returns the OAuth error code.
func (w *world) poll(d *platformv1.BeginDeviceSignInResponse, after time.Duration) (token, code string, err error) {
	w.t.Helper()
	w.clock.now = w.clock.now.Add(after)
	resp, err := w.client.IssueTokens(w.t.Context(), &platformv1.IssueTokensRequest{
		GrantType: identity.DeviceGrant, DeviceCode: d.GetDeviceCode(), ClientId: "cli",
	})
	if f, ok := fault.As(err); ok {
		code = f.Meta["oauth"]
	}
	return resp.GetAccessToken(), code, err
}

// allow enters a code and consents to its program.
func (w *world) allow(code, token string) error {
	return w.enter(&platformv1.DescribeDeviceRequest{UserCode: code, AccessToken: token})
}

func (w *world) enter(req *platformv1.DescribeDeviceRequest) error {
	asked, err := w.client.DescribeDevice(w.t.Context(), req)
	if err != nil {
		return err
	}
	_, err = w.grant(asked.GetConsent())
	return err
}

func (w *world) use(token string) error {
	_, err := w.client.GetUserInfo(bearer(w.t.Context(), token), &platformv1.GetUserInfoRequest{})
	return err
}

func TestDevice(t *testing.T) {
	t.Parallel()
	testkit.EachDatabase(t, func(t *testing.T, db *sqldb.DB) {
		w := newWorld(t, db)
		d, other := w.device(), w.device()
		if d.GetVerificationUri() != endpoint+"/oauth/device" || len(d.GetUserCode()) != 9 || d.GetUserCode() == other.GetUserCode() || d.GetInterval() != 5 || d.GetExpiresIn() != 900 {
			t.Fatalf("got %v", d)
		}
		for _, c := range []struct {
			after time.Duration
			told  string
		}{
			{0, "authorization_pending"},
			{5 * time.Second, "authorization_pending"},
			{4 * time.Second, "slow_down"}, // from now on 10 seconds
			{9 * time.Second, "slow_down"}, // 15
			{15 * time.Second, "authorization_pending"},
		} {
			if _, told, err := w.poll(d, c.after); told != c.told {
				t.Errorf("after %s: %q, %v; want %q", c.after, told, err, c.told)
			}
		}
		wantError(t, "the code as people write it", w.allow(" "+strings.ToLower(strings.Replace(d.GetUserCode(), "-", " ", 1)), w.tokens["view"]), nil)
		wantError(t, "the code again", w.allow(d.GetUserCode(), w.tokens["launch"]), fault.Invalid)

		_, err := w.issue(func(r *platformv1.IssueTokensRequest) {
			r.GrantType, r.DeviceCode, r.ClientId = identity.DeviceGrant, d.GetDeviceCode(), "other"
		})
		wantError(t, "another program", err, fault.Invalid)
		token, _, err := w.poll(d, 0)
		wantError(t, "the tokens", err, nil)
		wantError(t, "a call with them", w.use(token), nil)
		if _, told, _ := w.poll(d, time.Minute); told != "expired_token" {
			t.Errorf("the tokens again: %q", told)
		}
		wantError(t, "a call after the device code was used twice", w.use(token), fault.Unauthenticated)
		if _, told, _ := w.poll(other, 0); told != "authorization_pending" {
			t.Errorf("the other device: %q", told)
		}
		wantError(t, "the other code", w.allow(other.GetUserCode(), w.tokens["view"]), nil)
		token, _, err = w.poll(other, 0)
		wantError(t, "the other's tokens", err, nil)
		must(w.client.DeleteAllTokens(w.as("view"), &platformv1.DeleteAllTokensRequest{}))(t)
		wantError(t, "after all were revoked", w.use(token), fault.Unauthenticated)
	})
}

// TestDeviceRefused checks that a device gets no tokens with a wrong code, too late, or for a
// user who has been disabled in the meantime.
func TestDeviceRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t, testkit.SQLite(t))
	d := w.device()
	for name, c := range map[string]struct {
		code, token string
		kind        error
	}{
		"no code":       {"", w.tokens["view"], fault.Invalid},
		"a wrong code":  {"BBBB-BBBB", w.tokens["view"], fault.Invalid},
		"no letters":    {"1234-5678", w.tokens["view"], fault.Invalid},
		"a long code":   {strings.Repeat("B", 5000), w.tokens["view"], fault.Invalid},
		"no token":      {d.GetUserCode(), "", fault.Unauthenticated},
		"a wrong token": {d.GetUserCode(), "nonsense", fault.Unauthenticated},
	} {
		wantError(t, name, w.allow(c.code, c.token), c.kind)
	}
	code := w.code("view")
	session := must(w.issue(func(r *platformv1.IssueTokensRequest) { r.Code = code }))(t)
	wantError(t, "a session's token", w.allow(d.GetUserCode(), session.GetAccessToken()), fault.Unauthenticated)
	wantError(t, "no sign-in", w.enter(&platformv1.DescribeDeviceRequest{UserCode: d.GetUserCode(), Consent: code}), fault.Unauthenticated)
	_, err := w.client.BeginDeviceSignIn(t.Context(), &platformv1.BeginDeviceSignInRequest{})
	wantError(t, "no client_id", err, fault.Invalid)

	wantError(t, "the right code", w.allow(d.GetUserCode(), w.tokens["view"]), nil)
	_, err = w.issue(func(r *platformv1.IssueTokensRequest) { r.Code, r.RedirectUri = d.GetDeviceCode(), "" })
	wantError(t, "a device code as an authorization code", err, fault.Invalid)

	d = w.device()
	wantError(t, "another device", w.allow(d.GetUserCode(), w.tokens["view"]), nil)
	wantError(t, "disabling", w.service.DisableUser(t.Context(), "view"), nil)
	if _, told, _ := w.poll(d, 0); told != "expired_token" {
		t.Errorf("a disabled user's device: %q", told)
	}
	d = w.device()
	w.clock.now = w.clock.now.Add(limits.DeviceLife)
	wantError(t, "a late code", w.allow(d.GetUserCode(), w.tokens["launch"]), fault.Invalid)
	if _, told, _ := w.poll(d, 0); told != "expired_token" {
		t.Errorf("a late poll: %q", told)
	}
	wantError(t, "sweeping", w.service.Sweep(t.Context()), nil)
	if _, told, _ := w.poll(d, 0); told != "expired_token" {
		t.Errorf("after sweeping: %q", told)
	}
}

// TestDeviceAtAProvider checks that a user who has signed in at the provider can consent to one
// device.
func TestDeviceAtAProvider(t *testing.T) {
	t.Parallel()
	testkit.EachDatabase(t, func(t *testing.T, db *sqldb.DB) {
		i := testkit.NewIssuer(t)
		w := oidcWorld(t, db, i)
		consent := func() *platformv1.FinishSignInResponse {
			state := w.arriveFor(i, nil, nil)
			return must(w.client.FinishSignIn(t.Context(), &platformv1.FinishSignInRequest{State: state, Code: "good"}))(t)
		}
		came := consent()
		if came.GetUserName() != "view" || came.GetConsent() == "" || came.GetRedirectUri() != "" {
			t.Fatalf("came back with %v", came)
		}
		d := w.device()
		allow := func(code string) error {
			return w.enter(&platformv1.DescribeDeviceRequest{UserCode: code, Consent: came.GetConsent()})
		}
		wantError(t, "mistyped", allow("BBBB-BBBB"), fault.Invalid)
		wantError(t, "typed again", allow(d.GetUserCode()), nil)
		wantError(t, "the consent again", allow(w.device().GetUserCode()), fault.Unauthenticated)
		token, _, err := w.poll(d, 0)
		wantError(t, "the tokens", err, nil)
		wantError(t, "a call with them", w.use(token), nil)

		came = consent()
		_, err = w.issue(func(r *platformv1.IssueTokensRequest) { r.Code, r.RedirectUri, r.ClientId = came.GetConsent(), "", "" })
		wantError(t, "a consent as an authorization code", err, fault.Invalid)
		came = consent()
		w.clock.now = w.clock.now.Add(10 * time.Minute)
		wantError(t, "a late consent", allow(w.device().GetUserCode()), fault.Unauthenticated)
	})
}

// TestDevicesOfOneClient checks the limits for device codes per client and for guesses per user.
func TestDevicesOfOneClient(t *testing.T) {
	t.Parallel()
	c, d := january(), deps(t, testkit.SQLite(t))
	d.Limiter = ratelimit.New(testkit.Redis(t), prometheus.NewRegistry(), testkit.Log(t))
	limitCalls(d, 1000, time.Minute)
	d.Now = c.Now
	w := newWorldWith(t, d, c)
	begin := func(client string) error {
		ctx := rpc.WithCall(t.Context(), rpc.Call{ClientIP: netip.MustParseAddr(client)})
		_, err := w.client.BeginDeviceSignIn(ctx, &platformv1.BeginDeviceSignInRequest{ClientId: "cli"})
		return err
	}
	for n := range limits.DevicesClient {
		wantError(t, "a device", begin("192.0.2.1"), nil)
		if t.Failed() {
			t.Fatalf("device %d", n)
		}
	}
	err := begin("192.0.2.1")
	wantError(t, "one more", err, fault.Exhausted)
	if e, ok := fault.As(err); !ok || e.RetryAfter <= limits.LoginWindow {
		t.Errorf("one more code: got %v, want a delay of the life of the codes", err)
	}
	wantError(t, "another client's", begin("192.0.2.2"), nil)
	for range limits.DeviceTries {
		wantError(t, "a try", w.allow("BBBB-BBBB", w.tokens["view"]), fault.Invalid)
	}
	wantError(t, "one more", w.allow("BBBB-BBBB", w.tokens["view"]), fault.Exhausted)
	wantError(t, "somebody else", w.allow("BBBB-BBBB", w.tokens["launch"]), fault.Invalid)
}

// TestTooManyDevices checks the limit for waiting devices of all clients.
func TestTooManyDevices(t *testing.T) {
	t.Parallel()
	db := testkit.SQLite(t)
	w := newWorld(t, db)
	_, err := db.ExecContext(t.Context(), `
		WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < $1)
		INSERT INTO platform_devices (device_hash, user_hash, client_id, pause, expires_at)
		SELECT CAST(i AS text), CAST(i AS text), 'cli', 5, $2 FROM n`, limits.DevicesWaiting, sqldb.Micros(w.clock.now.Add(time.Minute)))
	wantError(t, "filling the table", err, nil)
	_, err = w.client.BeginDeviceSignIn(t.Context(), &platformv1.BeginDeviceSignInRequest{ClientId: "cli"})
	wantError(t, "one more", err, fault.Unavailable)
	w.clock.now = w.clock.now.Add(time.Minute)
	w.device()
}

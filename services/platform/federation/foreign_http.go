package federation

import (
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"slipway.dev/services/internal/bounded"
	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/limits"
	"slipway.dev/services/internal/oci"
	"slipway.dev/services/internal/retry"
	"slipway.dev/services/internal/upstream"
)

// tries is how often a question is put that gets no answer.
const tries = 3

// patience is how long a platform that has too many requests may have us wait: the
// client waits for its name meanwhile. Longer is said to the client.
const patience = 3 * time.Second

// answerShape bounds the JSON of another platform.
func answerShape() bounded.Shape { return bounded.Shape{Depth: 32, Values: limits.PlatformValues} }

// errStale is an access token that may be refreshed: the platform answered 401.
var errStale = fault.Unauthenticated.Newf("The access token has expired")

func inWorkspace(id int64) url.Values {
	if id == 0 {
		return nil
	}
	return url.Values{"workspaceId": {strconv.FormatInt(id, 10)}}
}

// get asks with an access token, again where the platform is busy for a moment. fault.Unauthenticated when it is refused,
// fault.Invalid when the address may not be reached, fault.Unavailable and
// fault.Timeout when there is no answer.
func (f *Service) get(ctx context.Context, endpoint, path, access string, q url.Values, answer any) error {
	for n := 1; ; n++ {
		err := f.ask(ctx, request{method: http.MethodGet, endpoint: endpoint, path: path, query: q, authorization: "Bearer " + access}, answer)
		if n == tries || !errors.Is(err, fault.Unavailable) {
			return err
		}
		pause := time.Duration(n) * 100 * time.Millisecond
		if busy := (*busyError)(nil); errors.As(err, &busy) {
			pause = max(pause, busy.after)
		}
		if pause > patience || !retry.Sleep(ctx, pause) {
			return err
		}
	}
}

// The cookies in which some platforms answer a refresh, and nothing in the body.
const (
	accessCookie  = "JWT"
	refreshCookie = "JWT_REFRESH_TOKEN"
)

// refresh trades a refresh token, which works once: it is never tried again. What comes
// of it is in the body, as OAuth has it, or in cookies. fault.Unauthenticated when it is
// refused: the client has to sign in anew.
func (f *Service) refresh(ctx context.Context, g *delegatedToken) error {
	form := url.Values{"grant_type": {"refresh_token"}, "refresh_token": {g.Refresh}}
	got, err := f.send(ctx, request{
		method: http.MethodPost, endpoint: g.endpoint, path: "/oauth/access_token",
		kind: "application/x-www-form-urlencoded", body: []byte(form.Encode()),
	})
	if err != nil {
		return err
	}
	switch got.status {
	case http.StatusOK, http.StatusNoContent:
	case http.StatusBadRequest, http.StatusUnauthorized, http.StatusForbidden: // RFC 6749, section 5.2
		return fault.Unauthenticated.New("The platform "+g.endpoint+" does not refresh the access token; sign in there again", got.problem())
	default:
		return odd(g.endpoint, got.problem())
	}
	var tokens struct {
		Access  string `json:"access_token"`
		Refresh string `json:"refresh_token"`
	}
	if len(bytes.TrimSpace(got.body)) > 0 {
		if err := answerShape().Decode(got.body, &tokens); err != nil {
			return odd(g.endpoint, errors.New("a refresh does not answer JSON of the kind")) // it may hold a secret
		}
	}
	access := cmp.Or(tokens.Access, got.cookie(accessCookie))
	if access == "" {
		return odd(g.endpoint, errors.New("a refresh brings no access token"))
	}
	g.tokenPair = tokenPair{Access: access, Refresh: cmp.Or(tokens.Refresh, got.cookie(refreshCookie), g.Refresh)}
	return nil
}

// pair tells a platform our public key.
func (f *Service) pair(ctx context.Context, endpoint string, publicKey []byte) (id string, expires time.Time, err error) {
	_, address, _ := strings.Cut(endpoint, "://")
	_, operator, ok := oci.LongestPrefix(address, f.Operators)
	if !ok {
		return "", expires, fault.Unsupported.Newf("This service has no operator account at the platform %s (setting platform_auth_file), so it can read no credentials there", endpoint)
	}
	body, err := json.Marshal(map[string]string{"publicKey": base64.StdEncoding.EncodeToString(publicKey)})
	if err != nil {
		return "", expires, err
	}
	var answer struct {
		PairingID string    `json:"pairingId"`
		Expires   time.Time `json:"expires"`
	}
	err = f.ask(ctx, request{
		method: http.MethodPost, endpoint: endpoint, path: "/pairing", authorization: basic(operator), kind: "application/json", body: body,
	}, &answer)
	if errors.Is(err, fault.Unauthenticated) {
		err = fault.Unsupported.New("The platform "+endpoint+" refuses this service's operator account (setting platform_auth_file)", err)
	}
	return answer.PairingID, answer.Expires, err
}

func basic(l upstream.Login) string {
	return "Basic " + base64.StdEncoding.EncodeToString([]byte(l.Username+":"+l.Password))
}

// request is one request to another platform.
type request struct {
	method, endpoint, path string
	query                  url.Values
	authorization          string
	kind                   string // of body
	body                   []byte
}

// reply is what another platform answered, of any status.
type reply struct {
	path    string
	status  int
	after   time.Duration // Retry-After; 0 without one
	body    []byte
	cookies []*http.Cookie
}

func (r reply) cookie(name string) string {
	for _, c := range r.cookies {
		if c.Name == name {
			return c.Value
		}
	}
	return ""
}

func (r reply) problem() error {
	return fmt.Errorf("%s answers %d with %d bytes", r.path, r.status, len(r.body))
}

// ask sends a request, and reads the JSON of a success into answer.
func (f *Service) ask(ctx context.Context, q request, answer any) error {
	got, err := f.send(ctx, q)
	switch {
	case err != nil:
		return err
	case got.status == http.StatusUnauthorized:
		return errStale
	case got.status == http.StatusForbidden:
		return fault.Unauthenticated.New("The platform "+q.endpoint+" refuses the access token, or what is asked for", got.problem())
	case got.status == http.StatusTooManyRequests:
		return fault.Unavailable.New("The platform "+q.endpoint+" has too many requests of this user just now; try again", &busyError{got.after}).
			After(max(got.after, time.Second))
	case got.status != http.StatusOK:
		return odd(q.endpoint, got.problem())
	}
	if err := answerShape().Decode(got.body, answer); err != nil {
		return odd(q.endpoint, fmt.Errorf("%s does not answer JSON of the kind", q.path)) // it may hold a secret
	}
	return nil
}

// send sends a request, and reads what is answered.
func (f *Service) send(ctx context.Context, q request) (reply, error) {
	req, err := http.NewRequestWithContext(ctx, q.method, q.endpoint+q.path+"?"+q.query.Encode(), bytes.NewReader(q.body))
	if err != nil {
		return reply{}, odd(q.endpoint, err)
	}
	req.Header.Set("Accept", "application/json")
	for name, v := range map[string]string{"Authorization": q.authorization, "Content-Type": q.kind} {
		if v != "" {
			req.Header.Set(name, v)
		}
	}
	resp, err := f.client.Do(req)
	if err != nil {
		return reply{}, unreached(ctx, q.endpoint, err)
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(io.LimitReader(resp.Body, limits.PlatformAnswer+1))
	if err != nil {
		return reply{}, unreached(ctx, q.endpoint, err)
	}
	out := reply{path: q.path, status: resp.StatusCode, after: upstream.RetryAfter(resp), body: raw, cookies: resp.Cookies()}
	if len(raw) > limits.PlatformAnswer {
		return reply{}, odd(q.endpoint, out.problem())
	}
	return out, nil
}

// busyError is a platform's 429.
type busyError struct{ after time.Duration }

func (e *busyError) Error() string {
	return fmt.Sprintf("it answers 429, and to try again in %s", e.after)
}

// unreached says why there is no answer. What the egress rules say stands.
func unreached(ctx context.Context, endpoint string, err error) error {
	var refused *fault.Error
	switch {
	case errors.As(err, &refused):
		return refused
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return fault.Timeout.New("The platform "+endpoint+" did not answer in time", err)
	case ctx.Err() != nil:
		return ctx.Err()
	}
	return fault.Unavailable.New("The platform "+endpoint+" cannot be reached; try again", err).After(2 * time.Second)
}

// odd is an answer that nobody can make use of.
func odd(endpoint string, cause error) error {
	return fault.Unavailable.New("The platform "+endpoint+" does not answer as it should; try again", cause).After(5 * time.Second)
}

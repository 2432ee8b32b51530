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

// maxAttempts is the number of attempts for a request that fails with fault.Unavailable.
const maxAttempts = 3

// maxRetryDelay is the longest Retry-After that get waits for, since a client is waiting for
// its image name. A longer one is returned to the client.
const maxRetryDelay = 3 * time.Second

// responseLimits returns the limits for JSON from another platform.
func responseLimits() bounded.Limits { return bounded.Limits{Depth: 32, Values: limits.PlatformValues} }

// errExpired is returned for status 401: refreshing the access token may help.
var errExpired = fault.Unauthenticated.Newf("The access token has expired")

// workspaceQuery returns the query parameters for a workspace; nil for the personal one.
func workspaceQuery(id int64) url.Values {
	if id == 0 {
		return nil
	}
	return url.Values{"workspaceId": {strconv.FormatInt(id, 10)}}
}

// get sends a GET request with an access token and decodes the JSON response into result. It
// retries if the platform is unavailable. It returns fault.Unauthenticated if the platform
// refuses the token, fault.Invalid if the egress rules deny the address, and
// fault.Unavailable or fault.Timeout if there is no usable response.
func (f *Service) get(ctx context.Context, endpoint, path, access string, q url.Values, result any) error {
	for n := 1; ; n++ {
		err := f.call(ctx, request{method: http.MethodGet, endpoint: endpoint, path: path, query: q, authorization: "Bearer " + access}, result)
		if n == maxAttempts || !errors.Is(err, fault.Unavailable) {
			return err
		}
		pause := time.Duration(n) * 100 * time.Millisecond
		if busy := (*busyError)(nil); errors.As(err, &busy) {
			pause = max(pause, busy.after)
		}
		if pause > maxRetryDelay || !retry.Sleep(ctx, pause) {
			return err
		}
	}
}

// Some platforms return refreshed tokens in these cookies. The body of such a response has no
// defined form.
const (
	accessCookie  = "JWT"
	refreshCookie = "JWT_REFRESH_TOKEN"
)

// refresh exchanges a refresh token for new tokens. A refresh token works once, so the request
// is never retried. The new tokens are in the body (OAuth 2.0) or in cookies. refresh returns
// fault.Unauthenticated if the token is refused: the user must sign in again.
func (f *Service) refresh(ctx context.Context, g *delegatedToken) error {
	form := url.Values{"grant_type": {"refresh_token"}, "refresh_token": {g.Refresh}}
	got, err := f.send(ctx, request{
		method: http.MethodPost, endpoint: g.endpoint, path: "/oauth/access_token",
		contentType: "application/x-www-form-urlencoded", body: []byte(form.Encode()),
	})
	if err != nil {
		return err
	}
	switch got.status {
	case http.StatusOK, http.StatusNoContent:
	case http.StatusBadRequest, http.StatusUnauthorized, http.StatusForbidden: // RFC 6749, section 5.2
		return fault.Unauthenticated.New("The platform "+g.endpoint+" does not refresh the access token; sign in there again", got.err())
	default:
		return badResponse(g.endpoint, got.err())
	}
	var tokens struct {
		Access  string `json:"access_token"`
		Refresh string `json:"refresh_token"`
	}
	// The error is discarded: its text may contain a secret.
	isJSON := len(bytes.TrimSpace(got.body)) > 0 && responseLimits().Decode(got.body, &tokens) == nil
	access := cmp.Or(tokens.Access, got.cookie(accessCookie))
	if access == "" {
		return badResponse(g.endpoint, fmt.Errorf("the refresh returned no access token (JSON: %t)", isJSON))
	}
	g.tokenPair = tokenPair{Access: access, Refresh: cmp.Or(tokens.Refresh, got.cookie(refreshCookie), g.Refresh)}
	return nil
}

// pair registers a public key with a platform. It returns fault.Unsupported if there is no
// valid operator account for the platform.
func (f *Service) pair(ctx context.Context, endpoint string, publicKey []byte) (id string, expires time.Time, err error) {
	_, address, _ := strings.Cut(endpoint, "://")
	_, operator, ok := oci.LongestPrefix(address, f.Operators)
	if !ok {
		return "", expires, fault.Unsupported.Newf("This service has no operator account at the platform %s (setting platform_auth_file), so it cannot read credentials there", endpoint)
	}
	body, err := json.Marshal(map[string]string{"publicKey": base64.StdEncoding.EncodeToString(publicKey)})
	if err != nil {
		return "", expires, err
	}
	var result struct {
		PairingID string    `json:"pairingId"`
		Expires   time.Time `json:"expires"`
	}
	err = f.call(ctx, request{
		method: http.MethodPost, endpoint: endpoint, path: "/pairing", authorization: basic(operator), contentType: "application/json", body: body,
	}, &result)
	if errors.Is(err, fault.Unauthenticated) {
		err = fault.Unsupported.New("The platform "+endpoint+" refuses this service's operator account (setting platform_auth_file)", err)
	}
	return result.PairingID, result.Expires, err
}

func basic(l upstream.Login) string {
	return "Basic " + base64.StdEncoding.EncodeToString([]byte(l.Username+":"+l.Password))
}

// A request is an HTTP request to another platform.
type request struct {
	method, endpoint, path string
	query                  url.Values
	authorization          string
	contentType            string // of body
	body                   []byte
}

// A response is an HTTP response from another platform, of any status.
type response struct {
	path    string
	status  int
	after   time.Duration // Retry-After; 0 without one
	body    []byte
	cookies []*http.Cookie
}

// cookie returns the value of a cookie; "" if it is missing.
func (r response) cookie(name string) string {
	for _, c := range r.cookies {
		if c.Name == name {
			return c.Value
		}
	}
	return ""
}

// err describes the response for the log, without its content.
func (r response) err() error {
	return fmt.Errorf("%s returned status %d with %d bytes", r.path, r.status, len(r.body))
}

// call sends a request and decodes the JSON of a successful response into result.
func (f *Service) call(ctx context.Context, q request, result any) error {
	got, err := f.send(ctx, q)
	switch {
	case err != nil:
		return err
	case got.status == http.StatusUnauthorized:
		return errExpired
	case got.status == http.StatusForbidden:
		return fault.Unauthenticated.New("The platform "+q.endpoint+" refuses the access token, or denies the request", got.err())
	case got.status == http.StatusTooManyRequests:
		return fault.Unavailable.New("The platform "+q.endpoint+" is receiving too many requests; try again", &busyError{got.after}).
			After(max(got.after, time.Second))
	case got.status != http.StatusOK:
		return badResponse(q.endpoint, got.err())
	}
	if err := responseLimits().Decode(got.body, result); err != nil {
		return badResponse(q.endpoint, fmt.Errorf("%s does not return the expected JSON", q.path)) // the cause may contain a secret
	}
	return nil
}

// send sends a request and returns the response, whose body it has read.
func (f *Service) send(ctx context.Context, q request) (response, error) {
	req, err := http.NewRequestWithContext(ctx, q.method, q.endpoint+q.path+"?"+q.query.Encode(), bytes.NewReader(q.body))
	if err != nil {
		return response{}, badResponse(q.endpoint, err)
	}
	req.Header.Set("Accept", "application/json")
	for name, v := range map[string]string{"Authorization": q.authorization, "Content-Type": q.contentType} {
		if v != "" {
			req.Header.Set(name, v)
		}
	}
	resp, err := f.client.Do(req)
	if err != nil {
		return response{}, unreachable(ctx, q.endpoint, err)
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(io.LimitReader(resp.Body, limits.PlatformAnswer+1))
	if err != nil {
		return response{}, unreachable(ctx, q.endpoint, err)
	}
	out := response{path: q.path, status: resp.StatusCode, after: upstream.RetryAfter(resp), body: raw, cookies: resp.Cookies()}
	if len(raw) > limits.PlatformAnswer {
		return response{}, badResponse(q.endpoint, out.err())
	}
	return out, nil
}

// A busyError represents status 429.
type busyError struct{ after time.Duration }

func (e *busyError) Error() string {
	return fmt.Sprintf("status 429 with Retry-After %s", e.after)
}

// unreachable returns the fault for a request without a response. Faults of the egress rules
// are returned as they are.
func unreachable(ctx context.Context, endpoint string, err error) error {
	var refused *fault.Error
	switch {
	case errors.As(err, &refused):
		return refused
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return fault.Timeout.New("The platform "+endpoint+" did not respond in time", err)
	case ctx.Err() != nil:
		return ctx.Err()
	}
	return fault.Unavailable.New("The platform "+endpoint+" cannot be reached; try again", err).After(2 * time.Second)
}

// badResponse returns the fault for an unusable response.
func badResponse(endpoint string, cause error) error {
	return fault.Unavailable.New("The platform "+endpoint+" returned an unexpected response; try again", cause).After(5 * time.Second)
}

package channel

import (
	"context"
	"io"
	"net/http"
	"net/url"
	"time"

	"slipway.dev/services/conda/spec"
	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/limits"
)

// documentWait is the timeout for fetching a document.
const documentWait = 20 * time.Second

// Document fetches a text file other than a package list, such as a lock, of at most
// limits.CondaFile bytes. It applies the egress rules of channels and sends no login. It
// returns fault.Invalid if the address is invalid or nothing is found there.
func (s *Store) Document(ctx context.Context, address string) (string, error) {
	u, err := url.Parse(address)
	if err != nil || !spec.IsWebURL(address) {
		return "", fault.Invalid.New("it must be an http(s) URL without a login", nil)
	}
	if u.Scheme == "http" && !s.mayBePlain(u.Host) {
		return "", fault.Invalid.Newf("%s must be reached by https, or be named by the operator (setting conda_channels)", u.Host)
	}
	ctx, cancel := context.WithTimeout(ctx, documentWait)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return "", fault.Invalid.New("it must be an http(s) URL without a login", nil)
	}
	req.Header.Set("User-Agent", "slipway")
	resp, err := s.http.Do(req)
	if err != nil {
		return "", unreachable(ctx, u.Host, err)
	}
	defer func() { _ = resp.Body.Close() }() // read only
	switch code := resp.StatusCode; {
	case code == http.StatusOK:
	case code == http.StatusTooManyRequests, code >= http.StatusInternalServerError:
		return "", fault.Unavailable.Newf("%s is unavailable (status %d); try again later", u.Host, code).After(max(retryAfter(resp.Header), 5*time.Second))
	default:
		return "", fault.Invalid.Newf("%s did not return it (status %d)", u.Host, code)
	}
	raw, err := io.ReadAll(io.LimitReader(resp.Body, limits.CondaFile+1))
	if err != nil {
		return "", unreachable(ctx, u.Host, err)
	}
	if len(raw) > limits.CondaFile {
		return "", fault.Invalid.Newf("it is longer than %d MiB", limits.CondaFile>>20)
	}
	return string(raw), nil
}

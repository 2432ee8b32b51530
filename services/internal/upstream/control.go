package upstream

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/regclient/regclient"
	"github.com/regclient/regclient/config"
	"github.com/regclient/regclient/scheme/reg"
	"github.com/regclient/regclient/types/errs"

	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/memo"
)

// A Control provides regclient clients for the control path: inspection and referrers. Each
// client is for one access to one registry. A Control is safe for concurrent use.
type Control struct {
	http  *http.Client
	plain map[string]bool
	docs  *Documents
	// pause is the minimum pause before a retry.
	pause   time.Duration
	clients *memo.Cache[controlKey, *regclient.RegClient]
}

type controlKey struct {
	host   string
	access Access
}

// NewControl returns a Control with the same options as a Client.
func NewControl(o Options) *Control {
	docs := cmp.Or(o.Documents, NewDocuments())
	c := &Control{
		http:  &http.Client{Transport: guard{withMirrors(o, NewTransport(o.Egress), docs), docs}, CheckRedirect: CheckRedirect},
		plain: map[string]bool{},
		docs:  docs,
		pause: 100 * time.Millisecond,
		clients: memo.NewCache(memo.Options[controlKey, *regclient.RegClient]{
			Most: 1_000,
			Idle: 10 * time.Minute,
		}),
	}
	for _, h := range o.Plain {
		c.plain[h] = true
	}
	return c
}

// Documents returns the memory budget of documents.
func (c *Control) Documents() *Documents { return c.docs }

// For returns the client for one access to one registry.
func (c *Control) For(a Access, host string) *regclient.RegClient {
	key := controlKey{host, a}
	if rc, ok := c.clients.Get(key); ok {
		return rc
	}
	rc := c.New(a, host)
	c.clients.Set(key, rc)
	return rc
}

// New returns a client that no other caller uses. With the shared client of For, a request can fail
// while another one asks for a token for another repository or for more rights.
func (c *Control) New(a Access, host string) *regclient.RegClient {
	h := config.HostNewName(host)
	h.User, h.Pass = a.Login.Username, a.Login.Password
	h.ReqConcurrent = 64
	if c.plain[host] {
		h.TLS = config.TLSDisabled
	}
	return regclient.New(
		regclient.WithConfigHost(*h),
		regclient.WithUserAgent("slipway"),
		regclient.WithSlog(slog.New(slog.DiscardHandler)),
		regclient.WithRegOpts(
			reg.WithHTTPClient(c.http), reg.WithCache(0, 0),
			// A host that does not respond is tried once more.
			reg.WithDelay(c.pause, 10*c.pause), reg.WithRetryLimit(2),
		),
	)
}

// ControlFault converts an error of regclient to a fault for the client that requested the
// image. It returns nil for nil.
func ControlFault(host string, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.As(err, new(*fault.Error)), errors.Is(err, context.Canceled):
		return err
	case errors.Is(err, errs.ErrNotFound):
		return (&statusError{host: host, code: http.StatusNotFound}).fault()
	case errors.Is(err, errs.ErrEmptyChallenge), errors.Is(err, errs.ErrInvalidChallenge), errors.Is(err, errs.ErrNoNewChallenge),
		errors.Is(err, errs.ErrNoLogin):
		return (&statusError{host: host, code: http.StatusUnauthorized}).fault()
	case errors.Is(err, errs.ErrHTTPUnauthorized):
		code := http.StatusUnauthorized
		if strings.Contains(err.Error(), "[http 403]") {
			code = http.StatusForbidden
		}
		return (&statusError{host: host, code: code}).fault()
	case errors.Is(err, errs.ErrHTTPRateLimit):
		return (&statusError{host: host, code: http.StatusTooManyRequests}).fault()
	case errors.Is(err, errs.ErrHTTPStatus):
		return fault.Unavailable.New("The registry "+host+" is unavailable", registryError{err}).After(5 * time.Second)
	}
	return unreachable(host, err)
}

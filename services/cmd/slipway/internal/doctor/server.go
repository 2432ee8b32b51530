package doctor

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	containerv1 "slipway.dev/proto/gen/slipway/container/v1"
	platformv1 "slipway.dev/proto/gen/slipway/platform/v1"
	"slipway.dev/services/cmd/slipway/internal/session"
)

// timeout is the timeout of one check of the server.
const timeout = 20 * time.Second

// insteadOfServer is what works without a server.
const insteadOfServer = "`slipway run --offline` runs what `slipway fetch` has fetched, and names of images in other registries work"

// An examination checks a server.
type examination struct {
	client  *session.Client
	version string // of this program
}

func (e examination) run(ctx context.Context) []finding {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	began := time.Now()
	theirs, err := e.reach(ctx)
	if err != nil {
		return []finding{{Check: "server", State: fail, Text: err.Error(), Do: "check --server, the network, and the proxy (HTTPS_PROXY)", Instead: insteadOfServer}}
	}
	out := []finding{{Check: "server", State: ok, Text: e.client.Base.Redacted() + " responds"}}
	return append(out, e.versions(ctx), e.login(ctx), clock(began, time.Now(), theirs))
}

// reach returns the time of the server; zero if it does not send one.
func (e examination) reach(ctx context.Context) (time.Time, error) {
	res, err := e.client.DoRaw(ctx, session.Call{Method: http.MethodGet, Path: "/service-info"}, nil)
	if err != nil {
		return time.Time{}, err
	}
	defer res.Body.Close()
	if _, err := io.CopyN(io.Discard, res.Body, 1<<20); err != nil && !errors.Is(err, io.EOF) {
		return time.Time{}, e.client.Unreachable(err)
	}
	if res.StatusCode != http.StatusOK {
		return time.Time{}, fmt.Errorf("%s responds with %s, and not as a Slipway server does", e.client.Base.Redacted(), res.Status)
	}
	at, err := http.ParseTime(res.Header.Get("Date"))
	if err != nil {
		return time.Time{}, nil // the server has no clock
	}
	return at, nil
}

// versions compares the version of the server with that of this program.
func (e examination) versions(ctx context.Context) finding {
	var res containerv1.ListAbilitiesResponse
	_, err := e.client.Do(ctx, session.Call{Method: http.MethodGet, Path: "/v1alpha1/abilities"}, &res)
	if err != nil {
		return finding{Check: "version", State: warn, Text: "the server does not report its version: " + err.Error(), Do: "check --server: a server of another kind lacks most commands"}
	}
	f := finding{Check: "version", State: ok, Text: fmt.Sprintf("this program is %s, the server %s", e.version, res.GetProductVersion())}
	if minor(e.version) != minor(res.GetProductVersion()) {
		f.State, f.Do = warn, "install the same version as the server's: a call or field that one of them lacks is rejected or ignored"
	}
	return f
}

// minor returns the first two numbers of a version.
func minor(version string) string {
	parts := strings.SplitN(version, ".", 3)
	return strings.Join(parts[:min(2, len(parts))], ".")
}

// login checks the access token.
func (e examination) login(ctx context.Context) finding {
	if e.client.Token == "" {
		return finding{Check: "login", State: ok, Text: "none: requests are anonymous"}
	}
	var res platformv1.GetUserInfoResponse
	if _, err := e.client.Do(ctx, session.Call{Method: http.MethodGet, Path: "/api/user-info", Signed: true}, &res); err != nil {
		return finding{Check: "login", State: fail, Text: "the server does not accept the access token: " + err.Error(), Do: "sign in again with `slipway login`, or correct SLIPWAY_TOKEN or --token-file"}
	}
	return finding{Check: "login", State: ok, Text: "signed in as " + res.GetUser().GetUserName()}
}

// skew is the maximum difference between clocks. Some tokens are valid for minutes only.
const skew = 30 * time.Second

// clock compares the clock of this machine with the time that the server sent between began and ended.
func clock(began, ended, theirs time.Time) finding {
	if theirs.IsZero() {
		return finding{Check: "clock", State: warn, Text: "the server sent no time to compare with"}
	}
	off := time.Duration(0)
	switch {
	case theirs.Before(began.Truncate(time.Second)):
		off = began.Sub(theirs)
	case theirs.After(ended):
		off = ended.Sub(theirs)
	}
	if off.Abs() > skew {
		return finding{Check: "clock", State: fail, Text: fmt.Sprintf("this machine's clock differs from the server's by %s", off.Round(time.Second)), Do: "synchronise it: `timedatectl set-ntp true`"}
	}
	return finding{Check: "clock", State: ok, Text: "it agrees with the server's"}
}

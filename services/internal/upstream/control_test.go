package upstream_test

import (
	"context"
	"errors"
	"net/http"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/regclient/regclient/types/ref"

	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/testkit"
	"slipway.dev/services/internal/upstream"
)

func newControl(t testing.TB, allow []string, plain ...string) *upstream.Control {
	t.Helper()
	return upstream.NewControl(upstream.Options{Egress: newEgress(t, allow...), Plain: plain, Metrics: prometheus.NewRegistry()})
}

// head requests the manifest of name with c and returns the result as a string.
func head(t testing.TB, c *upstream.Control, a upstream.Access, host, name string) (string, error) {
	t.Helper()
	r, err := ref.New(host + "/" + name)
	if err != nil {
		t.Fatal(err)
	}
	m, err := c.For(a, host).ManifestHead(t.Context(), r)
	if err != nil {
		return "", upstream.ControlFault(host, err)
	}
	return m.GetDescriptor().Digest.String(), nil
}

func TestControl(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name   string
		auth   testkit.Auth
		access upstream.Access
		image  string
		want   error
	}{
		{"open", testkit.Open, anonymous, "team/app:1", nil},
		{"basic", testkit.Basic, ada, "team/app:1", nil},
		{"bearer", testkit.Bearer, ada, "team/app:1", nil},
		{"missing", testkit.Open, anonymous, "team/app:2", fault.NotFound},
		{"basic, no login", testkit.Basic, anonymous, "team/app:1", fault.Unauthenticated},
		{"bearer, no login", testkit.Bearer, anonymous, "team/app:1", fault.Unauthenticated},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, tc.auth)
			got, err := head(t, newControl(t, []string{"127.0.0.1"}, w.Host), tc.access, w.Host, tc.image)
			if !errors.Is(err, tc.want) || err == nil && got != w.digest(t).String() {
				t.Errorf("got %s, %v; want %v", got, err, tc.want)
			}
		})
	}
}

func TestControlFaults(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name   string
		answer http.HandlerFunc
		want   error
	}{
		{"403", status(403, ""), fault.Denied},
		{"429, and no long wait", status(429, "3600"), fault.Exhausted},
		{"500", status(500, ""), fault.Unavailable},
		{"cut", cut, fault.Unavailable},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			_, repo := serve(t, tc.answer)
			if _, err := head(t, newControl(t, []string{"127.0.0.1"}, repo.Host), anonymous, repo.Host, "a:1"); !errors.Is(err, tc.want) {
				t.Errorf("got %v, want %v", err, tc.want)
			}
		})
	}
	if err := upstream.ControlFault("h", nil); err != nil {
		t.Errorf("ControlFault(host, nil) = %v", err)
	}
	if err := upstream.ControlFault("h", context.Canceled); !errors.Is(err, context.Canceled) {
		t.Errorf("a cancelled context became %v", err)
	}
}

func TestControlKeepsToTheEgressRules(t *testing.T) {
	t.Parallel()
	w := newWorld(t, testkit.Open)
	if _, err := head(t, newControl(t, nil, w.Host), anonymous, w.Host, "team/app:1"); !errors.Is(err, fault.Invalid) {
		t.Errorf("got %v, want fault.Invalid", err)
	}
	if got := w.Requests(); len(got) != 0 {
		t.Errorf("asked %v", got)
	}
}

func TestControlSeparatesAccesses(t *testing.T) {
	t.Parallel()
	w := newWorld(t, testkit.Bearer)
	c := newControl(t, []string{"127.0.0.1"}, w.Host)
	if _, err := head(t, c, ada, w.Host, "team/app:1"); err != nil {
		t.Fatal(err)
	}
	if _, err := head(t, c, anonymous, w.Host, "team/app:1"); !errors.Is(err, fault.Unauthenticated) {
		t.Errorf("an anonymous caller read an image of ada: %v", err)
	}
	first := c.For(ada, w.Host)
	if first != c.For(ada, w.Host) || first == c.For(anonymous, w.Host) || first == c.For(ada, "elsewhere") {
		t.Error("two accesses share a client")
	}
}

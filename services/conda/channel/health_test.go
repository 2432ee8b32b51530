package channel_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"slipway.dev/services/conda/channel"
)

// TestHealth checks that only the last refresh of an operator's channel determines the
// health, and that Health fetches nothing.
func TestHealth(t *testing.T) {
	t.Parallel()
	site := newWeb(t)
	reg := prometheus.NewRegistry()
	w := open(t, site, t.TempDir(), func(o *channel.Options) {
		names, err := channel.NewNames(site.URL, []string{"lab=" + site.URL + "/lab"})
		if err != nil {
			t.Fatal(err)
		}
		o.Names, o.Metrics = names, reg
	})
	failing := func(want string) {
		t.Helper()
		if err := testutil.GatherAndCompare(reg, strings.NewReader(want), "slipway_conda_refresh_failing"); err != nil {
			t.Error(err)
		}
	}
	const (
		help   = "# HELP slipway_conda_refresh_failing 1 if the last refresh of the package list failed, else 0; only for channels with names of their own, while they are used.\n# TYPE slipway_conda_refresh_failing gauge\n"
		series = `slipway_conda_refresh_failing{channel="lab",subdir="linux-64"} `
	)
	get := func(name string) {
		t.Helper()
		c, err := w.Resolve(name)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = w.Get(t.Context(), c, "linux-64", channel.Access{}) // only the resulting state matters
		w.settled()
	}

	if err := w.Health(); err != nil {
		t.Errorf("before the first request: %v", err)
	}
	failing("")
	site.answers(func(rw http.ResponseWriter, _ *http.Request) { rw.WriteHeader(http.StatusBadGateway) })
	get("another")
	if err := w.Health(); err != nil {
		t.Errorf("after the failure of a caller's channel: %v", err)
	}
	get("lab")
	site.paths()
	if err := w.Health(); err == nil || !strings.HasPrefix(err.Error(), "lab/linux-64: ") {
		t.Errorf("after a failure: %v", err)
	}
	failing(help + series + "1\n")
	if asked := site.paths(); len(asked) > 0 {
		t.Errorf("Health contacted the channel: %v", asked)
	}

	site.answers(nil)
	site.set("/lab/linux-64/repodata.json", repodata("1"))
	w.clock.forward(time.Hour)
	get("lab")
	if err := w.Health(); err != nil {
		t.Errorf("after a success: %v", err)
	}
	failing(help + series + "0\n")
	w.clock.forward(25 * time.Hour)
	failing("")
}

package channel_test

import (
	"net/http"
	"testing"
	"time"

	"slipway.dev/services/conda/channel"
	"slipway.dev/services/internal/upstream"
)

// TestRename adds a mirror to a channel that cannot be read, and then changes its address.
func TestRename(t *testing.T) {
	t.Parallel()
	site, mirror := newWeb(t), newWeb(t)
	site.answers(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadGateway) })
	mirror.set("/c/linux-64/repodata.json", repodata("1"))
	names := func(channels ...string) *channel.Names {
		t.Helper()
		n, err := channel.NewNames(site.URL, channels)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	old, moved := "c="+site.URL+"/c", "c="+mirror.URL+"/c"
	w := open(t, site, t.TempDir(), func(o *channel.Options) {
		egress, err := upstream.NewEgress([]string{"127.0.0.1"})
		if err != nil {
			t.Fatal(err)
		}
		o.Names, o.Client = names(old), channel.NewClient(upstream.NewTransport(egress))
	})
	if _, err := w.versions(t); err == nil || w.Health() == nil {
		t.Fatalf("without a mirror: %v, %v", err, w.Health())
	}
	w.Rename(names(old, moved))
	if got, err := w.versions(t); got != "1" || err != nil || w.Health() != nil {
		t.Errorf("with a mirror: %q, %v, %v", got, err, w.Health())
	}

	mirror.set("/c/linux-64/repodata.json", repodata("2"))
	w.Rename(names(moved))
	if got, err := w.versions(t); got != "2" || err != nil {
		t.Errorf("at its new address: %q, %v", got, err)
	}
	w.settled()
	named := 0
	for _, one := range w.Statuses() {
		if one.Channel != "" {
			named++
		}
	}
	if named != 1 {
		t.Errorf("%d lists are those of the channel: %+v", named, w.Statuses())
	}
	site.paths()
	w.clock.forward(2 * time.Hour) // all lists are due
	if _, err := w.versions(t); err != nil {
		t.Error(err)
	}
	w.settled()
	if asked := site.paths(); len(asked) > 0 {
		t.Errorf("the old address was contacted: %q", asked)
	}
}

package channel_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/gzip"
	"github.com/prometheus/client_golang/prometheus"

	"slipway.dev/services/conda/channel"
	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/limits"
	"slipway.dev/services/internal/testkit"
	"slipway.dev/services/internal/upstream"
)

// TestChannelInRegistry reads the list of a channel in a registry that requires a login, and refreshes it. An
// unchanged list is not fetched again, and the list is not shown to callers without the login.
func TestChannelInRegistry(t *testing.T) {
	t.Parallel()
	r := testkit.NewRegistry(t, testkit.Bearer)
	const zst, plain = "application/vnd.conda.repodata.v1+json+zst", "application/vnd.conda.repodata.v1+json"
	r.PushArtifact(t, "mirrors/lab/linux-64/repodata.json:latest", zst, string(compress(repodata("1"))))
	r.PushArtifact(t, "mirrors/lab/noarch/repodata.json:latest", plain, string(repodata("7")))
	w := openWithRegistry(t, r)
	c, err := w.Resolve("oci://" + r.Host + "/mirrors/lab/")
	if err != nil {
		t.Fatal(err)
	}
	ada := channel.Access{Scope: "u1", Username: testkit.User, Password: testkit.Password}
	url := func(subdir string) string {
		t.Helper()
		state, err := w.Get(t.Context(), c, subdir, ada)
		if err != nil || state.Failure != "" {
			t.Fatalf("%s: %v, %q", subdir, err, state.Failure)
		}
		if state.Index == nil {
			return ""
		}
		records, err := state.Index.Records("a")
		if err != nil || len(records) != 1 {
			t.Fatalf("%s: %+v, %v", subdir, records, err)
		}
		return records[0].URL
	}
	for subdir, want := range map[string]string{"linux-64": "linux-64/a-1-0.conda", "noarch": "noarch/a-7-0.conda", "linux-aarch64": ""} {
		if want != "" {
			want = "oci://" + r.Host + "/mirrors/lab/" + want
		}
		if got := url(subdir); got != want {
			t.Errorf("the package of %s is at %q, want %q", subdir, got, want)
		}
	}
	for name, a := range map[string]channel.Access{"nobody": {}, "another user": {Scope: "u2", Username: testkit.User, Password: "wrong"}} {
		if state, err := w.Get(t.Context(), c, "linux-64", a); !errors.Is(err, fault.Denied) {
			t.Errorf("%s gets %+v, %v", name, state, err)
		}
	}
	r.Requests()
	w.clock.forward(2 * time.Hour)
	url("linux-64")
	w.settled()
	if list := strings.Join(r.Requests(), " "); !strings.Contains(list, "/manifests/") || strings.Contains(list, "/blobs/") {
		t.Errorf("an unchanged list is refreshed with %s", list)
	}
	r.PushArtifact(t, "mirrors/lab/linux-64/repodata.json:latest", zst, string(compress(repodata("2"))))
	w.clock.forward(2 * time.Hour)
	url("linux-64")
	w.settled()
	if got := url("linux-64"); !strings.HasSuffix(got, "/a-2-0.conda") {
		t.Errorf("after a change, the package is at %q", got)
	}
	if strings.Contains(w.log.String(), testkit.Password) {
		t.Errorf("the log has the password: %s", w.log.String())
	}
}

// TestBombsInRegistry checks that a short layer of a registry cannot become a long list, however
// it is compressed.
func TestBombsInRegistry(t *testing.T) {
	t.Parallel()
	r := testkit.NewRegistry(t, testkit.Open)
	blanks := append([]byte(`{"packages":{`), bytes.Repeat([]byte(" "), 2*limits.ChannelInflated)...)
	var zipped bytes.Buffer
	z := gzip.NewWriter(&zipped)
	if _, err := z.Write(blanks); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	r.PushArtifact(t, "mirrors/lab/linux-64/repodata.json:latest", "application/vnd.conda.repodata.v1+json+zst", string(compress(blanks)))
	r.PushArtifact(t, "mirrors/lab/noarch/repodata.json:latest", "application/vnd.conda.repodata.v1+json+gzip", zipped.String())
	w := openWithRegistry(t, r)
	c, err := w.Resolve("oci://" + r.Host + "/mirrors/lab")
	if err != nil {
		t.Fatal(err)
	}
	for _, subdir := range []string{"linux-64", "noarch"} {
		if state, err := w.Get(t.Context(), c, subdir, channel.Access{}); !errors.Is(err, fault.Unavailable) || !strings.Contains(err.Error(), "times its download size") {
			t.Errorf("%s: %+v, %v", subdir, state, err)
		}
	}
}

// openWithRegistry starts a store that may reach a registry.
func openWithRegistry(t *testing.T, r *testkit.Registry) *world {
	t.Helper()
	return open(t, newWeb(t), t.TempDir(), func(o *channel.Options) {
		egress, err := upstream.NewEgress([]string{r.Host})
		if err != nil {
			t.Fatal(err)
		}
		o.Client = channel.NewClient(upstream.NewChannelTransport(upstream.New(upstream.Options{Egress: egress, Plain: []string{r.Host}, Metrics: prometheus.NewRegistry()}), upstream.NewTransport(egress)))
	})
}

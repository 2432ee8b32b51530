package conda_test

import (
	"encoding/base64"
	"errors"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	condav1 "slipway.dev/proto/gen/slipway/conda/v1"

	"slipway.dev/services/conda"
	"slipway.dev/services/conda/channel"
	"slipway.dev/services/internal/fault"
)

// startAged serves a channel with versions that were built some days before now. The oldest
// version has no timestamp.
func startAged(t *testing.T, now time.Time, change func(*conda.Deps)) condav1.CondaServiceClient {
	t.Helper()
	ms := func(days int) string { return intText(now.Add(-time.Duration(days) * 24 * time.Hour).UnixMilli()) }
	text := `{"packages.conda":{
 "a-1-0.conda":{"name":"a","version":"1","build":"0"},
 "a-2-0.conda":{"name":"a","version":"2","build":"0","depends":["b"],"timestamp":` + ms(30) + `},
 "a-3-0.conda":{"name":"a","version":"3","build":"0","depends":["b"],"timestamp":` + ms(3) + `},
 "b-1-0.conda":{"name":"b","version":"1","build":"0","timestamp":` + ms(40) + `},
 "b-2-0.conda":{"name":"b","version":"2","build":"0","timestamp":` + ms(1) + `}
}}`
	service, _ := serveWith(t, change, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/lab/linux-64/repodata.json" {
			http.NotFound(w, r)
			return
		}
		_, _ = io.WriteString(w, text)
	})
	return service
}

func intText(n int64) string { return strconv.FormatInt(n, 10) }

// TestAge checks the rules about the age of packages.
func TestAge(t *testing.T) {
	t.Parallel()
	now := time.Now()
	day := func(ago int) string { return now.Add(-time.Duration(ago) * 24 * time.Hour).UTC().Format(time.DateOnly) }
	service := startAged(t, now, nil)
	for name, c := range map[string]struct {
		q           *condav1.LockQuery
		want, notes string
	}{
		"any":               {&condav1.LockQuery{}, "a=3 b=2", ""},
		"asOf a date":       {&condav1.LockQuery{AsOf: day(10)}, "a=2 b=1", "Solved with packages that were built until " + day(10) + "T23:59:59Z, according to their timestamps, because the history of this server only begins at " + now.UTC().Format(time.DateOnly)},
		"asOf its day":      {&condav1.LockQuery{AsOf: day(3)}, "a=3 b=1", "Solved"},
		"asOf a time":       {&condav1.LockQuery{AsOf: day(35) + "T00:00:00+02:00"}, "a=1", "The channels have no timestamp for a, so that the age is unknown"},
		"minAge":            {&condav1.LockQuery{MinAge: "7d"}, "a=2 b=1", ""},
		"minAge in weeks":   {&condav1.LockQuery{MinAge: "5w"}, "a=1", "no timestamp for a"},
		"minAge in hours":   {&condav1.LockQuery{MinAge: "48h"}, "a=3 b=1", ""},
		"an exception":      {&condav1.LockQuery{MinAge: "7d", MinAgeExcept: []string{"B"}}, "a=2 b=2", ""},
		"before that day":   {&condav1.LockQuery{AsOf: day(2), MinAge: "7d"}, "a=2 b=1", "Solved"},
		"excludeNewer":      {&condav1.LockQuery{ExcludeNewer: day(7) + "T00:00:00Z"}, "a=2 b=1", ""},
		"but one":           {&condav1.LockQuery{ExcludeNewer: day(7) + "T00:00:00Z", MinAgeExcept: []string{"a"}}, "a=3 b=1", ""},
		"both":              {&condav1.LockQuery{ExcludeNewer: day(35) + "T00:00:00Z", AsOf: day(2)}, "a=1", "no timestamp for a"},
		"tomorrow":          {&condav1.LockQuery{AsOf: day(-1)}, "a=3 b=2", "asOf is in the future"},
		"an exception then": {&condav1.LockQuery{AsOf: day(2), MinAge: "7d", MinAgeExcept: []string{"a"}}, "a=3 b=1", "Solved"},
	} {
		c.q.Packages = entries("lab", "a")
		got, err := lockOf(t, service, c.q)
		words := strings.Fields(chosen(got))
		slices.Sort(words)
		if text := strings.Join(words, " "); err != nil || text != c.want || !strings.Contains(strings.Join(got.GetNotes(), "|"), c.notes) || (c.notes == "") != (got.GetNotes() == nil) {
			t.Errorf("%s: %s, %q, %v, want %s", name, text, got.GetNotes(), err, c.want)
		}
	}
	got, err := lockOf(t, service, &condav1.LockQuery{Packages: entries("lab", "b"), MinAge: "50d"})
	if err != nil || !strings.Contains(got.GetMessage(), "very b is newer than") {
		t.Errorf("nothing that old: %v, %v", got, err)
	}
	for name, q := range map[string]*condav1.LockQuery{
		"asOf must be":       {AsOf: "yesterday"},
		"excludeNewer must":  {ExcludeNewer: day(1)},
		"minAge must be":     {MinAge: "7"},
		"such as 7d":         {MinAge: "-7d"},
		"at most 3650d":      {MinAge: "3651d"},
		"or 36h":             {MinAge: strings.Repeat("1", 100)},
		"requires minAge":    {MinAgeExcept: []string{"a"}},
		"must list names":    {MinAge: "7d", MinAgeExcept: []string{"a >1"}},
		"the maximum is 100": {MinAge: "7d", MinAgeExcept: make([]string, 101)},
	} {
		q.Packages = entries("lab", "a")
		_, err := lockOf(t, service, q)
		if f, ok := fault.As(err); !ok || !errors.Is(err, fault.Invalid) || !strings.Contains(f.Public, name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestMinAgeOfServer checks that requests cannot override the operator's minimum age.
func TestMinAgeOfServer(t *testing.T) {
	t.Parallel()
	service := startAged(t, time.Now(), func(d *conda.Deps) { d.MinAge = 7 * 24 * time.Hour })
	for name, q := range map[string]*condav1.LockQuery{
		"no rule":      {},
		"an exception": {MinAge: "1h", MinAgeExcept: []string{"a", "b"}},
		"another time": {AsOf: time.Now().UTC().Format(time.DateOnly)},
	} {
		q.Packages = entries("lab", "a")
		got, err := lockOf(t, service, q)
		if err != nil || chosen(got) != "b=1 a=2" || !strings.Contains(strings.Join(got.GetNotes(), "|"), "at least 7d old (conda_min_age)") {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
}

// TestRefresh checks that a request can refresh the package lists, at most once per minute.
func TestRefresh(t *testing.T) {
	t.Parallel()
	var fetched atomic.Int32
	var offset atomic.Int64
	service, _ := serveWith(t, func(d *conda.Deps) {
		d.Now = func() time.Time { return time.Now().Add(time.Duration(offset.Load())) }
	}, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/lab/linux-64/repodata.json" {
			http.NotFound(w, r)
			return
		}
		n := intText(int64(fetched.Add(1)))
		_, _ = io.WriteString(w, `{"packages.conda":{"a-`+n+`-0.conda":{"name":"a","version":"`+n+`","build":"0"}}}`)
	})
	for _, c := range []struct {
		refresh bool
		after   time.Duration
		want    string
	}{{false, 0, "a=1"}, {true, 0, "a=1"}, {false, 2 * time.Minute, "a=1"}, {true, 2 * time.Minute, "a=2"}} {
		offset.Store(int64(c.after))
		got, err := lockOf(t, service, &condav1.LockQuery{Packages: entries("lab", "a"), Refresh: c.refresh})
		if err != nil || chosen(got) != c.want {
			t.Errorf("refresh %v after %v: %v, %v, want %s", c.refresh, c.after, got, err, c.want)
		}
	}
}

// TestAsOfInLocks checks that a lock as of a time has the earlier record, and states the time
// and the snapshots of the lists, also as text.
func TestAsOfInLocks(t *testing.T) {
	t.Parallel()
	var fetched atomic.Int32
	var offset atomic.Int64
	now := func() time.Time { return time.Now().Add(time.Duration(offset.Load())) }
	service, _ := serveStore(t, func(d *conda.Deps) { d.Now = now }, func(o *channel.Options) {
		o.Now, o.History = now, 30*24*time.Hour
	}, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/lab/linux-64/repodata.json" {
			http.NotFound(w, r)
			return
		}
		n := intText(int64(fetched.Add(1)))
		_, _ = io.WriteString(w, `{"packages.conda":{"a-1-0.conda":{"name":"a","version":"1","build":"0","depends":["b `+n+`"],"md5":"`+strings.Repeat("0", 32)+`"},"b-`+n+`-0.conda":{"name":"b","version":"`+n+`","build":"0","md5":"`+strings.Repeat(n, 32)+`"}}}`)
	})
	old, err := lockOf(t, service, &condav1.LockQuery{Packages: entries("lab", "a")})
	if err != nil || chosen(old) != "b=1 a=1" {
		t.Fatalf("%v, %v", old, err)
	}
	then := now().Add(time.Minute).UTC().Format(time.RFC3339)
	offset.Store(int64(72 * time.Hour))
	if got, err := lockOf(t, service, &condav1.LockQuery{Packages: entries("lab", "a"), Refresh: true}); err != nil || chosen(got) != "b=2 a=1" {
		t.Fatalf("%v, %v", got, err)
	}
	got, err := lockOf(t, service, &condav1.LockQuery{Packages: entries("lab", "a"), AsOf: then, MinAge: "1d"})
	if err != nil || chosen(got) != "b=1 a=1" {
		t.Fatalf("%v, %v", got, err)
	}
	l := got.GetLocks()[0]
	snapshot := old.GetLocks()[0].GetSnapshots()["lab/linux-64"]
	if l.GetAsOf() != then || l.GetHistorySince() > then || l.GetExcludeNewer() >= then || l.GetSnapshots()["lab/linux-64"] != snapshot {
		t.Errorf("the lock is %v", l)
	}
	for _, format := range []string{"explicit", "explicit-sha256", "conda-lock", "pixi"} {
		q := &condav1.LockQuery{Packages: entries("lab", "a"), AsOf: then, Format: format}
		got, err := lockOf(t, service, q)
		if err != nil || !strings.HasPrefix(got.GetText(), "# slipway.asOf: "+then+"\n# slipway.snapshot lab/linux-64: "+snapshot+"\n") {
			t.Errorf("%s: %s, %v", format, got.GetText(), err)
			continue
		}
		same, err := lockOf(t, service, &condav1.LockQuery{Packages: &condav1.CondaPackages{Environment: base64.StdEncoding.EncodeToString([]byte(got.GetText()))}})
		if err != nil || !strings.Contains(chosen(same), "b=1") {
			t.Errorf("%s cannot be read: %v, %v", format, same, err)
		}
	}
	// The list was last read 48 hours earlier.
	late, err := lockOf(t, service, &condav1.LockQuery{Packages: entries("lab", "a"), AsOf: now().Add(-24 * time.Hour).UTC().Format(time.RFC3339)})
	if err != nil || chosen(late) != "b=1 a=1" || !strings.Contains(strings.Join(late.GetNotes(), "|"), "last read the list of lab/linux-64 before that time at ") {
		t.Errorf("%v, %v", late, err)
	}
}

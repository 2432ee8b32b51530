package request

import (
	"errors"
	"strings"
	"testing"
	"time"

	containerv1 "slipway.dev/proto/gen/slipway/container/v1"

	"slipway.dev/services/container/conda"
	"slipway.dev/services/internal/caller"
	"slipway.dev/services/internal/fault"
)

// agesOf returns the solver's query and the shared lock ID of a request for samtools.
func agesOf(t *testing.T, now time.Time, change func(*containerv1.ContainerRequest)) (query, id string, err error) {
	t.Helper()
	raw := &containerv1.ContainerRequest{Packages: &containerv1.Packages{Type: "CONDA", Entries: []string{"samtools"}}}
	change(raw)
	p, err := Parse(raw, func(_, _ string) bool { return false })
	if err != nil {
		t.Fatal(err)
	}
	of, err := p.ReadPackages(raw.GetPackages(), conda.Defaults{}, now)
	if err == nil {
		err = p.CheckSolved(&of)
	}
	if err != nil {
		return "", "", err
	}
	q := of.LockQuery(p.Platforms...)
	id, _ = p.LockIDs(of, caller.ID{})
	return strings.Join([]string{q.GetAsOf(), q.GetMinAge(), q.GetExcludeNewer(), strings.Join(q.GetMinAgeExcept(), ",")}, " "), id + of.queryDigest(p.Platforms[0]), nil
}

// TestAges checks that minAge becomes a time, and that each rule is part of the IDs.
func TestAges(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 10, 15, 30, 0, 0, time.UTC)
	type request = containerv1.ContainerRequest
	seen := map[string]string{}
	for want, change := range map[string]func(*request){
		"   ":                               func(*request) {},
		"2026-03-01   ":                     func(r *request) { r.AsOf = "2026-03-01" },
		"  2026-03-03T00:00:00Z ":           func(r *request) { r.MinAge = "7d" },
		"  2026-03-03T00:00:00Z openssl":    func(r *request) { r.MinAge, r.MinAgeExcept = "7d", []string{"OpenSSL"} },
		"  2026-03-10T12:00:00Z ":           func(r *request) { r.MinAge = "3h" },
		"2026-03-01  2026-02-22T23:59:59Z ": func(r *request) { r.AsOf, r.MinAge = "2026-03-01", "7d" },
		"2026-03-01T12:00:00+02:00  2026-03-01T04:00:00Z ": func(r *request) { r.AsOf, r.MinAge = "2026-03-01T12:00:00+02:00", "6h" },
	} {
		query, id, err := agesOf(t, now, change)
		if err != nil || query != want {
			t.Errorf("%q, %v, want %q", query, err, want)
		}
		if other, ok := seen[id]; ok {
			t.Errorf("%q and %q have one ID", query, other)
		}
		seen[id] = query
	}
	// One request is one lock for the rest of the day.
	week := func(r *request) { r.MinAge = "1w" }
	_, today, _ := agesOf(t, now, week)
	if _, later, _ := agesOf(t, now.Add(8*time.Hour), week); later != today {
		t.Error("the lock changes within the day")
	}
	if _, tomorrow, _ := agesOf(t, now.Add(9*time.Hour), week); tomorrow == today {
		t.Error("the lock is the same tomorrow")
	}
	for text, change := range map[string]func(*request){
		"asOf must be":        func(r *request) { r.AsOf = "yesterday" },
		"minAge must be":      func(r *request) { r.MinAge = "7" },
		"requires minAge":     func(r *request) { r.MinAgeExcept = []string{"a"} },
		"must list names":     func(r *request) { r.MinAge, r.MinAgeExcept = "7d", []string{"a >1"} },
		"this service solves": func(r *request) { r.AsOf, r.BuildTemplate = "2026-03-01", "conda/micromamba:v1" },
		"do not apply to a lock": func(r *request) {
			r.AsOf, r.Packages.Entries = "2026-03-01", []string{"https://example.org/conda-lock.yml"}
		},
	} {
		_, _, err := agesOf(t, now, change)
		if f, ok := fault.As(err); !ok || !errors.Is(err, fault.Invalid) || !strings.Contains(f.Public, text) {
			t.Errorf("%s: %v", text, err)
		}
	}
}

package vulns

import (
	"math/rand/v2"
	"slices"
	"testing"

	"slipway.dev/services/internal/limits"
)

// TestEvents checks that the order of events has no effect.
func TestEvents(t *testing.T) {
	t.Parallel()
	of, _ := ecosystemOf(npm)
	events := []rawEvent{{Introduced: "0"}, {Fixed: "1.0.0"}, {Introduced: "1.0.0"}, {Fixed: "2.0.0"}, {Introduced: "3.0.0"}, {LastAffected: "3.0.0"}}
	want := []span{{"", "1.0.0", ""}, {"1.0.0", "2.0.0", ""}, {"3.0.0", "", "3.0.0"}}
	for range 200 {
		rand.Shuffle(len(events), func(i, j int) { events[i], events[j] = events[j], events[i] })
		if got, err := spansOf(events, of); err != nil || !slices.Equal(got, want) {
			t.Fatalf("%v: %v, %v", events, got, err)
		}
	}
}

// FuzzRecord checks that records of each ecosystem stay within the limits.
func FuzzRecord(f *testing.F) {
	f.Add([]byte(`{"id":"CVE-1","modified":"2026-01-01T00:00:00Z","aliases":["a"],"upstream":["b"],"details":"x\ny","severity":[{"type":"CVSS_V3","score":"CVSS:3.1/AV:N/AC:L/PR:N/UI:N/S:U/C:H/I:H/A:H"}],"affected":[{"package":{"ecosystem":"PyPI","name":"A_b"},"ranges":[{"type":"ECOSYSTEM","events":[{"introduced":"0"},{"fixed":"1"},{"introduced":"2"},{"last_affected":"3"}]}],"versions":["1.0"],"ecosystem_specific":{"urgency":"low"}}],"database_specific":{"severity":"HIGH"}}`))
	f.Add([]byte(`{"id":"CVE-1","modified":"2026-01-01T00:00:00Z","severity":[{"type":"CVSS_V4","score":"CVSS:4.0/AV:N/AC:L/AT:N/PR:N/UI:N/VC:H/VI:N/VA:N/SC:N/SI:N/SA:N"},{"type":"CVSS_V2","score":"AV:L/AC:M/Au:N/C:N/I:P/A:C"}],"affected":[{"package":{"ecosystem":"Debian:12","name":"x"}},{"package":{"ecosystem":"Ubuntu:Pro:18.04:LTS","name":"x"}}]}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		for _, e := range ecosystems() {
			r, list, _, err := parseRecord(raw, e)
			if err != nil {
				continue
			}
			if !isName(r.ID) || len(r.Title) > limits.ScanTitle || len(r.Aliases)+len(r.Upstream) > limits.ScanAliases {
				t.Errorf("%+v", r)
			}
			for _, a := range list {
				if !isName(a.name) || len(a.Spans) > limits.ScanRanges || len(a.Versions) > limits.ScanSpans {
					t.Errorf("%+v", a)
				}
			}
		}
	})
}

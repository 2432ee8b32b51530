package build

import (
	"strings"
	"testing"

	buildv1 "slipway.dev/proto/gen/slipway/build/v1"
)

// TestPublishedLines checks that the lines of a log, which several readers share, are not modified.
func TestPublishedLines(t *testing.T) {
	t.Parallel()
	shared := []*buildv1.LogLine{{Ordinal: 1, Text: "pushed to store/a", Phase: "push"}, {Ordinal: 2, Text: "done"}}
	public := func(s string) string { return strings.ReplaceAll(s, "store", "public") }
	got := published(shared, public)
	if len(got) != 2 || got[0].GetText() != "pushed to public/a" || got[0].GetOrdinal() != 1 || got[0].GetPhase() != "push" || got[1].GetText() != "done" {
		t.Errorf("they are %v", got)
	}
	if shared[0].GetText() != "pushed to store/a" {
		t.Errorf("the shared line became %v", shared[0])
	}
}

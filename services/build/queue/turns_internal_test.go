package queue

import (
	"strings"
	"testing"
	"time"

	buildv1 "slipway.dev/proto/gen/slipway/build/v1"
	platformv1 "slipway.dev/proto/gen/slipway/platform/v1"

	"slipway.dev/services/build/engine"
	"slipway.dev/services/build/store"
)

func queued(owners string) []store.Record {
	var out []store.Record
	for i, o := range strings.Split(owners, "") {
		out = append(out, store.Record{
			ID: string(rune('a' + i)), Owner: o, Created: time.UnixMilli(int64(i)),
			Request: &buildv1.SubmitBuildRequest{Recipe: &buildv1.Recipe{Engine: "buildkit", Platform: "linux/amd64"}},
		})
	}
	return out
}

func everything(_ store.Record, slots int) int { return ahead * slots }

// TestShare: an address without a user cannot hold every slot; users may.
func TestShare(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name            string
		waiting, out    string // capitals are users
		slots           int
		user, anonymous int
		want            string
	}{
		{name: "one slot stays", waiting: "aaaa", slots: 2, want: "a"},
		{name: "it is used by others", waiting: "aaab", out: "a", slots: 2, want: "b"},
		{name: "nobody else waits", waiting: "aaa", out: "a", slots: 2, want: ""},
		{name: "all but one", waiting: "aaaaaaaa", slots: 8, want: "aaaaaaa"},
		{name: "the setting", waiting: "aaaaaaaa", slots: 8, anonymous: 2, want: "aa"},
		{name: "the only slot", waiting: "aaaa", slots: 1, want: "a"},
		{name: "a user", waiting: "AAAAAA", slots: 2, want: "AAAA"},
		{name: "a user's setting", waiting: "AAAAAAB", slots: 2, user: 1, want: "AB"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			q := &Queue{RunningUser: tc.user, RunningAnonymous: tc.anonymous}
			known := func(owners string) []store.Record {
				if owners == "" {
					return nil
				}
				list := queued(owners)
				for _, r := range list {
					if strings.ToUpper(r.Owner) == r.Owner {
						r.Request.Identity = &platformv1.Identity{UserId: 1}
					}
				}
				return list
			}
			got := ""
			for _, r := range turns(known(tc.waiting), known(tc.out), func(engine.Kind) int { return tc.slots }, q.share) {
				got += r.Owner
			}
			if got != tc.want {
				t.Errorf("next are %q, want %q", got, tc.want)
			}
		})
	}
}

func TestTurns(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name         string
		waiting, out string
		slots        int
		want         string
	}{
		{name: "nobody works", waiting: "AAB", slots: 0, want: ""},
		{name: "in turn", waiting: "AAAAAB", slots: 1, want: "AB"},
		{name: "who has fewer goes first", waiting: "AAAB", out: "A", slots: 1, want: "B"},
		{name: "no more than twice the slots", waiting: "AAAAAA", slots: 2, want: "AAAA"},
		{name: "one owner fills what is left", waiting: "AAAAB", slots: 2, want: "ABAA"},
		{name: "full", waiting: "AB", out: "CC", slots: 1, want: ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			var out []store.Record
			if tc.out != "" {
				out = queued(tc.out)
			}
			got := ""
			for _, r := range turns(queued(tc.waiting), out, func(engine.Kind) int { return tc.slots }, everything) {
				got += r.Owner
			}
			if got != tc.want {
				t.Errorf("%s waits, %s is out: next are %q, want %q", tc.waiting, tc.out, got, tc.want)
			}
		})
	}
}

// TestFairness lets one owner queue forty builds before another queues ten: both
// are served alike, for as long as both have something.
func TestFairness(t *testing.T) {
	t.Parallel()
	waiting := queued(strings.Repeat("A", 40) + strings.Repeat("B", 10))
	var out []store.Record
	order := ""
	for len(waiting)+len(out) > 0 {
		for _, r := range turns(waiting, out, func(engine.Kind) int { return 1 }, everything) {
			out = append(out, r)
			for i := range waiting {
				if waiting[i].ID == r.ID {
					waiting = append(waiting[:i:i], waiting[i+1:]...)
					break
				}
			}
		}
		order += out[0].Owner
		out = out[1:]
	}
	if b := strings.Count(order[:20], "B"); b != 10 {
		t.Errorf("of the first 20, %d are B's: %s", b, order)
	}
}

package queue

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	buildv1 "slipway.dev/proto/gen/slipway/build/v1"

	"slipway.dev/services/build/engine"
	"slipway.dev/services/build/store"
	"slipway.dev/services/build/workers"
	"slipway.dev/services/internal/ratelimit"
)

// queued returns builds of owners, oldest first: of users (capital letters) and of
// addresses.
func queued(owners string) []store.Record {
	var out []store.Record
	for i, o := range strings.Split(owners, "") {
		if o == "" {
			continue
		}
		owner := fmt.Sprintf("ip:192.0.%d.1", o[0])
		if strings.ToUpper(o) == o {
			owner = "user:" + o
		}
		out = append(out, build(i, owner, "amd64"))
	}
	return out
}

func build(n int, owner, arch string) store.Record {
	return store.Record{
		ID: fmt.Sprintf("%06d", n), Owner: owner, Created: time.UnixMilli(int64(n)),
		Request: &buildv1.SubmitBuildRequest{Recipe: &buildv1.Recipe{Engine: "buildkit", Platform: "linux/" + arch}},
	}
}

// letters returns the owners of builds in the notation of queued.
func letters(builds []store.Record) string {
	out := ""
	for _, b := range builds {
		var c int
		if _, err := fmt.Sscanf(b.Owner, "ip:192.0.%d.1", &c); err == nil {
			out += string(rune(c))
		} else {
			out += strings.TrimPrefix(b.Owner, "user:")
		}
	}
	return out
}

// watching returns a watch that has one worker with the given slots for each of some
// architectures.
func watching(t *testing.T, slots int, archs ...string) *workers.Watch {
	t.Helper()
	w := workers.New(time.Now, false)
	appear(t, w, "w", slots, archs...)
	return w
}

func appear(t *testing.T, w *workers.Watch, name string, slots int, archs ...string) {
	t.Helper()
	p := &buildv1.Presence{Worker: name, Slots: int32(slots)}
	for _, a := range archs {
		p.Capabilities = append(p.Capabilities, &buildv1.Capability{Engine: engine.BuildKit, Architecture: a})
	}
	raw, err := proto.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	w.Observe(raw)
}

// TestShare checks that an anonymous client cannot occupy every slot, while users may, and
// that with reserved slots all anonymous clients together cannot.
func TestShare(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name            string
		waiting, out    string // capital letters are users
		slots           int
		user, anonymous int
		reserve         bool
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
		{name: "two addresses without a reservation", waiting: "abab", slots: 2, want: "ab"},
		{name: "two addresses", waiting: "abab", slots: 2, reserve: true, want: "a"},
		{name: "many addresses", waiting: "abcdefgh", slots: 8, reserve: true, want: "abcdef"},
		{name: "many addresses of many slots", waiting: strings.Repeat("abcdefgh", 5), slots: 20, reserve: true, want: "abcdefghabcdefg"},
		{name: "the reserved slot", waiting: "bA", out: "a", slots: 2, reserve: true, want: "A"},
		{name: "users before an older stranger", waiting: "abAB", slots: 2, reserve: true, want: "ABa"},
		{name: "one slot: nothing ahead", waiting: "abA", out: "a", slots: 1, reserve: true, want: "A"},
		{name: "one slot, free", waiting: "ab", slots: 1, reserve: true, want: "a"},
		{name: "no slot", waiting: "abA", slots: 0, reserve: true, want: ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			q := &Queue{Workers: watching(t, tc.slots, "amd64"), RunningUser: tc.user, RunningAnonymous: tc.anonymous, ReserveForUsers: tc.reserve}
			if got := letters(q.turns(queued(tc.waiting), queued(tc.out))); got != tc.want {
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
		{name: "the user with fewer builds goes first", waiting: "AAAB", out: "A", slots: 1, want: "B"},
		{name: "no more than twice the slots", waiting: "AAAAAA", slots: 2, want: "AAAA"},
		{name: "one owner fills what is left", waiting: "AAAAB", slots: 2, want: "ABAA"},
		{name: "full", waiting: "AB", out: "CC", slots: 1, want: ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			q := &Queue{Workers: watching(t, tc.slots, "amd64")}
			if got := letters(q.turns(queued(tc.waiting), queued(tc.out))); got != tc.want {
				t.Errorf("%s waits, %s is out: next are %q, want %q", tc.waiting, tc.out, got, tc.want)
			}
		})
	}
}

// TestStrangersOfNetworks checks that the addresses of one IPv6 network count as one
// client.
func TestStrangersOfNetworks(t *testing.T) {
	t.Parallel()
	q := &Queue{Workers: watching(t, 4, "amd64"), ReserveForUsers: true}
	var waiting []store.Record
	for i := range 20 {
		waiting = append(waiting, build(i, fmt.Sprintf("ip:2001:db8:1:%d::/64", i*256), "amd64"))
	}
	waiting = append(waiting, build(90, "ip:2001:db8:2::/64", "amd64"), build(91, "ip:198.51.100.7", "amd64"))
	owners := map[string]bool{}
	for _, b := range q.turns(waiting, nil) {
		owners[b.Owner] = true
	}
	if len(owners) != 3 || !owners["ip:2001:db8:2::/64"] || !owners["ip:198.51.100.7"] {
		t.Errorf("the builds of %v are next", owners)
	}
}

// TestStrangersOnSharedSlots checks that builds for several architectures share the slots
// of a worker that builds for all of them, and that separate workers have separate slots.
func TestStrangersOnSharedSlots(t *testing.T) {
	t.Parallel()
	waiting := []store.Record{build(1, "ip:192.0.2.1", "amd64"), build(2, "ip:192.0.2.2", "arm64")}
	q := &Queue{Workers: watching(t, 2, "amd64", "arm64"), ReserveForUsers: true}
	if got := q.turns(waiting, nil); len(got) != 1 {
		t.Errorf("%d builds of strangers take 2 slots", len(got))
	}
	running := build(3, "ip:192.0.2.3", "amd64")
	running.Worker, running.Delivery = "w", 1
	if got := q.turns(waiting, []store.Record{running}); len(got) != 0 {
		t.Errorf("%d builds of strangers go to the last slot", len(got))
	}
	q.Workers = watching(t, 2, "amd64")
	appear(t, q.Workers, "arm", 2, "arm64")
	if got := q.turns(waiting, nil); len(got) != 2 {
		t.Errorf("%d builds of strangers go to two workers", len(got))
	}
	if got := q.turns(waiting, []store.Record{running}); len(got) != 1 || got[0].ID != waiting[1].ID {
		t.Errorf("%d builds of strangers go to the other worker", len(got))
	}
}

// TestFairness queues forty builds of one owner before ten of another, and checks that both
// are served equally as long as both have builds.
func TestFairness(t *testing.T) {
	t.Parallel()
	q := &Queue{Workers: watching(t, 1, "amd64")}
	waiting := queued(strings.Repeat("A", 40) + strings.Repeat("B", 10))
	var out []store.Record
	order := ""
	for len(waiting)+len(out) > 0 {
		for _, r := range q.turns(waiting, out) {
			out = append(out, r)
			for i := range waiting {
				if waiting[i].ID == r.ID {
					waiting = append(waiting[:i:i], waiting[i+1:]...)
					break
				}
			}
		}
		order += letters(out[:1])
		out = out[1:]
	}
	if b := strings.Count(order[:20], "B"); b != 10 {
		t.Errorf("of the first 20, %d are B's: %s", b, order)
	}
}

// TestRunningLimits checks that the builds of a workspace or an organisation of all users and kinds
// count against its own limit, and that a user's own limit replaces the setting.
func TestRunningLimits(t *testing.T) {
	t.Parallel()
	lab, bench := ratelimit.Subject{Of: ratelimit.Organization, ID: 3}, ratelimit.Subject{Of: ratelimit.Workspace, ID: 5}
	of := func(s ratelimit.Subject, most int) []ratelimit.RunningLimit {
		return []ratelimit.RunningLimit{{Subject: s, Most: most}}
	}
	user := func(name rune, most int) []ratelimit.RunningLimit {
		return of(ratelimit.Subject{Of: ratelimit.User, ID: int64(name)}, most)
	}
	for _, tc := range []struct {
		name         string
		waiting, out string
		user         int
		own          map[string][]ratelimit.RunningLimit // by owner
		want         string
	}{
		{name: "none", waiting: "AAABBB", want: "ABABAB"},
		{name: "users of one organisation", waiting: "AAABBBCC", own: map[string][]ratelimit.RunningLimit{"A": of(lab, 3), "B": of(lab, 3)}, want: "ABCAC"},
		{name: "it has dispatched builds", waiting: "AABBC", out: "AB", own: map[string][]ratelimit.RunningLimit{"A": of(lab, 3), "B": of(lab, 3)}, want: "CA"},
		{name: "it is full", waiting: "AABBC", out: "AAB", own: map[string][]ratelimit.RunningLimit{"A": of(lab, 2), "B": of(lab, 2)}, want: "C"},
		{name: "a workspace in an organisation", waiting: "AAABBB", own: map[string][]ratelimit.RunningLimit{"A": append(of(bench, 1), of(lab, 2)...), "B": of(lab, 2)}, want: "AB"},
		{name: "no limit", waiting: "AAAA", own: map[string][]ratelimit.RunningLimit{"A": of(lab, 0)}, want: "AAAA"},
		{name: "a user with more than the setting", waiting: "AAAABB", user: 1, own: map[string][]ratelimit.RunningLimit{"A": user('A', 3)}, want: "ABAA"},
		{name: "a user without a limit", waiting: "AAAABB", user: 1, own: map[string][]ratelimit.RunningLimit{"A": user('A', 0)}, want: "ABAAA"},
		{name: "a user with less than the setting", waiting: "AAAABB", user: 2, own: map[string][]ratelimit.RunningLimit{"A": user('A', 1)}, want: "ABB"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			q := &Queue{Workers: watching(t, 4, "amd64"), RunningUser: tc.user, RunningOf: func(b store.Record) []ratelimit.RunningLimit {
				return tc.own[strings.TrimPrefix(b.Owner, "user:")]
			}}
			if got := letters(q.turns(queued(tc.waiting), queuedLater(tc.out))); got != tc.want {
				t.Errorf("next are %q, want %q", got, tc.want)
			}
		})
	}
	q := &Queue{Workers: watching(t, 4, "amd64", "arm64"), RunningOf: func(store.Record) []ratelimit.RunningLimit { return of(lab, 2) }}
	if got := q.turns([]store.Record{build(1, "user:A", "arm64"), build(2, "user:B", "arm64")}, []store.Record{build(3, "user:C", "amd64")}); len(got) != 1 {
		t.Errorf("%d builds for another architecture are next", len(got))
	}
}

// queuedLater is queued, with other ids.
func queuedLater(owners string) []store.Record {
	all := queued(owners)
	for i := range all {
		all[i].ID = "9" + all[i].ID
	}
	return all
}

package ratelimit_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"
	"google.golang.org/protobuf/types/known/structpb"

	"slipway.dev/services/internal/fairshare"
	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/ratelimit"
	"slipway.dev/services/internal/testkit"
)

const here = "https://p"

// member returns a user in a workspace of an organisation.
func member(user string, id, workspace, org int64) ratelimit.Caller {
	return ratelimit.Caller{Client: fairshare.User(user + "@" + here), Endpoint: here, UserID: id, WorkspaceID: workspace, OrganizationID: org}
}

// own returns limits, in the order of subject, kind and value.
func own(t *testing.T, rows ...[3]string) ratelimit.Own {
	t.Helper()
	o := ratelimit.Own{Endpoint: here}
	for _, r := range rows {
		s := map[string]ratelimit.Subject{
			"ada": {Of: ratelimit.User, ID: 7}, "bench": {Of: ratelimit.Workspace, ID: 5}, "lab": {Of: ratelimit.Organization, ID: 3},
			"other lab": {Of: ratelimit.Organization, ID: 4},
		}[r[0]]
		if err := o.Add(s, ratelimit.Kind(r[1]), r[2]); err != nil || s.ID == 0 {
			t.Fatal(r, err)
		}
	}
	return o
}

// spend charges 1 at a time until a charge is rejected, and returns how many were allowed and the error.
func spend(t *testing.T, l *ratelimit.Limiter, who ratelimit.Caller) (int, error) {
	t.Helper()
	for n := range 10_000 {
		if _, err := l.ChargeCaller(t.Context(), ratelimit.Builds, who, 1); err != nil {
			return n, err
		}
	}
	return 10_000, nil
}

// TestSharedBudgets uses up the budget of a workspace and of an organisation with two users and a
// robot. Each rejection names whose limit it is, and is not charged to the other budgets.
func TestSharedBudgets(t *testing.T) {
	t.Parallel()
	testkit.EachRedis(t, func(t *testing.T, client redis.UniversalClient) {
		l := newLimiter(t, client)
		l.SetLimits(ratelimit.Limits{ratelimit.Builds: {User: ratelimit.Limit{{Count: 400, Window: time.Hour}}}})
		l.SetOwn(own(t, [3]string{"bench", "builds", "300/1h"}, [3]string{"lab", "builds", "500/2h"}, [3]string{"lab", "runningBuilds", "2"}))
		ada, bob := member("7", 7, 5, 3), member("8", 8, 5, 3)
		robot := member("organization/3", 900, 5, 3)
		elsewhere := member("8", 8, 6, 3)
		for i := range 290 {
			if _, err := l.ChargeCaller(t.Context(), ratelimit.Builds, []ratelimit.Caller{ada, bob, robot}[i%3], 1); err != nil {
				t.Fatal(i, err)
			}
		}
		n, err := spend(t, l, ada)
		if e, _ := fault.As(err); n != 10 || e == nil || e.Kind != fault.Exhausted || e.Code != "limit.builds" || e.RetryAfter == 0 ||
			!strings.Contains(e.Public, "the limit of the workspace is 300 in 1h; try again in") || of(e) != "workspace" {
			t.Fatalf("%d more in the workspace, then %v, %v", n, err, of(e))
		}
		for _, who := range []ratelimit.Caller{bob, robot} {
			if n, err := spend(t, l, who); n != 0 || !errors.Is(err, fault.Exhausted) {
				t.Errorf("%d more of another member, then %v", n, err)
			}
		}
		n, err = spend(t, l, elsewhere)
		if e, _ := fault.As(err); n != 200 || e == nil || !strings.Contains(e.Public, "the limit of the organisation is 500 in 2h") || of(e) != "organization" {
			t.Fatalf("%d more in the organisation, then %v, %v", n, err, of(e))
		}
		// The many rejected charges were returned to the users.
		if n, err := spend(t, l, member("7", 7, 0, 0)); n != 400-97-10 || !strings.Contains(err.Error(), "the limit is 400 in 1h") || of(err) != "" {
			t.Errorf("the user has %d left in the personal workspace, then %v", n, err)
		}
		if n, _ := spend(t, l, member("9", 9, 15, 4)); n != 400 {
			t.Errorf("a user of another organisation has %d", n)
		}
		foreign := member("7", 7, 5, 3)
		foreign.Endpoint, foreign.Client = "https://q", fairshare.User("7@https://q")
		if n, _ := spend(t, l, foreign); n != 400 {
			t.Errorf("a user of another platform with equal ids has %d", n)
		}
	})
}

// TestSpendCaller charges minutes of building that are known only afterwards: more than what is left
// is charged to every rule, and then new builds are rejected, with the time to wait.
func TestSpendCaller(t *testing.T) {
	t.Parallel()
	// The limits are too small for slices, whose unspent rest would count as charged.
	testkit.EachRedis(t, func(t *testing.T, client redis.UniversalClient) {
		l := newLimiter(t, client)
		l.SetOwn(own(t, [3]string{"bench", "buildMinutes", "100/24h"}, [3]string{"lab", "buildMinutes", "50/1h,127/24h"}))
		inside, elsewhere, anonymous := member("7", 7, 5, 3), member("8", 8, 6, 3), ratelimit.Caller{Client: fairshare.User("x")}
		left := func(of ratelimit.Category, id int64, most int) int {
			n, known := l.Remaining(t.Context(), here, ratelimit.Subject{Of: of, ID: id}, ratelimit.BuildMinutes, ratelimit.Limit{{Count: most, Window: 24 * time.Hour}})
			if !known {
				t.Fatal("nothing is known")
			}
			return n
		}
		for i, n := range []int{94, 30, 0, -50} {
			if i == 0 {
				if _, err := l.ChargeCaller(t.Context(), ratelimit.BuildMinutes, inside, 1); err != nil {
					t.Fatal(err)
				}
			}
			if err := l.SpendCaller(t.Context(), ratelimit.BuildMinutes, inside, n); err != nil {
				t.Fatal(err)
			}
		}
		if w, o := left(ratelimit.Workspace, 5, 100), left(ratelimit.Organization, 3, 127); w != 0 || o != 2 { // of the day, although the hour has less
			t.Errorf("the workspace has %d left, the organisation %d", w, o)
		}
		_, err := l.ChargeCaller(t.Context(), ratelimit.BuildMinutes, inside, 1)
		if e, _ := fault.As(err); e == nil || e.Kind != fault.Exhausted || e.Code != "limit.buildMinutes" || e.RetryAfter == 0 || of(e) != "workspace" ||
			!strings.Contains(e.Public, "Too many minutes of building: the limit of the workspace is 100 in 24h; try again in") {
			t.Errorf("a new build: %v", err)
		}
		if _, err := l.ChargeCaller(t.Context(), ratelimit.BuildMinutes, elsewhere, 1); err == nil || of(err) != "organization" {
			t.Errorf("another workspace: %v", err)
		}
		if _, err := l.ChargeCaller(t.Context(), ratelimit.BuildMinutes, anonymous, 1); err != nil {
			t.Errorf("anonymous: %v", err)
		}
		if err := l.SpendCaller(t.Context(), ratelimit.BuildMinutes, anonymous, 5); err != nil {
			t.Error(err)
		}
	})
}

// of returns the member "of" of the details of an error.
func of(err error) string {
	e, _ := fault.As(err)
	if e == nil {
		return ""
	}
	details, _ := e.Detail.(*structpb.Struct)
	return details.GetFields()["of"].GetStringValue()
}

// TestOwnLimitReplaces checks that a user's own limit replaces that of all users, in both
// directions, that a change applies at once and counts earlier charges, and that the limit of an
// organisation replaces that of all organisations.
func TestOwnLimitReplaces(t *testing.T) {
	t.Parallel()
	testkit.EachRedis(t, func(t *testing.T, client redis.UniversalClient) {
		l := newLimiter(t, client)
		hour := func(n int) ratelimit.Limit { return ratelimit.Limit{{Count: n, Window: time.Hour}} }
		l.SetLimits(ratelimit.Limits{ratelimit.Builds: {User: hour(5), Organization: hour(12)}})
		ada, bob := member("7", 7, 0, 0), member("8", 8, 0, 0)
		for _, step := range []struct {
			own  []([3]string)
			who  ratelimit.Caller
			want int
		}{
			{nil, ada, 5},
			{[][3]string{{"ada", "builds", "9/1h"}}, ada, 4},
			{[][3]string{{"ada", "builds", "9/1h"}}, bob, 5},
			{[][3]string{{"ada", "builds", "3/1h"}}, ada, 0},
			{[][3]string{{"ada", "pulls", "100/1h"}}, ada, 0},
			{[][3]string{{"ada", "builds", "0"}}, ada, 10_000},
			{nil, member("10", 10, 5, 3), 5},
			{nil, member("11", 11, 5, 3), 5},
			{nil, member("12", 12, 6, 3), 2},
			{[][3]string{{"lab", "builds", "0"}}, member("13", 13, 6, 3), 5},
			{[][3]string{{"other lab", "builds", "1/1h"}}, member("14", 14, 8, 4), 1},
		} {
			l.SetOwn(own(t, step.own...))
			if n, _ := spend(t, l, step.who); n != step.want {
				t.Errorf("%v: %d more were allowed, want %d", step, n, step.want)
			}
		}
	})
}

// TestLargeChargeOfBudgets checks that a charge above a whole limit counts as the whole limit of
// each budget.
func TestLargeChargeOfBudgets(t *testing.T) {
	t.Parallel()
	testkit.EachRedis(t, func(t *testing.T, client redis.UniversalClient) {
		l := newLimiter(t, client)
		l.SetOwn(own(t, [3]string{"ada", "requests", "100/1h"}, [3]string{"lab", "requests", "3/1h"}))
		who := member("7", 7, 5, 3)
		q, err := l.ChargeCaller(t.Context(), ratelimit.Requests, who, 40)
		if err != nil || q.Limit != 3 || q.Remaining != 0 {
			t.Errorf("%v, %v", q, err)
		}
		left, known := l.Remaining(t.Context(), here, ratelimit.Subject{Of: ratelimit.User, ID: 7}, ratelimit.Requests, ratelimit.Limit{{Count: 100, Window: time.Hour}})
		if left != 60 || !known {
			t.Errorf("%d are left of the user's, %v", left, known)
		}
		budgets := l.BudgetsOf(ratelimit.Requests, who)
		l.SetOwn(ratelimit.Own{Endpoint: here}) // a refund uses the limits of the charge
		if _, err := l.ChargeBudgets(t.Context(), ratelimit.Requests, budgets, -2); err != nil {
			t.Fatal(err)
		}
		l.SetOwn(own(t, [3]string{"lab", "requests", "3/1h"}))
		if q, err := l.ChargeCaller(t.Context(), ratelimit.Requests, who, 2); err != nil || q.Remaining != 0 {
			t.Errorf("after a refund: %v, %v", q, err)
		}
	})
}

// TestSharedBudgetsWithoutRedis checks that calls are allowed while Redis is unavailable.
func TestSharedBudgetsWithoutRedis(t *testing.T) {
	t.Parallel()
	client := testkit.Redis(t)
	l := newLimiter(t, client)
	l.SetOwn(own(t, [3]string{"lab", "builds", "1/1h"}))
	if err := client.Close(); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if q, err := l.ChargeCaller(t.Context(), ratelimit.Builds, member("7", 7, 5, 3), 1); err != nil || q != (ratelimit.Quota{}) {
			t.Errorf("%v, %v", q, err)
		}
	}
}

// TestCallersWithoutOwnLimits checks that a busy caller without own limits is charged in memory, as
// before.
func TestCallersWithoutOwnLimits(t *testing.T) {
	t.Parallel()
	client := testkit.Redis(t)
	l := newLimiter(t, client)
	l.SetLimits(ratelimit.Limits{ratelimit.Pulls: {User: ratelimit.Limit{{Count: 100_000, Window: time.Hour}}}})
	l.SetOwn(own(t, [3]string{"other lab", "pulls", "5/1h"}))
	who := member("7", 7, 5, 3)
	for range 500 {
		if _, err := l.ChargeCaller(t.Context(), ratelimit.Pulls, who, 1); err != nil {
			t.Fatal(err)
		}
	}
	if keys, err := client.Keys(t.Context(), "limit:*").Result(); err != nil || len(keys) != 1 {
		t.Errorf("the keys are %v, %v", keys, err)
	}
	if held, _ := l.Held(); held == 0 {
		t.Error("nothing is charged in memory")
	}
}

func TestRunningOf(t *testing.T) {
	t.Parallel()
	l := newLimiter(t, testkit.Redis(t))
	if got := l.RunningOf(member("7", 7, 5, 3)); got != nil {
		t.Errorf("without limits: %v", got)
	}
	l.SetOwn(own(t, [3]string{"ada", "runningBuilds", "0"}, [3]string{"lab", "runningBuilds", "2"}, [3]string{"bench", "builds", "2/1h"}))
	want := []ratelimit.RunningLimit{{Subject: ratelimit.Subject{Of: ratelimit.User, ID: 7}}, {Subject: ratelimit.Subject{Of: ratelimit.Organization, ID: 3}, Most: 2}}
	if diff := cmp.Diff(want, l.RunningOf(member("7", 7, 5, 3))); diff != "" {
		t.Error(diff)
	}
	if got := l.RunningOf(member("8", 8, 0, 0)); got != nil {
		t.Errorf("another user has %v", got)
	}
	if got := l.RunningOf(ratelimit.Caller{Client: fairshare.Client{}}); got != nil {
		t.Errorf("an anonymous caller has %v", got)
	}
}

func FuzzParseOwn(f *testing.F) {
	for _, seed := range []string{"250/1h", "20/1s,72000/1h", "0", "", "4", "-1", "1/745h", "1000000001/1h", "3650", "3651", "0.5"} {
		f.Add("builds", seed)
		f.Add("runningBuilds", seed)
		f.Add("requestDays", seed)
	}
	f.Fuzz(func(t *testing.T, kind, value string) {
		rate, number, err := ratelimit.ParseOwn(ratelimit.Kind(kind), value)
		if err != nil {
			if e, ok := fault.As(err); !ok || e.Kind != fault.Invalid {
				t.Errorf("%q: %v", value, err)
			}
			return
		}
		most := map[string]int{"runningBuilds": 1e9, "requestDays": 3650}[kind] // 0 for other kinds
		if number < 0 || number > most || len(rate) > 3 || len(rate) > 0 && most > 0 {
			t.Errorf("%q became %v, %d", value, rate, number)
		}
		for _, r := range rate {
			if r.Count < 1 || r.Count > 1e9 || r.Window < 60*time.Millisecond || r.Window > 744*time.Hour {
				t.Errorf("%q became %v", value, rate)
			}
		}
	})
}

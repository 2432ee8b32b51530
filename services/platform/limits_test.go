package platform_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/protobuf/proto"

	openapiv1 "slipway.dev/proto/gen/slipway/openapi/v1"
	platformv1 "slipway.dev/proto/gen/slipway/platform/v1"

	"slipway.dev/services/internal/caller"
	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/limits"
	"slipway.dev/services/internal/ratelimit"
	"slipway.dev/services/internal/sqldb"
	"slipway.dev/services/internal/testkit"
)

// setLimit sets a limit as an administrator or another user.
func (w *world) setLimit(as, of string, id int64, kind, value string) (*platformv1.Limit, error) {
	resp, err := w.client.SetLimit(w.as(as), &platformv1.SetLimitRequest{Of: of, SubjectId: id, Kind: kind, Limit: &platformv1.LimitSpec{Value: value}})
	return resp.GetLimit(), err
}

// applied returns the limits that services get, as "<of>/<id>/<kind>" and value.
func (w *world) applied() map[string]string {
	w.t.Helper()
	all := map[string]string{}
	for _, l := range must(w.client.GetLimits(w.t.Context(), &platformv1.GetLimitsRequest{}))(w.t).GetLimits() {
		all[fmt.Sprintf("%s/%d/%s", l.GetOf(), l.GetId(), l.GetKind())] = l.GetValue()
	}
	return all
}

// TestLimits sets, replaces, lists and deletes limits, and reads the audit trail.
func TestLimits(t *testing.T) {
	t.Parallel()
	testkit.EachDatabase(t, func(t *testing.T, db *sqldb.DB) {
		d, c := deps(t, db), january()
		bus := &published{}
		d.Bus, d.Now = bus, c.Now
		w := newWorldWith(t, d, c).withAdministrator()
		l := must(w.setLimit("owner", "organization", w.org, "builds", " 250/1h0m ,5/1s"))(t)
		if l.GetValue() != "250/1h,5/1s" || l.GetName() != "lab" || l.GetLastUpdated() == nil {
			t.Errorf("set is %v", l)
		}
		must(w.setLimit("owner", "organization", w.org, "builds", "100/1h"))(t)
		must(w.setLimit("owner", "organization", w.org, "builds", "100/1h"))(t) // changes nothing
		must(w.setLimit("owner", "workspace", w.ws, "runningBuilds", "4"))(t)
		must(w.setLimit("owner", "user", w.ids["view"], "pulls", "0"))(t)
		org, ws, user := fmt.Sprintf("organization/%d/builds", w.org), fmt.Sprintf("workspace/%d/runningBuilds", w.ws), fmt.Sprintf("user/%d/pulls", w.ids["view"])
		if diff := cmp.Diff(map[string]string{org: "100/1h", ws: "4", user: "0"}, w.applied()); diff != "" {
			t.Error(diff)
		}
		if n := bus.count(caller.LimitsSubject); n != 4 {
			t.Errorf("%d changes were published", n)
		}
		for name, q := range map[string]struct {
			req  *platformv1.ListLimitsRequest
			want []string
		}{
			"all":               {&platformv1.ListLimitsRequest{}, []string{"lab", "lab/bench", "view"}},
			"of workspaces":     {&platformv1.ListLimitsRequest{Of: "workspace"}, []string{"lab/bench"}},
			"of a user":         {&platformv1.ListLimitsRequest{Of: "user", Id: w.ids["view"]}, []string{"view"}},
			"of another user":   {&platformv1.ListLimitsRequest{Of: "user", Id: w.ids["boss"]}, nil},
			"of an equal id":    {&platformv1.ListLimitsRequest{Of: "user", Id: w.org}, nil},
			"by name":           {&platformv1.ListLimitsRequest{Search: "LAB"}, []string{"lab", "lab/bench"}},
			"the second page":   {&platformv1.ListLimitsRequest{Max: new(int32(2)), Offset: new(int32(2))}, []string{"view"}},
			"beyond the end":    {&platformv1.ListLimitsRequest{Offset: new(int32(3))}, nil},
			"a pattern of LIKE": {&platformv1.ListLimitsRequest{Search: "l_b"}, nil},
		} {
			var got []string
			for _, l := range must(w.client.ListLimits(w.as("owner"), q.req))(t).GetLimits() {
				got = append(got, l.GetName())
			}
			if diff := cmp.Diff(q.want, got); diff != "" {
				t.Errorf("%s: %s", name, diff)
			}
		}
		gone := &platformv1.DeleteLimitRequest{Of: "user", SubjectId: w.ids["view"], Kind: "pulls"}
		must(w.client.DeleteLimit(w.as("owner"), gone))(t)
		_, err := w.client.DeleteLimit(w.as("owner"), gone)
		wantError(t, "deleting again", err, fault.NotFound)
		var events []string
		for _, e := range w.events("limit.*") {
			events = append(events, fmt.Sprintf("%s %s by %s: %v to %v", e.GetAction(), e.GetSubject(), e.GetActor(), e.GetBefore().AsMap()["value"], e.GetAfter().AsMap()["value"]))
			if e.GetOrgId() == nil != strings.HasPrefix(e.GetSubject(), "user/") || e.GetWorkspaceId() == nil == strings.HasPrefix(e.GetSubject(), "workspace/") {
				t.Errorf("the event is about %v, %v: %s", e.GetOrgId(), e.GetWorkspaceId(), e.GetSubject())
			}
		}
		if diff := cmp.Diff([]string{
			"limit.delete " + user + " by owner: 0 to <nil>",
			"limit.set " + user + " by owner: <nil> to 0",
			"limit.set " + ws + " by owner: <nil> to 4",
			"limit.set " + org + " by owner: 250/1h,5/1s to 100/1h",
			"limit.set " + org + " by owner: <nil> to 250/1h,5/1s",
		}, events); diff != "" {
			t.Error(diff)
		}
		must(w.service.VerifyAudit(t.Context()))(t)
	})
}

// published counts the messages of each subject.
type published struct {
	mu sync.Mutex
	by map[string]int
}

func (p *published) Publish(subject string, _ []byte) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.by == nil {
		p.by = map[string]int{}
	}
	p.by[subject]++
	return nil
}

func (p *published) count(subject string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.by[subject]
}

// TestLimitsOfDeletedSubjects deletes a user, a workspace and an organisation with limits.
func TestLimitsOfDeletedSubjects(t *testing.T) {
	t.Parallel()
	testkit.EachDatabase(t, func(t *testing.T, db *sqldb.DB) {
		w := newWorld(t, db).withAdministrator()
		for of, id := range map[string]int64{"organization": w.org, "workspace": w.ws, "user": w.ids["stranger"]} {
			must(w.setLimit("owner", of, id, "builds", "1/1h"))(t)
			must(w.setLimit("owner", of, id, "pulls", "1/1h"))(t)
		}
		wantError(t, "deleting a user", w.service.DeleteUser(t.Context(), "stranger"), nil)
		if got := w.applied(); len(got) != 4 {
			t.Errorf("without the user: %v", got)
		}
		must(w.client.DeleteWorkspace(w.as("boss"), &platformv1.DeleteWorkspaceRequest{OrgId: w.org, Id: w.ws}))(t)
		if got := w.applied(); len(got) != 2 {
			t.Errorf("without the workspace: %v", got)
		}
		must(w.client.DeleteOrganization(w.as("boss"), &platformv1.DeleteOrganizationRequest{OrgId: w.org}))(t)
		if got := w.applied(); len(got) != 0 {
			t.Errorf("without the organisation: %v", got)
		}
		_, err := w.setLimit("owner", "organization", w.org, "builds", "1/1h")
		wantError(t, "of a deleted organisation", err, fault.NotFound)
	})
}

// TestAttackLimits sets limits without the right to, with invalid and huge values, and of subjects
// that do not exist; and reads those of others.
func TestAttackLimits(t *testing.T) {
	t.Parallel()
	testkit.EachDatabase(t, func(t *testing.T, db *sqldb.DB) {
		w := newWorld(t, db).withAdministrator()
		before := must(w.setLimit("owner", "organization", w.org, "builds", "9/1h"))(t).GetValue()
		for _, who := range userNames() {
			if who == "owner" {
				continue
			}
			_, err := w.setLimit(who, "organization", w.org, "builds", "0")
			wantError(t, who+" sets the limit of the organisation", err, fault.Denied)
			_, err = w.setLimit(who, "user", w.ids[who], "pulls", "0")
			wantError(t, who+" sets their own", err, fault.Denied)
			_, err = w.client.DeleteLimit(w.as(who), &platformv1.DeleteLimitRequest{Of: "organization", SubjectId: w.org, Kind: "builds"})
			wantError(t, who+" deletes", err, fault.Denied)
			_, err = w.client.ListLimits(w.as(who), &platformv1.ListLimitsRequest{})
			wantError(t, who+" lists", err, fault.Denied)
		}
		_, err := w.client.SetLimit(w.scoped("owner", "narrow", 0, "request", "build"), &platformv1.SetLimitRequest{
			Of: "organization", SubjectId: w.org, Kind: "builds", Limit: &platformv1.LimitSpec{Value: "0"},
		})
		wantError(t, "a token without the scope admin", err, fault.Denied)
		for _, value := range []string{
			"", " ", "-1/1h", "0/1h", "1e9/1h", "1.5/1h", "1000000001/1h", "99999999999999999999/1h", "1/745h", "1/-1h", "1/1ms", "1/9999999999h",
			"1/1h,1/2h,1/3h,1/4h", "1", "1/1h'; DROP TABLE platform_limits; --", "1/1h\x00", strings.Repeat("1", 101) + "/1h", strings.Repeat(" ", 200) + "1/1h",
		} {
			_, err := w.setLimit("owner", "organization", w.org, "builds", value)
			wantError(t, fmt.Sprintf("the value %q", value), err, fault.Invalid)
		}
		for _, value := range []string{"", "-1", "1000000001", "99999999999999999999", "4/1h", "x", "1.5"} {
			_, err := w.setLimit("owner", "organization", w.org, "runningBuilds", value)
			wantError(t, fmt.Sprintf("%q running builds", value), err, fault.Invalid)
		}
		for _, c := range []struct {
			of, kind string
			id       int64
			want     error
		}{
			{"organisation", "builds", w.org, fault.Invalid},
			{"", "builds", w.org, fault.Invalid},
			{"organization", "calls", w.org, fault.Invalid},
			{"organization", "", w.org, fault.Invalid},
			{"organization", "builds", 0, fault.Invalid},
			{"organization", "builds", -w.org, fault.Invalid},
			{"organization", "builds", w.ws, fault.NotFound},
			{"workspace", "builds", w.org, fault.NotFound},
			{"user", "builds", w.org, fault.NotFound},
		} {
			_, err := w.setLimit("owner", c.of, c.id, c.kind, "1/1h")
			wantError(t, fmt.Sprintf("%s of %s %d", c.kind, c.of, c.id), err, c.want)
		}
		if got := slices.Collect(maps.Values(w.applied())); len(got) != 1 || got[0] != before {
			t.Errorf("the limits are %v", got)
		}
		// An owner of one organisation reads nothing of another one, nor of its workspaces.
		other := int64(must(w.client.CreateOrganization(w.as("stranger"), &platformv1.CreateOrganizationRequest{
			Body: &platformv1.CreateOrganizationBody{Organization: &platformv1.OrganizationSpec{Name: new("other")}},
		}))(t).GetOrganization().GetOrgId())
		for name, req := range map[string]*platformv1.ListOrganizationLimitsRequest{
			"another organisation":              {OrgId: w.org},
			"a workspace of another":            {OrgId: w.org, WorkspaceId: &w.ws},
			"a workspace as one of their own":   {OrgId: other, WorkspaceId: &w.ws},
			"an organisation that is not there": {OrgId: 1},
		} {
			_, err := w.client.ListOrganizationLimits(w.as("stranger"), req)
			wantError(t, name, err, fault.Denied)
		}
		if list := must(w.client.ListOwnLimits(w.as("stranger"), &platformv1.ListOwnLimitsRequest{}))(t).GetLimits(); len(list) != 0 {
			t.Errorf("a stranger has %v", list)
		}
		_, err = w.client.ListLimits(w.as("owner"), &platformv1.ListLimitsRequest{Of: "everything"})
		wantError(t, "a filter", err, fault.Invalid)
		_, err = w.client.ListLimits(w.as("owner"), &platformv1.ListLimitsRequest{Id: w.org})
		wantError(t, "an id of nothing", err, fault.Invalid)
	})
}

// TestRequestDays sets for how many days requests of an organisation can be described, which may only
// shorten the setting of the server.
func TestRequestDays(t *testing.T) {
	t.Parallel()
	testkit.EachDatabase(t, func(t *testing.T, db *sqldb.DB) {
		d := deps(t, db)
		d.RequestRetention = 90*24*time.Hour + time.Hour
		w := newWorldWith(t, d, january()).withAdministrator()
		for value, want := range map[string]string{"90": "90", " 030 ": "30", "1": "1", "0": "0"} {
			if l, err := w.setLimit("owner", "organization", w.org, "requestDays", value); err != nil || l.GetValue() != want || l.GetRemaining() != nil {
				t.Errorf("%q: %v, %v", value, l, err)
			}
		}
		must(w.setLimit("owner", "organization", w.org, "requestDays", "30"))(t)
		must(w.setLimit("owner", "organization", w.org, "requestDays", "7"))(t)
		for value, want := range map[string]string{
			"91": "at most 90 days; got 91", "3651": "from 1 to 3650", "-1": "from 1 to 3650", "0.5": "from 1 to 3650", "12h": "from 1 to 3650", "1/24h": "from 1 to 3650",
			"": "from 1 to 3650", "99999999999999999999": "from 1 to 3650", "7'; --": "from 1 to 3650",
		} {
			_, err := w.setLimit("owner", "organization", w.org, "requestDays", value)
			wantError(t, fmt.Sprintf("the value %q", value), err, fault.Invalid)
			if err != nil && !strings.Contains(err.Error(), want) {
				t.Errorf("the value %q: %v", value, err)
			}
		}
		for of, id := range map[string]int64{"workspace": w.ws, "user": w.ids["view"]} {
			_, err := w.setLimit("owner", of, id, "requestDays", "7")
			wantError(t, "of a "+of, err, fault.Invalid)
		}
		_, err := w.setLimit("boss", "organization", w.org, "requestDays", "8")
		wantError(t, "an owner of the organisation", err, fault.Denied)
		if got := w.applied(); len(got) != 1 || got[fmt.Sprintf("organization/%d/requestDays", w.org)] != "7" {
			t.Errorf("services get %v", got)
		}
		list := must(w.client.ListOrganizationLimits(w.as("boss"), &platformv1.ListOrganizationLimitsRequest{OrgId: w.org}))(t).GetLimits()
		if len(list) != 1 || list[0].GetKind() != "requestDays" || list[0].GetValue() != "7" {
			t.Errorf("an owner of the organisation reads %v", list)
		}
		last := w.events("limit.set")[0]
		if last.GetBefore().AsMap()["value"] != "30" || last.GetAfter().AsMap()["value"] != "7" || last.GetOrgId() == nil {
			t.Errorf("the audit trail has %v", last)
		}
	})
}

// TestRequestDaysOfSettings sets the days on servers that store requests forever, and for hours.
func TestRequestDaysOfSettings(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		retention time.Duration
		value     string
		want      error
	}{
		{0, "3650", nil},
		{24 * time.Hour, "1", nil},
		{24*time.Hour - 1, "1", fault.Invalid},
		{time.Hour, "0", nil},
	} {
		d := deps(t, testkit.SQLite(t))
		d.RequestRetention = c.retention
		w := newWorldWith(t, d, january()).withAdministrator()
		_, err := w.setLimit("owner", "organization", w.org, "requestDays", c.value)
		wantError(t, fmt.Sprintf("%s days with a retention of %s", c.value, c.retention), err, c.want)
	}
}

// TestLimitsHaveABound checks the number of limits.
func TestLimitsHaveABound(t *testing.T) {
	t.Parallel()
	testkit.EachDatabase(t, func(t *testing.T, db *sqldb.DB) {
		w := newWorld(t, db).withAdministrator()
		for i := range limits.OwnLimits {
			if _, err := db.ExecContext(t.Context(), `INSERT INTO platform_limits (subject, kind, value, org_id, updated_at) VALUES ($1, 'builds', '1/1h', $2, 0)`,
				fmt.Sprintf("organization/%d", i+1), w.org); err != nil {
				t.Fatal(err)
			}
		}
		_, err := w.setLimit("owner", "user", w.ids["view"], "builds", "1/1h")
		wantError(t, "one more", err, fault.Invalid)
		if n := len(w.applied()); n != limits.OwnLimits {
			t.Errorf("services get %d", n)
		}
	})
}

// TestAdministratorsSetOneLimit lets several administrators set a limit concurrently: each change
// has the value before it in the audit trail.
func TestAdministratorsSetOneLimit(t *testing.T) {
	t.Parallel()
	testkit.EachDatabase(t, func(t *testing.T, db *sqldb.DB) {
		w := newWorld(t, db).withAdministrator()
		var done atomic.Int32
		var all sync.WaitGroup
		for i := range 8 {
			all.Go(func() {
				_, err := w.setLimit("owner", "organization", w.org, "builds", fmt.Sprintf("%d/1h", i+1))
				if err == nil {
					done.Add(1)
				} else if e, _ := fault.As(err); e == nil || e.Kind != fault.Conflict {
					t.Error(err)
				}
			})
		}
		all.Wait()
		events := w.events("limit.set")
		if len(events) != int(done.Load()) || len(events) == 0 {
			t.Fatalf("%d events of %d changes", len(events), done.Load())
		}
		for i, e := range events[:len(events)-1] {
			if e.GetBefore().AsMap()["value"] != events[i+1].GetAfter().AsMap()["value"] {
				t.Errorf("the event %v follows %v", e, events[i+1])
			}
		}
	})
}

// TestRemainingOfLimits reads how much of a limit is left, while charges are made, and without Redis.
func TestRemainingOfLimits(t *testing.T) {
	t.Parallel()
	d, c := deps(t, testkit.SQLite(t)), january()
	client := testkit.Redis(t)
	d.Limiter, d.Now = ratelimit.New(client, prometheus.NewRegistry(), testkit.Log(t)), c.Now
	w := newWorldWith(t, d, c).withAdministrator()
	must(w.setLimit("owner", "workspace", w.ws, "builds", "10/1h"))(t)
	must(w.setLimit("owner", "workspace", w.ws, "runningBuilds", "2"))(t)
	must(w.setLimit("owner", "user", w.ids["launch"], "pulls", "0"))(t)
	id := must(w.client.Authorize(t.Context(), &platformv1.AuthorizeRequest{AccessToken: w.tokens["launch"], WorkspaceId: w.ws}))(t).GetIdentity()
	if id.GetOrganizationId() != w.org {
		t.Errorf("the organisation of %v is not %d", id, w.org)
	}
	f := caller.LimitsFollower{Platform: w.client, Limiter: d.Limiter, Changed: make(chan struct{}), Log: testkit.Log(t)}
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { f.Run(ctx) })
	defer running.Wait()
	defer stop()
	who := caller.Of(id).Charged(ctx)
	testkit.Until(t, "the limit applies", func() error {
		if d.Limiter.RunningOf(who) == nil {
			return errors.New("no limit is listed")
		}
		return nil
	})
	must(d.Limiter.ChargeCaller(ctx, ratelimit.Builds, who, 3))(t)
	remaining := func() map[string]any {
		out := map[string]any{}
		for _, l := range must(w.client.ListOrganizationLimits(w.as("admin"), &platformv1.ListOrganizationLimitsRequest{OrgId: w.org, WorkspaceId: &w.ws}))(t).GetLimits() {
			out[l.GetKind()] = nil
			if l.GetRemaining() != nil {
				out[l.GetKind()] = l.GetRemaining().GetValue()
			}
		}
		return out
	}
	if diff := cmp.Diff(map[string]any{"builds": 7.0, "runningBuilds": nil}, remaining()); diff != "" {
		t.Error(diff)
	}
	own := must(w.client.ListOwnLimits(w.as("launch"), &platformv1.ListOwnLimitsRequest{}))(t).GetLimits()
	if len(own) != 1 || own[0].GetValue() != "0" || own[0].GetRemaining() != nil {
		t.Errorf("the user's are %v", own)
	}
	if err := client.Close(); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]any{"builds": nil, "runningBuilds": nil}, remaining()); diff != "" {
		t.Errorf("without Redis: %s", diff)
	}
}

// TestDeclaredLimits checks what the OpenAPI document declares.
func TestDeclaredLimits(t *testing.T) {
	t.Parallel()
	options := (&platformv1.LimitSpec{}).ProtoReflect().Descriptor().Fields().ByName("value").Options()
	if most, _ := proto.GetExtension(options, openapiv1.E_MaxLength).(int32); most != limits.OwnLimitText {
		t.Errorf("declared are %d characters, enforced %d", most, limits.OwnLimitText)
	}
	options = (&platformv1.ListLimitsRequest{}).ProtoReflect().Descriptor().Fields().ByName("of").Options()
	declared, _ := proto.GetExtension(options, openapiv1.E_Values).([]string)
	var enforced []string
	for _, c := range ratelimit.Categories() {
		enforced = append(enforced, string(c))
	}
	if diff := cmp.Diff(enforced, declared); diff != "" {
		t.Error(diff)
	}
	if limits.OwnLimitWindow != 744*time.Hour {
		t.Errorf("the comment of LimitSpec has another window than %s", limits.OwnLimitWindow)
	}
}

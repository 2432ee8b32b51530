package ratelimit

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	"slipway.dev/services/internal/fairshare"
	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/limits"
)

// RunningBuilds is the kind of a limit that counts what runs at a time. It has no windows, and
// the build service applies it.
const RunningBuilds Kind = "runningBuilds"

// BuildMinutes is the kind of a limit for the minutes that workers spend on builds. The first minute of a
// build is charged when it is accepted, and the others with SpendCaller when it has ended.
const BuildMinutes Kind = "buildMinutes"

// RequestDays is the kind of a limit of an organisation: for how many days its container requests
// can be described after their names expired. It has no windows, and the container service
// applies it when it deletes requests.
const RequestDays Kind = "requestDays"

// OwnKinds returns the kinds of limits that a subject can have.
func OwnKinds() []Kind {
	return []Kind{Builds, RunningBuilds, BuildMinutes, Pulls, Requests, Searches, RequestDays}
}

// A Category is the kind of a subject, as named in the REST API.
type Category string

// The categories of subjects.
const (
	Organization Category = "organization"
	Workspace    Category = "workspace"
	User         Category = "user"
)

// Categories returns all categories.
func Categories() []Category { return []Category{Organization, Workspace, User} }

// A Subject is an organisation, a workspace or a user with an id of the platform.
type Subject struct {
	Of Category
	ID int64
}

// key returns the key that the charges of a subject are counted under. The one of a user is also
// used without a limit of the user's own, so that earlier charges count when one is set.
func (s Subject) key(endpoint string) string {
	at := strconv.FormatInt(s.ID, 10) + "@" + endpoint
	if s.Of == User {
		return fairshare.User(at).String()
	}
	return string(s.Of) + ":" + at
}

// Own are the limits that administrators have set for single subjects of one platform. They must
// not be changed after SetOwn. The zero value has none.
type Own struct {
	// Endpoint is the platform of the subjects.
	Endpoint string
	// Rates are the limits by kind, without RunningBuilds and RequestDays. An empty Limit means no
	// limit.
	Rates map[Subject]map[Kind]Limit
	// Running are the limits of RunningBuilds; 0 means no limit.
	Running map[Subject]int
	// Days are the limits of RequestDays; 0 means no limit.
	Days map[Subject]int
}

// Add parses and adds a limit.
func (o *Own) Add(s Subject, k Kind, value string) error {
	rate, number, err := ParseOwn(k, value)
	if err != nil {
		return err
	}
	switch k {
	case RunningBuilds:
		if o.Running == nil {
			o.Running = map[Subject]int{}
		}
		o.Running[s] = number
	case RequestDays:
		if o.Days == nil {
			o.Days = map[Subject]int{}
		}
		o.Days[s] = number
	default:
		if o.Rates == nil {
			o.Rates = map[Subject]map[Kind]Limit{}
		}
		if o.Rates[s] == nil {
			o.Rates[s] = map[Kind]Limit{}
		}
		o.Rates[s][k] = rate
	}
	return nil
}

// IsNumber reports whether the limits of a kind are numbers instead of rules.
func (k Kind) IsNumber() bool { return k == RunningBuilds || k == RequestDays }

// ParseOwn parses the limit of a subject: a number if k.IsNumber, and the form of
// Limit.UnmarshalText for other kinds. It returns fault.Invalid for any other text.
func ParseOwn(k Kind, value string) (rate Limit, number int, err error) {
	if len(value) > limits.OwnLimitText {
		return nil, 0, fault.Invalid.Newf("value has at most %d characters", limits.OwnLimitText)
	}
	value = strings.TrimSpace(value)
	switch k {
	case RunningBuilds:
		number, err = strconv.Atoi(value)
		if err != nil || number < 0 || number > limits.OwnLimitCount {
			return nil, 0, fault.Invalid.Newf("value of %s is a number from 0 (no limit) to %d; got %s", k, limits.OwnLimitCount, fault.Quoted(value))
		}
		return nil, number, nil
	case RequestDays:
		number, err = strconv.Atoi(value)
		if err != nil || number < 0 || number > limits.OwnLimitDays {
			return nil, 0, fault.Invalid.Newf("value of %s is a whole number of days from 1 to %d, or 0 for the server's setting; got %s", k, limits.OwnLimitDays, fault.Quoted(value))
		}
		return nil, number, nil
	default:
		rate, err = parseRules(value)
		return rate, 0, err
	}
}

// parseRules parses the rules of a limit of a subject.
func parseRules(value string) (Limit, error) {
	if value == "" {
		return nil, fault.Invalid.Newf("value is missing: a limit, e.g. 250/1h, or 0 for none")
	}
	var rate Limit
	if err := rate.UnmarshalText([]byte(value)); err != nil {
		return nil, fault.Invalid.Newf("value: %s", fault.Quote(err.Error()))
	}
	if len(rate) > limits.OwnLimitRules {
		return nil, fault.Invalid.Newf("value has at most %d rules", limits.OwnLimitRules)
	}
	for _, r := range rate {
		if r.Count > limits.OwnLimitCount || r.Window > limits.OwnLimitWindow {
			return nil, fault.Invalid.Newf("value allows at most %d in at most %s; use 0 for no limit", limits.OwnLimitCount, shortDuration(limits.OwnLimitWindow))
		}
	}
	return rate, nil
}

// SetOwn replaces the limits of single subjects.
func (l *Limiter) SetOwn(own Own) {
	l.own.Store(&own)
	l.knownOnce.Do(func() { close(l.known) })
}

// OwnKnown returns a channel that is closed by the first call of SetOwn.
func (l *Limiter) OwnKnown() <-chan struct{} { return l.known }

// A Caller is what charges are counted against: a client and, for a user or a robot of a
// platform, the subjects whose limits apply.
type Caller struct {
	Client fairshare.Client
	// Endpoint is the platform of the ids, or "" for an anonymous caller.
	Endpoint string
	// UserID, WorkspaceID and OrganizationID are 0 for none.
	UserID, WorkspaceID, OrganizationID int64
}

// subjects returns the caller's subjects in the order of Budgets.
func (c Caller) subjects() [3]Subject {
	return [3]Subject{{User, c.UserID}, {Workspace, c.WorkspaceID}, {Organization, c.OrganizationID}}
}

// Budgets are the limits of a caller for one kind of call, with what they are counted under: its
// own, and those that it shares with the others of its workspace and its organisation.
type Budgets [3]budget

// A budget without a limit is not charged.
type budget struct {
	of    Category
	key   string
	limit Limit
}

// BudgetsOf returns the budgets of a caller. A user's own limit replaces the one of all users.
// What is charged in a workspace counts against the workspace and its organisation too, if they
// have limits.
func (l *Limiter) BudgetsOf(k Kind, who Caller) Budgets {
	all := Budgets{{User, who.Client.String(), l.LimitOf(k, who.Client)}}
	if who.Endpoint == "" {
		return all
	}
	own := l.own.Load()
	for i, s := range who.subjects() {
		if s.ID == 0 {
			continue
		}
		if limit := (*l.limits.Load())[k].Organization; s.Of == Organization && len(limit) > 0 {
			all[i] = budget{Organization, s.key(who.Endpoint), limit}
		}
		if own.Endpoint != who.Endpoint {
			continue
		}
		if limit, has := own.Rates[s][k]; has {
			all[i] = budget{s.Of, s.key(who.Endpoint), limit}
		}
	}
	return all
}

// ChargeCaller charges n to all budgets of a caller, as ChargeBudgets does.
func (l *Limiter) ChargeCaller(ctx context.Context, k Kind, who Caller, n int) (Quota, error) {
	return l.ChargeBudgets(ctx, k, l.BudgetsOf(k, who), n)
}

// ChargeBudgets charges n to every budget, or to none, and returns the quota with the least left.
// The error is that of the first budget that is used up, the caller's own first; see Charge. A
// charge above a whole limit counts as the whole limit. The budgets are charged one after another,
// because they are in different slots of a Redis cluster; busy ones are charged in memory.
func (l *Limiter) ChargeBudgets(ctx context.Context, k Kind, all Budgets, n int) (Quota, error) {
	var tightest Quota
	for i, b := range all {
		q, err := l.charge(ctx, account{string(k), b.key}, b.of, b.limit, b.limit.cap(n))
		if err != nil {
			l.refund(ctx, k, all[:i], n)
			return Quota{}, err
		}
		if q.Limit != 0 && (tightest.Limit == 0 || q.Remaining < tightest.Remaining) {
			tightest = q
		}
	}
	return tightest, nil
}

// SpendCaller charges n for something that has happened already: it is not rejected, and may exceed
// the limits, so that less is left later. It returns an error, and has charged only a part, if Redis
// fails; while Redis is known to be unavailable it charges nothing.
func (l *Limiter) SpendCaller(ctx context.Context, k Kind, who Caller, n int) error {
	for _, b := range l.BudgetsOf(k, who) {
		if len(b.limit) == 0 || n <= 0 {
			continue
		}
		if l.isDown() {
			l.open.Inc()
			continue
		}
		if _, err := l.run(ctx, account{string(k), b.key}, b.limit, n, trade{spent: 1}); err != nil {
			if ctx.Err() == nil {
				l.failed(err)
			}
			return err
		}
	}
	return nil
}

// refund returns a charge to budgets.
func (l *Limiter) refund(ctx context.Context, k Kind, charged []budget, n int) {
	ctx = context.WithoutCancel(ctx)
	for _, b := range charged {
		if _, err := l.charge(ctx, account{string(k), b.key}, b.of, b.limit, -b.limit.cap(n)); err != nil {
			l.log.WarnContext(ctx, "A rejected call was charged", "limit", k, "err", err)
		}
	}
}

// cap returns n, or the most that the limit allows at once.
func (l Limit) cap(n int) int {
	for _, r := range l {
		n = min(n, r.Count)
	}
	return n
}

// Remaining returns how much of a subject's limit is left. It returns false if that is unknown:
// without a limit, or while Redis is unavailable.
func (l *Limiter) Remaining(ctx context.Context, endpoint string, s Subject, k Kind, limit Limit) (int, bool) {
	if len(limit) == 0 || l.isDown() {
		return 0, false
	}
	a, err := l.run(ctx, account{string(k), s.key(endpoint)}, limit, 0, trade{})
	return a.Remaining, err == nil
}

// A RunningLimit is a limit of RunningBuilds that a subject has; Most 0 means no limit.
type RunningLimit struct {
	Subject
	Most int
}

// RunningOf returns the limits of RunningBuilds that the subjects of a caller have.
func (l *Limiter) RunningOf(who Caller) (all []RunningLimit) {
	own := l.own.Load()
	if len(own.Running) == 0 || who.Endpoint == "" || own.Endpoint != who.Endpoint {
		return nil
	}
	for _, s := range who.subjects() {
		if most, has := own.Running[s]; has {
			all = append(all, RunningLimit{s, most})
		}
	}
	return all
}

// of returns the words for a subject in a message about its limit.
func (c Category) of() string {
	switch c {
	case Organization:
		return " of the organisation"
	case Workspace:
		return " of the workspace"
	default:
		return ""
	}
}

// detail returns the details of the error for a used up limit: {"of": "organization"}, or nil for a
// user and for an address.
func (c Category) detail() proto.Message {
	if c == User {
		return nil
	}
	return &structpb.Struct{Fields: map[string]*structpb.Value{"of": structpb.NewStringValue(string(c))}}
}

// String returns the subject in messages and logs, e.g. "organization 5".
func (s Subject) String() string { return fmt.Sprintf("%s %d", s.Of, s.ID) }

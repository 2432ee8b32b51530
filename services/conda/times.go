package conda

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	condav1 "slipway.dev/proto/gen/slipway/conda/v1"

	"slipway.dev/services/conda/envfile"
	"slipway.dev/services/conda/spec"
	"slipway.dev/services/internal/caller"
	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/limits"
)

// readTimes parses the fields of a request that limit the age of packages. least is the minimum
// age that the operator configured, which a request cannot reduce; 0 means no minimum.
func (q *query) readTimes(in *condav1.LockQuery, now time.Time, least time.Duration) error {
	var err error
	if q.newest, err = readTime("excludeNewer", in.GetExcludeNewer()); err != nil {
		return err
	}
	if q.asOf, err = spec.ParseAsOf(in.GetAsOf()); err != nil {
		return err
	}
	if err := q.readMinAge(in, now); err != nil {
		return err
	}
	if q.asOf.After(now) {
		q.note("asOf is in the future: until then, the same request may resolve to other packages")
	}
	isEarlier := func(t time.Time) bool { return !t.IsZero() && !t.After(now.Add(-least)) }
	if least > 0 && !isEarlier(q.newest) && !isEarlier(q.asOf) {
		q.newest = now.Add(-least).Truncate(time.Second)
		q.least = least
		q.note("This server only uses packages that are at least " + spec.AgeText(least) + " old (conda_min_age), which were built until " + timeText(q.newest))
	}
	return nil
}

// explainAge adds conda_min_age to a conflict about packages that are too new.
func (q *query) explainAge(refusal *condav1.LockPackagesResponse) {
	if q.least > 0 && hasNewer(refusal.GetConflict().GetReasons()) {
		text := refusal.GetMessage() + "\nThis server only uses packages that are at least " + spec.AgeText(q.least) + " old (conda_min_age): request earlier versions, or ask its operator"
		refusal.Message = &text
	}
}

// hasNewer reports whether a reason is that a package is too new.
func hasNewer(reasons []*condav1.Reason) bool {
	return slices.ContainsFunc(reasons, func(r *condav1.Reason) bool {
		return strings.Contains(r.GetText(), " is newer than ") || hasNewer(r.GetBecause())
	})
}

// readMinAge parses minAge and minAgeExcept. Without minAge, the exceptions apply to
// excludeNewer.
func (q *query) readMinAge(in *condav1.LockQuery, now time.Time) (err error) {
	if q.recentNames, err = spec.ParseAgeExceptions(in.GetMinAgeExcept()); err != nil {
		return err
	}
	switch {
	case in.GetMinAge() != "":
		age, err := spec.ParseAge(in.GetMinAge())
		if err != nil {
			return err
		}
		until := now
		if !q.asOf.IsZero() {
			until = q.asOf
		}
		q.recent = until.Add(-age).Truncate(time.Second)
	case len(q.recentNames) == 0:
	case q.newest.IsZero():
		return fault.Invalid.Newf("minAgeExcept requires minAge or excludeNewer")
	default:
		q.recent, q.newest = q.newest, time.Time{}
	}
	return nil
}

// note adds a sentence to the response.
func (q *query) note(text string) {
	if !slices.Contains(q.notes, text) {
		q.notes = append(q.notes, text)
	}
}

// timeText formats a time for responses.
func timeText(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// readTime parses a time in RFC 3339; "" is zero.
func readTime(field, text string) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return at, fault.Invalid.New(field+" must be a time such as 2026-01-31T00:00:00Z", err)
	}
	return at, nil
}

// listsOf returns the package lists of a request's channels for a platform, as of q.asOf.
func (s *Service) listsOf(ctx context.Context, who caller.ID, q *query, subdir string) ([]list, error) {
	lists, err := s.listsAfter(ctx, q.after, who, q.channels, subdir, "noarch")
	if err != nil {
		return nil, q.blame(err)
	}
	if q.asOf.IsZero() {
		return lists, nil
	}
	for i := range lists {
		l := &lists[i]
		access, err := s.access(ctx, who, l.channel)
		if err == nil {
			l.State, err = s.deps.Channels.AsOf(ctx, l.channel, l.subdir, access, l.State, q.asOf)
		}
		if err != nil {
			return nil, unsolved(ctx, fault.In(l.channel.Name, err))
		}
	}
	q.noteHistory(lists)
	return lists, nil
}

// blame adds to the fault for a channel that does not exist which package it was added for.
func (q *query) blame(err error) error {
	var missing missingChannel
	f, ok := fault.As(err)
	if !ok || !errors.As(err, &missing) {
		return err
	}
	for _, text := range q.added {
		match, bad := spec.ParseMatchSpec(text)
		if bad != nil || match.Channel != string(missing) {
			continue
		}
		by := fault.Quote(text) + " is to come from it"
		if slices.Contains(envfile.BasePackages(), text) {
			by += ", a base package, which every container gets: name others, or none, in packages.condaOpts.basePackages"
		}
		return fault.Invalid.New(fmt.Sprintf("%s (%s)", f.Public, by), err).WithCode(f.Code)
	}
	return err
}

// noteHistory adds notes about how far the history of lists reaches.
func (q *query) noteHistory(lists []list) {
	since, unknown := historySince(lists)
	if len(unknown) == 0 {
		q.note("Solved with the package lists as of " + timeText(q.asOf) + "; the history of this server begins at " + timeText(since))
	} else {
		q.note("Solved with packages that were built until " + timeText(q.asOf) + ", according to their timestamps, because the history of this server only begins at " + timeText(since) + " for " + strings.Join(unknown, ", "))
	}
	for _, l := range lists {
		if l.IsKnown && !l.Until.IsZero() && q.asOf.Sub(l.Until) > limits.ChannelGap {
			q.note("This server last read the list of " + l.at() + " before that time at " + timeText(l.Until) + "; packages that were added later are missing")
		}
	}
}

// historySince returns when the history of all lists begins, and the names of the lists whose
// history does not have the requested time.
func historySince(lists []list) (since time.Time, unknown []string) {
	for _, l := range lists {
		if l.Index == nil {
			continue
		}
		if l.Since.After(since) {
			since = l.Since
		}
		if !l.IsKnown {
			unknown = append(unknown, l.at())
		}
	}
	return since, unknown
}

// newestFor returns the time after which packages are excluded: q.newest, or q.asOf if that is
// earlier and the history of a list does not have that time.
func (q *query) newestFor(lists []list) time.Time {
	_, unknown := historySince(lists)
	if q.asOf.IsZero() || len(unknown) == 0 || !q.newest.IsZero() && q.newest.Before(q.asOf) {
		return q.newest
	}
	return q.asOf
}

// oldest returns the time after which packages were excluded, except those named in
// minAgeExcept; zero for none.
func (q *query) oldest(lists []list) time.Time {
	newest := q.newestFor(lists)
	if newest.IsZero() || !q.recent.IsZero() && q.recent.Before(newest) {
		return q.recent
	}
	return newest
}

// noteUndated adds a note about packages without a timestamp if the request limits the age of
// packages. Such packages are not excluded: channels have set timestamps for years, so a package
// without a timestamp is usually old.
func (q *query) noteUndated(records []spec.Record, lists []list) {
	if q.newestFor(lists).IsZero() && q.recent.IsZero() {
		return
	}
	var names []string
	for i := range records {
		if records[i].Timestamp == 0 {
			names = append(names, records[i].Name)
		}
	}
	if len(names) == 0 {
		return
	}
	more := ""
	if n := len(names) - limits.CondaNamed; n > 0 {
		names, more = names[:limits.CondaNamed], " and "+strconv.Itoa(n)+" more"
	}
	q.note("The channels have no timestamp for " + strings.Join(names, ", ") + more + ", so that the age is unknown")
}

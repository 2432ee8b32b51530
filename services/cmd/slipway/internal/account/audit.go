package account

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	platformv1 "slipway.dev/proto/gen/slipway/platform/v1"
	"slipway.dev/services/cmd/slipway/internal/output"
	"slipway.dev/services/cmd/slipway/internal/session"
	"slipway.dev/services/cmd/slipway/internal/usage"
	"slipway.dev/services/internal/lifetime"
)

// An auditQuery holds the filters of `slipway audit`.
type auditQuery struct {
	actor, action, subject string
	since                  lifetime.Value
	refused                bool
	limit                  int
}

// Audit returns `slipway audit`.
func Audit(s *session.Settings) *cobra.Command {
	var q auditQuery
	var lines bool
	cmd := &cobra.Command{
		Use:   "audit",
		Short: "List changes, sign-ins and rejected attempts, newest first; for administrators",
		Long: `List changes, sign-ins and rejected attempts, newest first; for administrators.

With --lines each event is printed as one line of JSON that includes the values
before and after the change. All matching events are printed unless --limit is set.`,
		Example: "  slipway audit --actor ada --since 7d\n  slipway audit --action 'credentials.*' --refused\n" +
			"  slipway audit --lines --since 1d > audit.jsonl",
		Args: usage.Exactly(0), ValidArgsFunction: cobra.NoFileCompletions,
	}
	flags := cmd.Flags()
	flags.StringVar(&q.actor, "actor", "", "Only events caused by this `user`.")
	flags.StringVar(&q.action, "action", "", "Only this action, e.g. token.create, or a prefix: 'credentials.*'.")
	flags.StringVar(&q.subject, "subject", "", "Only events about this id or `name`.")
	flags.Var(&q.since, "since", "Only events within this time before now, e.g. 7d or 12h.")
	flags.BoolVar(&q.refused, "refused", false, "Only rejected attempts.")
	flags.IntVar(&q.limit, "limit", 100, "Maximum number of events.")
	flags.BoolVar(&lines, "lines", false, "Print each event as one line of JSON.")
	for _, name := range []string{"actor", "subject", "limit"} {
		usage.CompleteFlag(cmd, name)
	}
	usage.CompleteFlag(cmd, "action", "credentials.*", "member.*", "organization.*", "participant.*", "session.*", "sign-in", "token.*", "user.*", "workspace.*")
	usage.CompleteFlag(cmd, "since", "1h", "1d", "7d", "30d")
	format := output.Flag(cmd, &platformv1.ListAuditEventsResponse{})
	cmd.RunE = s.WithClient(func(cmd *cobra.Command, c *session.Client, _ []string) error {
		if q.limit < 1 {
			return usage.Errorf("--limit must be at least 1")
		}
		if lines {
			return q.printLines(cmd, c, flags.Changed("limit"))
		}
		raw, res, err := q.page(cmd.Context(), c, min(q.limit, 1000), nil)
		if err != nil {
			return err
		}
		t := output.Table{{"NUMBER", "TIME", "ACTOR", "CLIENT", "ACTION", "SUBJECT", "RESULT"}}
		for _, e := range res.GetEvents() {
			result := "done"
			if e.GetRefused() {
				result = "rejected: " + e.GetReason()
			}
			t = append(t, []string{output.Tallied(e.GetSequence()), output.FormatTime(e.GetAt()), e.GetActor(), e.GetClient(), e.GetAction(), e.GetSubject(), result})
		}
		return format.List(cmd, raw, t, "No events match.")
	})
	return cmd
}

// page requests the events before a sequence number, or the newest events if before is nil.
func (q auditQuery) page(ctx context.Context, c *session.Client, limit int, before *float64) ([]byte, *platformv1.ListAuditEventsResponse, error) {
	query := url.Values{"max": {strconv.Itoa(limit)}}
	for name, v := range map[string]string{"actor": q.actor, "action": q.action, "subject": q.subject} {
		if v != "" {
			query.Set(name, v)
		}
	}
	if q.since != 0 {
		query.Set("since", time.Now().Add(-time.Duration(q.since)).UTC().Format(time.RFC3339))
	}
	if q.refused {
		query.Set("refused", "true")
	}
	if before != nil {
		query.Set("before", output.Tallied(*before))
	}
	var res platformv1.ListAuditEventsResponse
	raw, err := c.Do(ctx, session.Call{Method: http.MethodGet, Path: "/api/admin/audit", Query: query, Signed: true}, &res)
	if err != nil {
		return nil, nil, fmt.Errorf("listing the audit events: %w", err)
	}
	return raw, &res, nil
}

// printLines prints the events as lines of JSON. It prints all events unless limited is set.
func (q auditQuery) printLines(cmd *cobra.Command, c *session.Client, limited bool) error {
	var before *float64
	for left := q.limit; left > 0 || !limited; {
		size := 1000
		if limited {
			size = min(size, left)
		}
		raw, res, err := q.page(cmd.Context(), c, size, before)
		if err != nil {
			return err
		}
		var doc struct {
			Events []json.RawMessage `json:"events"`
		}
		if err := json.Unmarshal(raw, &doc); err != nil {
			return fmt.Errorf("reading the audit events: %w", err)
		}
		for _, e := range doc.Events {
			if _, err := fmt.Fprintln(cmd.OutOrStdout(), string(e)); err != nil {
				return err
			}
		}
		left -= len(doc.Events)
		if res.GetNext() == nil || len(doc.Events) == 0 {
			return nil
		}
		next := res.GetNext().GetValue()
		before = &next
	}
	return nil
}

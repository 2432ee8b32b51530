package account

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/proto"

	platformv1 "slipway.dev/proto/gen/slipway/platform/v1"
	"slipway.dev/services/cmd/slipway/internal/output"
	"slipway.dev/services/cmd/slipway/internal/session"
	"slipway.dev/services/cmd/slipway/internal/usage"
)

// eventNames are the types of events that `--event` completes.
func eventNames() []string {
	return []string{"build.*", "build.started", "build.succeeded", "build.failed", "build.verified", "build.verification_failed", "mirror.*", "mirror.started", "mirror.succeeded", "mirror.failed", "container.*", "container.ready", "container.failed", "container.patched", "container.scanned", "webhook.disabled"}
}

// Webhooks returns `slipway webhooks`.
func Webhooks(s *session.Settings) *cobra.Command {
	cmd := usage.Group("webhooks", "Manage addresses to which the server sends events, and their deliveries")
	cmd.Long = `Manage addresses to which the server sends events: of your own builds and
containers, or of those of a workspace (--workspace).

The server sends each event as a POST request with a CloudEvent in JSON, which is
signed (https://www.standardwebhooks.com). It attempts a message for a day until the
receiver responds with a status of 200 to 299.`
	cmd.AddCommand(
		webhooksListCommand(s), webhooksCreateCommand(s), webhooksShowCommand(s), webhooksUpdateCommand(s), webhooksDeleteCommand(s), webhooksTestCommand(s),
		deliveriesCommand(s), deliveryCommand(s), deliveryRepeatCommand(s),
	)
	return cmd
}

func webhooks(ctx context.Context, c *session.Client, query url.Values) ([]byte, []*platformv1.Webhook, error) {
	var res platformv1.ListWebhooksResponse
	raw, err := c.Do(ctx, session.Call{Method: http.MethodGet, Path: "/api/webhooks", Query: query, Signed: true}, &res)
	if err != nil {
		return nil, nil, fmt.Errorf("listing the webhooks: %w", err)
	}
	return raw, res.GetWebhooks(), nil
}

// deliveries lists deliveries. query may name a workspace, a status and a maximum.
func deliveries(ctx context.Context, c *session.Client, hook string, query url.Values) ([]byte, []*platformv1.Delivery, error) {
	var res platformv1.ListDeliveriesResponse
	raw, err := c.Do(ctx, session.Call{Method: http.MethodGet, Path: "/api/webhooks/" + url.PathEscape(hook) + "/deliveries", Query: query, Signed: true}, &res)
	if err != nil {
		return nil, nil, fmt.Errorf("listing the deliveries of %s: %w", hook, err)
	}
	return raw, res.GetDeliveries(), nil
}

// A webhookCall is a call for a webhook, or for one of its deliveries.
type webhookCall struct {
	method string
	// below is the part of the path after the id of the webhook.
	below string
	body  proto.Message
	doing string // for messages, such as "deleting the webhook"
}

// do makes the call for a webhook in the workspace that a query names.
func (w webhookCall) do(ctx context.Context, c *session.Client, hook string, query url.Values, into proto.Message) ([]byte, error) {
	call := session.Call{Method: w.method, Path: "/api/webhooks/" + url.PathEscape(hook) + w.below, Query: query, Signed: true}
	if w.body != nil {
		call.Body = w.body
	}
	raw, err := c.Do(ctx, call, into)
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", w.doing, hook, err)
	}
	return raw, nil
}

// completeWebhooks completes a webhook, then a delivery of it. most is the number of arguments that
// are completed.
func completeWebhooks(s *session.Settings, workspace *string, most int) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, prefix string) ([]cobra.Completion, cobra.ShellCompDirective) {
		return s.Completions(func(ctx context.Context, c *session.Client) (out []cobra.Completion, err error) {
			query, err := c.InWorkspace(ctx, *workspace)
			switch {
			case err != nil || len(args) >= most:
				return nil, err
			case len(args) == 0:
				_, list, err := webhooks(ctx, c, query)
				for _, h := range list {
					out = append(out, session.CompleteFlag(h.GetId(), h.GetUrl()))
				}
				return out, err
			}
			_, list, err := deliveries(ctx, c, args[0], query)
			for _, d := range list {
				out = append(out, session.CompleteFlag(d.GetId(), d.GetType()+" "+d.GetStatus()))
			}
			return out, err
		})(cmd, args, prefix)
	}
}

// statusOf returns the state of a webhook in words.
func statusOf(h *platformv1.Webhook) string {
	switch {
	case h.GetDisabled():
		return "disabled"
	case h.GetFailingSince() != nil:
		return "failing since " + output.FormatTime(h.GetFailingSince())
	}
	return "enabled"
}

func webhookTable(h *platformv1.Webhook) output.Table {
	var t output.Table
	t.Fact("Id", h.GetId())
	t.Fact("URL", h.GetUrl())
	t.Fact("Events", h.GetEvents()...)
	t.Fact("Status", statusOf(h))
	t.Fact("Reason", h.GetDisabledReason().GetValue())
	t.Fact("Created", output.FormatTime(h.GetDateCreated()))
	t.Fact("Created by", h.GetCreatedBy().GetValue())
	t.Fact("Changed", output.FormatTime(h.GetLastUpdated()))
	return t
}

func webhooksListCommand(s *session.Settings) *cobra.Command {
	cmd := &cobra.Command{
		Use: "list", Short: "List the webhooks", Args: usage.Exactly(0), ValidArgsFunction: cobra.NoFileCompletions,
		Example: "  slipway webhooks list\n  slipway webhooks list --workspace lab/rnaseq",
	}
	workspace := session.WorkspaceFlag(cmd, s, "to look in")
	format := output.Flag(cmd, &platformv1.ListWebhooksResponse{})
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		c, query, err := s.Within(cmd.Context(), *workspace)
		if err != nil {
			return err
		}
		raw, list, err := webhooks(cmd.Context(), c, query)
		if err != nil {
			return err
		}
		t := output.Table{{"ID", "URL", "EVENTS", "STATUS"}}
		for _, h := range list {
			t = append(t, []string{h.GetId(), h.GetUrl(), strings.Join(h.GetEvents(), ","), statusOf(h)})
		}
		return format.List(cmd, raw, t, "No webhooks yet. `slipway webhooks create URL` creates one.")
	}
	return cmd
}

// eventsFlag adds --event.
func eventsFlag(cmd *cobra.Command, help string) *[]string {
	events := cmd.Flags().StringSlice("event", nil, help)
	usage.CompleteFlag(cmd, "event", eventNames()...)
	return events
}

func webhooksCreateCommand(s *session.Settings) *cobra.Command {
	cmd := &cobra.Command{
		Use: "create URL", Short: "Create a webhook and print its secret, this once",
		Long: `Create a webhook and print the secret that its messages are signed with, this once.

Without --event it gets all events. ` + "`slipway webhooks test`" + ` sends a message to it.`,
		Args: usage.Exactly(1), ValidArgsFunction: cobra.NoFileCompletions,
		Example: "  slipway webhooks create https://hooks.example.org/slipway --event 'build.*' > secret\n  slipway webhooks create https://ci.example.org/ready --event container.ready --workspace lab/rnaseq",
	}
	workspace := session.WorkspaceFlag(cmd, s, "whose events are sent")
	events := eventsFlag(cmd, "The type of events to send, e.g. build.failed, or build.* for all of builds; can be repeated (default: all).")
	format := output.Flag(cmd, &platformv1.CreateWebhookResponse{})
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		c, query, err := s.Within(cmd.Context(), *workspace)
		if err != nil {
			return err
		}
		var res platformv1.CreateWebhookResponse
		raw, err := c.Do(cmd.Context(), session.Call{
			Method: http.MethodPost, Path: "/api/webhooks", Query: query, Signed: true, Body: &platformv1.WebhookSpec{Url: args[0], Events: *events},
		}, &res)
		if err != nil {
			return fmt.Errorf("creating the webhook: %w", err)
		}
		if !format.IsDocument() {
			_, _ = fmt.Fprintf(cmd.ErrOrStderr(), "Created webhook %s. Its secret is printed only once:\n", output.Printable(res.GetWebhook().GetId()))
		}
		return format.Print(cmd.OutOrStdout(), raw, output.Table{{res.GetSecret()}})
	}
	return cmd
}

func webhooksShowCommand(s *session.Settings) *cobra.Command {
	cmd := &cobra.Command{Use: "show ID", Short: "Show a webhook, without its secret", Args: usage.Exactly(1), Example: "  slipway webhooks show 4vK2mQ8sT0aB1cD2eF3gH5"}
	workspace := session.WorkspaceFlag(cmd, s, "to look in")
	cmd.ValidArgsFunction = completeWebhooks(s, workspace, 1)
	format := output.Flag(cmd, &platformv1.DescribeWebhookResponse{})
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		c, query, err := s.Within(cmd.Context(), *workspace)
		if err != nil {
			return err
		}
		var res platformv1.DescribeWebhookResponse
		raw, err := webhookCall{method: http.MethodGet, doing: "reading the webhook"}.do(cmd.Context(), c, args[0], query, &res)
		if err != nil {
			return err
		}
		return format.Print(cmd.OutOrStdout(), raw, webhookTable(res.GetWebhook()))
	}
	return cmd
}

func webhooksUpdateCommand(s *session.Settings) *cobra.Command {
	var address string
	var disable, enable, newSecret bool
	cmd := &cobra.Command{
		Use: "update ID", Short: "Change a webhook, enable or disable it, or create a new secret",
		Long: `Change a webhook. What no flag names stays as it is.

With --new-secret the new secret is printed, this once. Messages are signed with both
secrets for 24 hours, so that the receiver can be changed meanwhile.`,
		Args:    usage.Exactly(1),
		Example: "  slipway webhooks update 4vK2mQ8sT0aB1cD2eF3gH5 --enable\n  slipway webhooks update 4vK2mQ8sT0aB1cD2eF3gH5 --new-secret > secret",
	}
	workspace := session.WorkspaceFlag(cmd, s, "to change it in")
	cmd.ValidArgsFunction = completeWebhooks(s, workspace, 1)
	events := eventsFlag(cmd, "The types of events to send, instead of the previous ones; can be repeated.")
	cmd.Flags().StringVar(&address, "url", "", "The URL to send messages to.")
	cmd.Flags().BoolVar(&disable, "disable", false, "Send nothing. Messages that wait fail.")
	cmd.Flags().BoolVar(&enable, "enable", false, "Send events again.")
	cmd.Flags().BoolVar(&newSecret, "new-secret", false, "Create and print a new secret.")
	cmd.MarkFlagsMutuallyExclusive("disable", "enable")
	cmd.MarkFlagsOneRequired("url", "event", "disable", "enable", "new-secret")
	format := output.Flag(cmd, &platformv1.UpdateWebhookResponse{})
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		c, query, err := s.Within(cmd.Context(), *workspace)
		if err != nil {
			return err
		}
		change := &platformv1.WebhookChange{Events: *events, NewSecret: newSecret}
		if cmd.Flags().Changed("url") {
			change.Url = &address
		}
		if disable || enable {
			change.Disabled = &disable
		}
		var res platformv1.UpdateWebhookResponse
		raw, err := webhookCall{method: http.MethodPut, body: change, doing: "changing the webhook"}.do(cmd.Context(), c, args[0], query, &res)
		if err != nil {
			return err
		}
		if newSecret {
			return format.Print(cmd.OutOrStdout(), raw, output.Table{{res.GetSecret().GetValue()}})
		}
		return format.Print(cmd.OutOrStdout(), raw, webhookTable(res.GetWebhook()))
	}
	return cmd
}

func webhooksDeleteCommand(s *session.Settings) *cobra.Command {
	cmd := &cobra.Command{Use: "delete ID...", Short: "Delete webhooks with their deliveries", Args: usage.AtLeast(1), Example: "  slipway webhooks delete 4vK2mQ8sT0aB1cD2eF3gH5"}
	workspace := session.WorkspaceFlag(cmd, s, "to delete them in")
	cmd.ValidArgsFunction = completeWebhooks(s, workspace, 1)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		c, query, err := s.Within(cmd.Context(), *workspace)
		if err != nil {
			return err
		}
		for _, id := range args {
			if err := c.Remove(cmd, session.Call{Path: "/api/webhooks/" + url.PathEscape(id), Query: query}, "webhook "+id); err != nil {
				return err
			}
		}
		return nil
	}
	return cmd
}

// deliveryTable shows one delivery.
func deliveryTable(d *platformv1.Delivery) output.Table {
	var t output.Table
	t.Fact("Id", d.GetId())
	t.Fact("Event", d.GetType())
	t.Fact("Subject", d.GetSubject())
	t.Fact("Status", d.GetStatus())
	t.Fact("Attempts", strconv.Itoa(int(d.GetAttempts())))
	t.Fact("Problem", d.GetProblem().GetValue())
	t.Fact("Happened", output.FormatTime(d.GetDateCreated()))
	t.Fact("Last attempt", output.FormatTime(d.GetLastAttempt()))
	t.Fact("Next attempt", output.FormatTime(d.GetNextAttempt()))
	return t
}

// testWait is how long `slipway webhooks test` waits for the first attempt, which has a timeout
// of 15 seconds.
const testWait = 30 * time.Second

func webhooksTestCommand(s *session.Settings) *cobra.Command {
	cmd := &cobra.Command{
		Use: "test ID", Short: "Send a message of the type webhook.test, and show the response",
		Long:    "Send a message of the type webhook.test, and wait for the response of the receiver.\nThe exit status is 0 only if it has accepted the message.",
		Args:    usage.Exactly(1),
		Example: "  slipway webhooks test 4vK2mQ8sT0aB1cD2eF3gH5",
	}
	workspace := session.WorkspaceFlag(cmd, s, "to look in")
	cmd.ValidArgsFunction = completeWebhooks(s, workspace, 1)
	format := output.Flag(cmd, &platformv1.DescribeDeliveryResponse{})
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		c, query, err := s.Within(cmd.Context(), *workspace)
		if err != nil {
			return err
		}
		var sent platformv1.TestWebhookResponse
		if _, err := (webhookCall{method: http.MethodPost, below: "/test", doing: "testing the webhook"}).do(cmd.Context(), c, args[0], query, &sent); err != nil {
			return err
		}
		raw, d, err := awaitAttempt(cmd.Context(), c, args[0], sent.GetDelivery().GetId(), query)
		if err != nil {
			return err
		}
		if err := format.Print(cmd.OutOrStdout(), raw, deliveryTable(d)); err != nil {
			return err
		}
		if d.GetStatus() != "DELIVERED" {
			return fmt.Errorf("the receiver did not accept the message: %s", output.Printable(d.GetProblem().GetValue()))
		}
		return nil
	}
	return cmd
}

// awaitAttempt waits for the first attempt of a delivery.
func awaitAttempt(ctx context.Context, c *session.Client, hook, id string, query url.Values) (raw []byte, d *platformv1.Delivery, err error) {
	ctx, cancel := context.WithTimeout(ctx, testWait)
	defer cancel()
	for {
		var res platformv1.DescribeDeliveryResponse
		raw, err = webhookCall{method: http.MethodGet, below: "/deliveries/" + url.PathEscape(id), doing: "reading the delivery to"}.do(ctx, c, hook, query, &res)
		if err != nil {
			return nil, nil, err
		}
		if d = res.GetDelivery(); d.GetAttempts() > 0 || d.GetStatus() != "PENDING" {
			return raw, d, nil
		}
		select {
		case <-ctx.Done():
			return nil, nil, fmt.Errorf("the message was not sent within %s; `slipway webhooks deliveries %s` shows it", testWait, output.Printable(hook))
		case <-time.After(300 * time.Millisecond):
		}
	}
}

func deliveriesCommand(s *session.Settings) *cobra.Command {
	var status string
	var most int
	cmd := &cobra.Command{
		Use: "deliveries ID", Short: "List the messages to a webhook of the last 7 days, the newest first", Args: usage.Exactly(1),
		Example: "  slipway webhooks deliveries 4vK2mQ8sT0aB1cD2eF3gH5 --status failed",
	}
	workspace := session.WorkspaceFlag(cmd, s, "to look in")
	cmd.ValidArgsFunction = completeWebhooks(s, workspace, 1)
	cmd.Flags().StringVar(&status, "status", "", "Only messages with this status: pending, delivered or failed.")
	usage.CompleteFlag(cmd, "status", "pending", "delivered", "failed")
	cmd.Flags().IntVar(&most, "max", 20, "The maximum number of messages.")
	format := output.Flag(cmd, &platformv1.ListDeliveriesResponse{})
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		c, query, err := s.Within(cmd.Context(), *workspace)
		if err != nil {
			return err
		}
		query.Set("max", strconv.Itoa(most))
		if status != "" {
			query.Set("status", strings.ToUpper(status))
		}
		raw, list, err := deliveries(cmd.Context(), c, args[0], query)
		if err != nil {
			return err
		}
		t := output.Table{{"ID", "EVENT", "SUBJECT", "STATUS", "ATTEMPTS", "HAPPENED", "PROBLEM"}}
		for _, d := range list {
			t = append(t, []string{d.GetId(), d.GetType(), d.GetSubject(), d.GetStatus(), strconv.Itoa(int(d.GetAttempts())), output.FormatTime(d.GetDateCreated()), d.GetProblem().GetValue()})
		}
		return format.List(cmd, raw, t, "No messages within the last 7 days. `slipway webhooks test "+output.Printable(args[0])+"` sends one.")
	}
	return cmd
}

func deliveryCommand(s *session.Settings) *cobra.Command {
	cmd := &cobra.Command{
		Use: "message ID DELIVERY", Short: "Print the message of a delivery, a CloudEvent in JSON", Args: usage.Exactly(2),
		Example: "  slipway webhooks message 4vK2mQ8sT0aB1cD2eF3gH5 7pQ1rS2tU3vW4xY5zA6bC7 | jq .data",
	}
	workspace := session.WorkspaceFlag(cmd, s, "to look in")
	cmd.ValidArgsFunction = completeWebhooks(s, workspace, 2)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		c, query, err := s.Within(cmd.Context(), *workspace)
		if err != nil {
			return err
		}
		var res platformv1.DescribeDeliveryResponse
		if _, err := (webhookCall{method: http.MethodGet, below: "/deliveries/" + url.PathEscape(args[1]), doing: "reading the delivery to"}).do(cmd.Context(), c, args[0], query, &res); err != nil {
			return err
		}
		_, err = io.WriteString(cmd.OutOrStdout(), output.Printable(res.GetBody())+"\n")
		return err
	}
	return cmd
}

func deliveryRepeatCommand(s *session.Settings) *cobra.Command {
	cmd := &cobra.Command{
		Use: "repeat ID DELIVERY...", Short: "Send messages again that were delivered or have failed", Args: usage.AtLeast(2),
		Example: "  slipway webhooks repeat 4vK2mQ8sT0aB1cD2eF3gH5 $(slipway webhooks deliveries 4vK2mQ8sT0aB1cD2eF3gH5 --status failed -o name)",
	}
	workspace := session.WorkspaceFlag(cmd, s, "to look in")
	cmd.ValidArgsFunction = completeWebhooks(s, workspace, 2)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		c, query, err := s.Within(cmd.Context(), *workspace)
		if err != nil {
			return err
		}
		for _, id := range args[1:] {
			call := webhookCall{method: http.MethodPost, below: "/deliveries/" + url.PathEscape(id) + "/repeat", doing: "repeating a delivery to"}
			if _, err := call.do(cmd.Context(), c, args[0], query, nil); err != nil {
				return err
			}
			if _, err := fmt.Fprintf(cmd.OutOrStdout(), "Queued %s again.\n", output.Printable(id)); err != nil {
				return err
			}
		}
		return nil
	}
	return cmd
}

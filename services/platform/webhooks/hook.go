package webhooks

import (
	"crypto/sha256"
	"encoding/hex"
	"net/url"
	"slices"
	"strings"
	"time"

	platformv1 "slipway.dev/proto/gen/slipway/platform/v1"

	"slipway.dev/services/internal/bus/eventbus"
	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/limits"
	"slipway.dev/services/platform/api"
	"slipway.dev/services/platform/audit"
	"slipway.dev/services/platform/vault"
)

// Types of events that this package creates.
const (
	typeTest     = "webhook.test"
	typeDisabled = "webhook.disabled"
)

// eventTypes returns the types of events that a webhook can choose. typeTest is sent on request
// only.
func eventTypes() []string {
	return []string{
		eventbus.BuildStarted, eventbus.BuildSucceeded, eventbus.BuildFailed, eventbus.BuildVerified, eventbus.BuildVerificationFailed,
		eventbus.MirrorStarted, eventbus.MirrorSucceeded, eventbus.MirrorFailed, eventbus.ContainerReady, eventbus.ContainerFailed, eventbus.ContainerPatched, eventbus.ContainerScanned, typeDisabled,
	}
}

// An owner is a user with a personal workspace, or a workspace. One of the ids is 0.
type owner struct{ userID, workspaceID int64 }

// A hook is a row of platform_webhooks.
type hook struct {
	id             string
	owner          owner
	url            string
	events         []string
	envelope       vault.Envelope
	createdBy      int64
	creator        string // name of createdBy; "": deleted
	created        time.Time
	updated        time.Time
	disabled       time.Time // zero: enabled
	disabledReason string    // "": by a user
	failing        time.Time // zero: the last message was accepted
	failures       int       // consecutive failed attempts
}

func (h hook) toProto() *platformv1.Webhook {
	return &platformv1.Webhook{
		Id: h.id, Url: h.url, Events: h.events, CreatedBy: api.StringValue(h.creator), DateCreated: api.Timestamp(h.created), LastUpdated: api.Timestamp(h.updated),
		Disabled: !h.disabled.IsZero(), DisabledReason: api.StringValue(h.disabledReason), FailingSince: api.Timestamp(h.failing),
	}
}

// event returns an event of the audit trail about a hook.
func (h hook) event(action string, before, after any) audit.Event {
	return audit.Event{Action: action, WorkspaceID: h.owner.workspaceID, Subject: h.id, Before: before, After: after}
}

// values returns the values of a hook for the audit trail. The path of a URL may be a secret, so
// that it is only shown whether it has changed.
func (h hook) values() map[string]any {
	sum := sha256.Sum256([]byte(h.url))
	secret := sha256.Sum256(h.envelope.Sealed)
	return map[string]any{
		"host": hostOf(h.url), "urlHash": hex.EncodeToString(sum[:8]), "secretHash": hex.EncodeToString(secret[:8]),
		"events": h.events, "disabled": !h.disabled.IsZero(),
	}
}

// hostOf returns the scheme and the host of a URL.
func hostOf(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return ""
	}
	return u.Scheme + "://" + u.Host
}

// matches reports whether a list of types and patterns contains a type.
func matches(events []string, kind string) bool {
	return slices.ContainsFunc(events, func(e string) bool {
		prefix, isPattern := strings.CutSuffix(e, "*")
		return e == kind || isPattern && strings.HasPrefix(kind, prefix)
	})
}

// parseURL returns the URL of a receiver, or fault.Invalid.
func parseURL(text string) (string, error) {
	text = strings.TrimSpace(text)
	if err := api.CheckLength("url", text, limits.WebhookURL); err != nil {
		return "", err
	}
	u, err := url.Parse(text)
	switch {
	case err != nil, u.Scheme != "https" && u.Scheme != "http", u.Hostname() == "", strings.ContainsAny(text, " \t\r\n"):
		return "", fault.Invalid.Newf("url must be an https or http URL, e.g. https://hooks.example.org/slipway")
	case u.User != nil:
		return "", fault.Invalid.Newf("url must not contain a user name or a password; the receiver can verify the signature of each message instead")
	case u.Fragment != "" || strings.HasSuffix(text, "#"):
		return "", fault.Invalid.Newf("url must not have a fragment (#…), which is never sent")
	}
	return u.String(), nil
}

// parseEvents returns the sorted types and patterns that a user has chosen; all if there are none.
func parseEvents(chosen []string) ([]string, error) {
	if len(chosen) > limits.WebhookEvents {
		return nil, fault.Invalid.Newf("events must have at most %d items", limits.WebhookEvents)
	}
	var out []string
	for _, e := range chosen {
		if e = strings.ToLower(strings.TrimSpace(e)); !isPattern(e) && !slices.Contains(eventTypes(), e) {
			return nil, fault.Invalid.Newf("events has the unknown type %s; the types are %s, and build.*, mirror.*, container.*, webhook.* and * for several", fault.Quote(e), strings.Join(eventTypes(), ", "))
		}
		out = append(out, e)
	}
	if len(out) == 0 {
		out = []string{"*"}
	}
	slices.Sort(out)
	return slices.Compact(out), nil
}

func isPattern(e string) bool {
	return slices.Contains([]string{"*", "build.*", "mirror.*", "container.*", "webhook.*"}, e)
}

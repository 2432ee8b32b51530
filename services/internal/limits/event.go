package limits

import (
	"fmt"
	"time"
)

// Limits of events and webhooks.
const (
	// EventStream is the maximum size in bytes of the events on the bus that are not handled
	// yet, and Event that of one event. EventText limits the message of a failure in bytes.
	EventStream, Event, EventText = 64 << 20, 64 << 10, 4000
	// EventRequests is the maximum number of containers that get an event of one build, and
	// EventRequestsUser that of a user in one workspace.
	EventRequests, EventRequestsUser = 10_000, 100
	// WebhooksPerOwner is the maximum number of webhooks of a user, and of a workspace.
	WebhooksPerOwner = 20
	// WebhookURL is the maximum length of a URL, and WebhookEvents the maximum number of types of
	// events of a webhook.
	WebhookURL, WebhookEvents = 2000, 20
	// WebhookTime is the timeout of one attempt, and WebhookResponse the maximum number of bytes that
	// are read from a response.
	WebhookTime     = 15 * time.Second
	WebhookResponse = 64 << 10
	// WebhooksAtOnce is the number of attempts that one process makes concurrently, and
	// WebhooksAtOnceUser that for the webhooks that one user has created. A webhook gets one
	// message at a time.
	WebhooksAtOnce, WebhooksAtOnceUser = 64, 4
	// WebhookRetryPeriod is how long a message is attempted before its webhook is disabled.
	WebhookRetryPeriod = 24 * time.Hour
	// WebhookPause is the maximum pause between two attempts, also of one that a receiver demands.
	WebhookPause = time.Hour
	// WebhookRequested is the maximum number of messages that a user may request in an hour: tests
	// and repetitions.
	WebhookRequested = 60
	// DeliveriesWaiting is the maximum number of messages of a webhook that wait: one more
	// disables it. DeliveriesKept is how long ended deliveries are stored.
	DeliveriesWaiting = 10_000
	DeliveriesKept    = 7 * 24 * time.Hour
)

// eventRows lists the limits of events and webhooks.
func eventRows() []Row {
	return []Row{
		{What: "Events on the bus that are not handled yet; one event", Bound: size(EventStream) + "; " + size(Event), Why: "they fill the disk of NATS while the platform is unavailable; services store further events themselves"},
		{What: "Message of a failed build in an event", Bound: size(EventText), Why: "each webhook stores it"},
		{What: "Containers that get an event of one build", Bound: fmt.Sprintf("%d, %d of a user in one workspace", EventRequests, EventRequestsUser), Why: "each is a message on the bus, and stored for each webhook; requests that join a build are not charged as builds"},
		{What: "Webhooks of a user; of a workspace", Bound: fmt.Sprint(WebhooksPerOwner), Why: "each event is stored for each of them"},
		{What: "URL of a webhook; its types of events", Bound: fmt.Sprintf("%d characters; %d", WebhookURL, WebhookEvents), Why: "they are stored and listed"},
		{What: "Attempt to send a message to a webhook", Bound: fmt.Sprintf("%s, and %s of the response", WebhookTime, size(WebhookResponse)), Why: "a slow receiver occupies one of the attempts that a process makes concurrently"},
		{What: "Concurrent attempts of one process", Bound: fmt.Sprintf("%d, %d of webhooks that one user has created, and one of a webhook", WebhooksAtOnce, WebhooksAtOnceUser), Why: "slow receivers of one user must not delay the messages of others"},
		{What: "Attempts of one message", Bound: fmt.Sprintf("within %d hours, with pauses of up to %d minutes; its webhook is disabled if no other was accepted meanwhile", WebhookRetryPeriod/time.Hour, WebhookPause/time.Minute), Why: "a receiver that does not exist any more would be called for ever"},
		{What: "Messages to webhooks that a user requests in an hour (tests and repetitions)", Bound: fmt.Sprint(WebhookRequested), Why: "the URL may be that of a stranger"},
		{What: "Messages of a webhook that wait; deliveries that are stored", Bound: fmt.Sprintf("%d, then it is disabled; for %d days", DeliveriesWaiting, DeliveriesKept/(24*time.Hour)), Why: "they fill the database while the receiver is unavailable"},
	}
}

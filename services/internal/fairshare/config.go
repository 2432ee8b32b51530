package fairshare

import "time"

// Class orders requests by how long they hold their lease.
type Class int

// The classes, in the order in which they are served.
const (
	// Short requests end within a fraction of a second.
	Short Class = iota
	// Long requests may take many seconds, with a caller waiting for the result.
	Long
	// Background requests have no caller that waits.
	Background
)

// Config describes a Pool.
type Config struct {
	// Name is the resource, as a plural noun for messages and as the label of metrics, e.g.
	// "solves of Conda packages".
	Name string
	// Capacity is the amount that all clients together may hold; 0 means no limit.
	Capacity int64
	// PerClient is the amount that one client may hold; 0 means no limit.
	PerClient int64
	// Reserved is the part of Capacity that strangers never hold.
	Reserved int64
	// MaxWaiting is how many requests of strangers may wait, and how many of users. If it is 0,
	// requests that do not fit immediately are rejected.
	MaxWaiting int
	// MaxWaitingPerClient is how many requests of one client may wait; 0 is MaxWaiting.
	MaxWaitingPerClient int
	// MaxWait is how long a request waits; 0 is until its context ends.
	MaxWait time.Duration
}

// A Request is a request for a part of a pool.
type Request struct {
	Client Client
	// Amount is how much of the pool is needed; 0 is 1.
	Amount int64
	Class  Class
	// Untrusted marks work on content that strangers control, e.g. a channel that the operator
	// has not configured. It is served after other work of users, or of strangers.
	Untrusted bool
}

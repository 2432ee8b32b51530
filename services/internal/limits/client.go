package limits

import "fmt"

// LogTail is how much of a log that is followed is kept in memory, in bytes, for
// all who follow it in one process.
const LogTail = 4 << 20

// Headers is how large the headers of a request may be, in bytes.
const Headers = 64 << 10

// RequestsOfConnection is how many requests an HTTP/2 connection may have open.
const RequestsOfConnection = 128

// WaitingPulls is how many pulls of one client may wait for builds, and
// AllWaitingPulls of all clients of a process.
const (
	WaitingPulls    = 1000
	AllWaitingPulls = 10_000
)

// SlicesHeld is of how many callers' limits a process holds a slice in memory.
const SlicesHeld = 4096

// RowsTogether is how many rows of concurrent requests are written in one transaction.
const RowsTogether = 128

// LogWaiting is how much of a process's own log waits to be written, in bytes.
const LogWaiting = 1 << 20

// IdleStream is how much memory a log or event stream takes at most while nothing is
// said, in bytes.
const IdleStream = 128 << 10

// clientRows bound what one client may ask for at a time, or hold open.
func clientRows() []Row {
	return []Row{
		{What: "callers and limits that a process counts in memory for a moment", Bound: fmt.Sprint(SlicesHeld), Why: "each takes memory; more are counted in Redis, charge by charge"},
		{What: "requests that are written to the database in one transaction", Bound: fmt.Sprint(RowsTogether), Why: "all of them wait until it is on disk"},
		{What: "lines of a process's own log that wait to be written", Bound: size(LogWaiting), Why: "who does not read the log must hold up nobody; further lines are dropped and counted (slipway_log_dropped_total)"},
		{What: "connections of one address", Key: "connections_client", Why: "an idle connection costs memory and a descriptor; a whole site behind one address has many"},
		{What: "headers of a request", Bound: size(Headers), Why: "they are in memory before anybody looks at them"},
		{What: "open requests of an HTTP/2 connection", Bound: "128", Why: "one connection must not stand for any number of requests"},
		{What: "logs, event streams and downloads that one address has open", Key: "streams_client", Why: "they stay open for hours, at up to " + size(IdleStream) + " each"},
		{What: "logs, event streams and downloads that a process has open", Key: "streams_total", Why: "the same, from many addresses"},
		{What: "pulls of one client that wait for builds", Bound: "1000", Why: "each holds a connection for up to pull_wait; the nodes of a cluster share an address"},
		{What: "pulls that wait for builds in a process", Bound: "10000", Why: "the same, from many clients"},
		{What: "log that is followed, kept in memory for all its followers in a process", Bound: size(LogTail), Why: "a reader who is further behind reads from the bus again"},
	}
}

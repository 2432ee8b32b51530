package limits

import "fmt"

// LogTail is how much of a followed log a process holds in memory for all its followers, in
// bytes.
const LogTail = 4 << 20

// Headers is the maximum size of the headers of a request, in bytes.
const Headers = 64 << 10

// RequestsOfConnection is the maximum number of open requests of an HTTP/2 connection.
const RequestsOfConnection = 128

// WaitingPulls is the maximum number of pulls of one client that wait for builds, and
// AllWaitingPulls that of all clients of a process.
const (
	WaitingPulls    = 1000
	AllWaitingPulls = 10_000
)

// SlicesHeld is the maximum number of callers for whom a process holds a slice of their
// rate limit in memory.
const SlicesHeld = 4096

// RowsTogether is the maximum number of rows from concurrent requests that are written in
// one transaction.
const RowsTogether = 128

// RequestsDeleted is the maximum number of container requests that are deleted in one transaction.
const RequestsDeleted = 1000

// Origins is the maximum number of other web origins that may use the REST API.
const Origins = 100

// LogWaiting is the maximum amount of the process's own log that is buffered, in bytes.
const LogWaiting = 1 << 20

// IdleStream is the maximum memory of an idle log or event stream, in bytes.
const IdleStream = 128 << 10

// clientRows lists the limits of what one client may request concurrently or hold open.
func clientRows() []Row {
	return []Row{
		{What: "callers whose rate limits a process counts in memory", Bound: fmt.Sprint(SlicesHeld), Why: "each takes memory; the calls of others are counted individually in Redis"},
		{What: "requests that are written to the database in one transaction", Bound: fmt.Sprint(RowsTogether), Why: "all of them wait until it is on disk"},
		{What: "expired container requests that are deleted in one transaction", Bound: fmt.Sprint(RequestsDeleted), Why: "SQLite has one writer, and new requests wait for it"},
		{What: "lines of a process's own log that wait to be written", Bound: size(LogWaiting), Why: "a slow reader of the log must not block the process; further lines are dropped and counted (slipway_log_dropped_total)"},
		{What: "connections of one address", Key: "connections_client", Why: "an idle connection costs memory and a descriptor; a whole site behind one address has many"},
		{What: "origins in cors_origins", Bound: fmt.Sprint(Origins), Why: "the origin of each request is compared with all"},
		{What: "headers of a request", Bound: size(Headers), Why: "they are in memory before they are checked"},
		{What: "open requests of an HTTP/2 connection", Bound: fmt.Sprint(RequestsOfConnection), Why: "one connection must not open an unlimited number of requests"},
		{What: "logs, event streams and downloads that one address has open", Key: "streams_client", Why: "they stay open for hours, at up to " + size(IdleStream) + " each"},
		{What: "logs, event streams and downloads that a process has open", Key: "streams_total", Why: "the same, from many addresses"},
		{What: "pulls of one client that wait for builds", Bound: fmt.Sprint(WaitingPulls), Why: "each holds a connection for up to pull_wait; the nodes of a cluster share an address"},
		{What: "pulls that wait for builds in a process", Bound: fmt.Sprint(AllWaitingPulls), Why: "the same, from many clients"},
		{What: "log that is followed, kept in memory for all its followers in a process", Bound: size(LogTail), Why: "a follower that is further behind reads from the bus again"},
	}
}

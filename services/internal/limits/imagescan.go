package limits

import (
	"strconv"
	"time"
)

// Limits of scans of images.
const (
	// ScanListed is the maximum number of vulnerabilities that a scan stores and returns; all are
	// counted. ScanResult is the maximum size of a stored result in bytes, unpacked.
	ScanListed, ScanResult = 10_000, 32 << 20
	// ScansAtOnce is the number of scans that a process runs concurrently, and ScansAtOnceClient that of
	// one client in all processes.
	ScansAtOnce, ScansAtOnceClient = 4, 2
	// ScanTime is the maximum time of a scan. ScanLease is how long a scan is claimed without a sign of
	// its process. ScanTries is how often a scan is tried.
	ScanTime, ScanLease = 5 * time.Minute, 30 * time.Second
	ScanTries           = 6
	// ScansRepeated is the maximum number of scans that wait to be repeated with a new database.
	ScansRepeated = 50
	// ScanLevels is the maximum number of severities that a request tolerates.
	ScanLevels = 10
)

// imageScanRows lists the limits of scans of images.
func imageScanRows() []Row {
	n := strconv.Itoa
	return []Row{
		{What: "vulnerabilities that a scan lists", Bound: n(ScanListed) + ", the most severe ones, in " + size(ScanResult), Why: "they are in memory while they are stored and returned; all are counted"},
		{What: "scans that one container process runs concurrently", Bound: n(ScansAtOnce) + ", of one client " + n(ScansAtOnceClient) + " in all processes", Why: "each reads the layers of an image"},
		{What: "time of a scan, and how often it is tried", Bound: ScanTime.String() + ", " + n(ScanTries), Why: "an image that cannot be read must not occupy a worker; a process that ended without a result is replaced after " + ScanLease.String()},
		{What: "scans that wait to be repeated with a new database", Bound: n(ScansRepeated), Why: "they are done after all others"},
	}
}

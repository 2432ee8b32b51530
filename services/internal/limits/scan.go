package limits

import (
	"strconv"
	"time"
)

// Limits of databases of vulnerabilities and of what is found in them.
const (
	// ScanArchive is the maximum size of an archive of one ecosystem in bytes, ScanDirectory that of its
	// directory, and ScanUnpacked that of all its records. ScanRecords is their maximum number.
	ScanArchive, ScanDirectory, ScanUnpacked, ScanRecords = 4 << 30, 48 << 20, 32 << 30, 500_000
	// ScanRecord is the maximum size of a record in bytes, ScanValues the maximum number of its values, and
	// ScanDepth how deep they may be nested. A record is about at most ScanPackages packages.
	ScanRecord, ScanValues, ScanDepth, ScanPackages = 16 << 20, 1 << 20, 32, 20_000
	// ScanName is the maximum length of an identifier or of the name of a package in bytes, ScanVersion that of a
	// version, and ScanTitle that of a title.
	ScanName, ScanVersion, ScanTitle = 512, 256, 300
	// ScanAliases is the maximum number of other identifiers of a record. ScanRanges is the maximum number of ranges of a
	// package in it, and ScanSpans that of single versions. ScanReduced is how many comparisons of versions with ranges
	// are made for a record, to store no version that is in a range.
	ScanAliases, ScanRanges, ScanSpans, ScanReduced = 1000, 1000, 20_000, 200_000
	// ScanBad is the share of invalid records, in percent, from which on an archive is damaged.
	ScanBad = 10
	// ScanFetch is the timeout for fetching one archive, and ScanRetry how long a failing source is not read.
	ScanFetch, ScanRetry = time.Hour, 10 * time.Minute
	// ScanPoll is how often a folder is compared with the data, and ScanWait after which time a client without data
	// tries again.
	ScanPoll, ScanWait = time.Minute, time.Minute
	// ScanRefresh is the minimum, and ScanRefreshMost the maximum of scan_database_refresh.
	ScanRefresh, ScanRefreshMost = time.Minute, 30 * 24 * time.Hour
	// ScanFindings is the maximum number of findings of an image, and ScanMatches that of versions in records that are
	// compared with its packages.
	ScanFindings, ScanMatches = 50_000, 2_000_000
	// VEX is the maximum size of an OpenVEX document in bytes, VEXStatements the maximum number of its statements,
	// and VEXProducts that of products, components and vulnerabilities in all. VEXFiles is the maximum number of
	// documents of the server.
	VEX, VEXStatements, VEXProducts, VEXFiles = 4 << 20, 10_000, 50_000, 100
	// VEXServer is the maximum size of all documents of scan_vex in bytes.
	VEXServer = 32 << 20
	// VEXPerOwner is the maximum number of OpenVEX documents of a user or an organisation, VEXOwned that of the bytes of
	// each, VEXOwnedTotal that of the bytes of all, and VEXOwnedStatements that of their statements.
	VEXPerOwner, VEXOwned, VEXOwnedTotal, VEXOwnedStatements = 50, 1 << 20, 4 << 20, 10_000
	// VEXOwnedProducts is the maximum number of products, components and vulnerabilities in all of them.
	VEXOwnedProducts = 50_000
	// VEXClock is how far the times of their statements may be ahead of the service's clock.
	VEXClock = 24 * time.Hour
	// VEXMatches is the maximum number of comparisons of statements with the vulnerabilities of a result, and VEXTexts
	// the maximum size in bytes of the justifications that are added to a result.
	VEXMatches, VEXTexts = 500_000, 4 << 20
	// VEXCached is the maximum size in bytes of the documents that a process has parsed for several users.
	VEXCached = 64 << 20
	// VEXText is the maximum length of a text in a statement in bytes.
	VEXText = 2000
)

// scanRows lists the limits of scans.
func scanRows() []Row {
	n := strconv.Itoa
	return []Row{
		{What: "scan_database: archive of an ecosystem", Bound: size(ScanArchive) + " with " + n(ScanRecords) + " records of " + size(ScanUnpacked) + ", and a directory of " + size(ScanDirectory), Why: "the largest in use has 230,000 records; the directory is in memory, and takes up to seven times its size there"},
		{What: "scan_database: record", Bound: size(ScanRecord) + ", " + n(ScanValues) + " values, " + n(ScanDepth) + " levels, " + n(ScanPackages) + " packages, " + n(ScanAliases) + " other identifiers", Why: "a record is in memory as a whole; larger ones are left out"},
		{What: "scan_database: ranges and versions of a package in a record", Bound: n(ScanRanges) + " ranges, " + n(ScanSpans) + " versions; " + n(ScanReduced) + " comparisons of both", Why: "they are compared with each version of the package"},
		{What: "scan_database: names, versions, titles", Bound: n(ScanName) + ", " + n(ScanVersion) + ", " + n(ScanTitle) + " bytes", Why: "a record with a longer name or version is left out; titles are cut"},
		{What: "scan_database: invalid records of an archive", Bound: n(ScanBad) + "%", Why: "an archive with more is damaged, and the previous database is used"},
		{What: "scan_database: fetching an archive", Bound: ScanFetch.String() + "; again after " + ScanRetry.String(), Why: "a slow server would keep the data old without a word"},
		{What: "scan_database: time between two refreshes", Bound: ScanRefresh.String() + " to " + n(int(ScanRefreshMost.Hours())/24) + " days", Why: "each refresh is a request for each ecosystem; older data misses too much"},
		{What: "findings of an image", Bound: n(ScanFindings) + ", of " + n(ScanMatches) + " versions in records that are compared", Why: "they are in memory, and in the response"},
		{What: "OpenVEX document", Bound: size(VEX) + ", " + n(VEXStatements) + " statements, " + n(VEXProducts) + " products and vulnerabilities", Why: "each is compared with each finding"},
		{What: "texts of statements in OpenVEX documents", Bound: n(VEXText) + " bytes; " + size(VEXTexts) + " in a result", Why: "they are in each finding; longer ones are cut, and further ones left out"},
		{What: "comparisons of OpenVEX statements with the vulnerabilities of a result", Bound: n(VEXMatches), Why: "each read of a result repeats them"},
		{What: "documents of scan_vex, and of `slipway scan --vex`", Bound: n(VEXFiles) + ", " + size(VEXServer), Why: "they are in memory, and sent in one message"},
		{
			What: "OpenVEX documents of a user or an organisation", Bound: n(VEXPerOwner) + " of " + size(VEXOwned) + "; " + size(VEXOwnedTotal) + " and " + n(VEXOwnedStatements) + " statements, " + n(VEXOwnedProducts) + " products and vulnerabilities in all",
			Why: "all of them are read for each result of a scan",
		},
		{What: "times of statements in OpenVEX documents of users and organisations", Bound: VEXClock.String() + " after the present", Why: "the newest statement applies; one of the future would apply instead of all until then"},
		{What: "parsed OpenVEX documents of users and organisations in a process", Bound: size(VEXCached), Why: "further ones are read and parsed again when they are needed"},
	}
}

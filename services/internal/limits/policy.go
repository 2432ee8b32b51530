package limits

import (
	"strconv"
	"time"
)

// Limits of the rules of operators.
const (
	// PolicyEntries is the maximum number of entries of one rule, and PolicyEntry that of bytes in an entry.
	PolicyEntries, PolicyEntry = 1000, 1000
	// PolicyNotes is the maximum number of violations that a response lists, and PolicyShown that of
	// packages, registries or channels in one message.
	PolicyNotes, PolicyShown = 10, 5
	// SignaturesRead is the maximum number of signatures of each format that are read for an image.
	SignaturesRead = 32
	// SignatureBundle and SignaturePayload are the maximum sizes of a signature in bytes.
	SignatureBundle, SignaturePayload = 256 << 10, 64 << 10
	// SignatureTime is the maximum time for finding a valid signature of an image.
	SignatureTime = 15 * time.Second
	// SignatureChecks is the number of images whose signatures are read concurrently by a process, and
	// SignatureChecksClient that of one client; SignatureChecksWaiting is how many more may wait.
	SignatureChecks, SignatureChecksClient, SignatureChecksWaiting = 64, 8, 1000
	// SignatureResults is the number of results that are cached. Images that are signed are cached for
	// SignatureCached, and images that are not for SignatureMissing.
	SignatureResults                  = 20_000
	SignatureCached, SignatureMissing = 10 * time.Minute, 15 * time.Second
)

// policyRows lists the limits of the rules of operators.
func policyRows() []Row {
	n := strconv.Itoa
	return []Row{
		{What: "policy_… settings: entries of one rule, and their length", Bound: n(PolicyEntries) + ", " + n(PolicyEntry), Why: "each image and package is compared with each entry"},
		{What: "violations of policy_mode warn in one response, and names in one message", Bound: n(PolicyNotes) + ", " + n(PolicyShown), Why: "the response stays readable"},
		{What: "policy_signatures: signatures of an image that are read, of each format", Bound: n(SignaturesRead), Why: "each needs two requests to the registry"},
		{What: "policy_signatures: Sigstore bundle, payload of a signature", Bound: size(SignatureBundle) + ", " + size(SignaturePayload), Why: "they are in memory as a whole"},
		{What: "policy_signatures: time for one image", Bound: SignatureTime.String(), Why: "a slow registry delays only its own images"},
		{What: "policy_signatures: images that are checked concurrently; those of one client; waiting", Bound: n(SignatureChecks) + "; " + n(SignatureChecksClient) + "; " + n(SignatureChecksWaiting), Why: "one client's slow registry does not delay the others"},
		{What: "policy_signatures: cached results", Bound: n(SignatureResults) + ", for " + SignatureCached.String() + " if signed, else " + SignatureMissing.String(), Why: "a new signature is found soon"},
	}
}

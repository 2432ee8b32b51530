package sbom

import (
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/github/go-spdx/v2/spdxexp"

	"slipway.dev/services/internal/limits"
)

// A license is a licence as both formats write it. The zero value is an unknown one.
type license struct {
	// expression is an SPDX expression.
	expression string
	// text is the licence as stated, if it is not an SPDX expression: expression is a LicenseRef.
	text string
}

// licenses holds the text of each LicenseRef, and the licences that were parsed.
type licenses map[string]licenseEntry

type licenseEntry struct {
	license
	// refs are the LicenseRefs in the expression, with their texts.
	refs map[string]string
}

// parse returns the licence that a text names.
func (l licenses) parse(text string) license {
	text = strings.TrimSpace(visible(text, "\n\t"))
	if text == "" || text == noAssertion || text == "NONE" {
		return license{}
	}
	e, ok := l[text]
	if !ok {
		e = parseLicense(text)
		l[text] = e
	}
	return e.license
}

// refs returns the text of each LicenseRef of the document.
func (l licenses) refs() map[string]string {
	out := map[string]string{}
	for _, e := range l {
		maps.Copy(out, e.refs)
	}
	return out
}

// parseLicense parses a licence. The parser is recursive, so that longer strings than limits.License are
// not parsed.
func parseLicense(text string) licenseEntry {
	if len(text) <= limits.License {
		normal, invalid := spdxexp.ValidateAndNormalizeLicensesWithOptions([]string{text}, spdxexp.ValidateLicensesOptions{FailAllDocumentRefs: true})
		if len(invalid) == 0 && len(normal) == 1 && normal[0] != "" && !strings.Contains(normal[0], "DocumentRef-") {
			if refs, ok := licenseRefs(normal[0]); ok {
				return licenseEntry{license{expression: normal[0]}, refs}
			}
		}
	}
	sum := sha256.Sum256([]byte(text))
	ref := "LicenseRef-" + hex.EncodeToString(sum[:8]) // matches ownRef
	return licenseEntry{license{expression: ref, text: text}, map[string]string{ref: text}}
}

// ownRef matches the names that parseLicense gives.
var ownRef = regexp.MustCompile("^LicenseRef-[0-9a-f]{16}$")

// licenseRefs returns the LicenseRefs of an expression. Their texts are unknown except for their names. It
// reports false if one is not valid in SPDX, or could be that of another text.
func licenseRefs(expression string) (map[string]string, bool) {
	out := map[string]string{}
	if !strings.Contains(expression, "LicenseRef-") {
		return out, true
	}
	ids, err := spdxexp.ExtractLicenses(expression)
	if err != nil {
		return nil, false
	}
	for _, id := range ids {
		if !strings.HasPrefix(id, "LicenseRef-") {
			continue
		}
		if id == "LicenseRef-" || identifierOf(id) != id || ownRef.MatchString(id) {
			return nil, false
		}
		out[id] = id
	}
	return out, true
}

// sortedRefs returns the names of LicenseRefs in order.
func sortedRefs(refs map[string]string) []string { return slices.Sorted(maps.Keys(refs)) }

package policy

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/github/go-spdx/v2/spdxexp"
	"github.com/github/go-spdx/v2/spdxexp/spdxlicenses"

	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/limits"
)

// Unknown is the entry of policy_licenses_refused for packages without a licence, or with one that is
// no SPDX expression.
const Unknown = "UNKNOWN"

// A refusedLicense is an entry of policy_licenses_refused.
type refusedLicense struct {
	// text is the entry as the operator wrote it.
	text string
	// id and exception are in lower case. One that ends in "*" matches all with the same beginning.
	// An entry without an exception does not match a licence with one: that grants more rights.
	id, exception string
}

// parseRefused parses an entry: UNKNOWN, an SPDX identifier such as GPL-3.0-only, the beginning of
// some such as GPL-3.0*, or one of these WITH an exception, which may end in * likewise.
func parseRefused(text string) (refusedLicense, error) {
	text = strings.TrimSpace(text)
	if text == Unknown {
		return refusedLicense{text: text}, nil
	}
	id, exception, hasException := strings.Cut(text, " WITH ")
	out := refusedLicense{text: text, id: canonical(id), exception: strings.ToLower(exception)}
	if len(text) > limits.License || !isKnown(id, isLicense, allLicenses()) || hasException && !isKnown(exception, isException, spdxlicenses.GetExceptions()) {
		return out, fmt.Errorf("%q must be an SPDX license identifier such as GPL-3.0-only, the beginning of some such as GPL-3.0*, one of these WITH an exception, or %s", fault.Quote(text), Unknown)
	}
	return out, nil
}

func isLicense(id string) bool {
	ok, _ := spdxexp.ValidateLicenses([]string{id})
	return ok && !strings.ContainsAny(id, " ()")
}

func isException(id string) bool { ok, _ := spdxlicenses.IsException(id); return ok }

func allLicenses() []string {
	return slices.Concat(spdxlicenses.GetLicenses(), spdxlicenses.GetDeprecated())
}

// isKnown reports whether an identifier, or the beginning of one before "*", is in SPDX's lists.
func isKnown(id string, is func(string) bool, all []string) bool {
	begin, isPrefix := strings.CutSuffix(id, "*")
	if !isPrefix {
		return is(id)
	}
	return slices.ContainsFunc(all, func(known string) bool { return strings.HasPrefix(strings.ToLower(known), strings.ToLower(begin)) })
}

// canonical returns an identifier in lower case, and the current one in place of the deprecated
// identifiers of the GNU licences: GPL-3.0 is GPL-3.0-only, and GPL-3.0+ is GPL-3.0-or-later.
func canonical(id string) string {
	id = strings.ToLower(strings.TrimSpace(id))
	base, orLater := strings.CutSuffix(id, "+")
	if deprecated, _ := spdxlicenses.IsDeprecatedLicense(base); !deprecated || strings.HasSuffix(id, "*") {
		return id
	}
	suffix := "-only"
	if orLater {
		suffix = "-or-later"
	}
	if ok, _ := spdxlicenses.IsActiveLicense(base + suffix); ok {
		return base + suffix
	}
	return id
}

// matches reports whether the entry refuses a licence, with its exception or "".
func (r refusedLicense) matches(id, exception string) bool {
	isID := matchesText(r.id, canonical(id)) || matchesText(r.id, strings.TrimSuffix(canonical(id), "+"))
	return isID && matchesText(r.exception, strings.ToLower(exception)) && (r.exception == "") == (exception == "")
}

func matchesText(pattern, text string) bool {
	if begin, ok := strings.CutSuffix(pattern, "*"); ok {
		return strings.HasPrefix(text, begin)
	}
	return pattern == text
}

// refusal returns the entry that refuses a licence; "" if it is permitted. A package under A OR B is
// permitted if A or B is, and one under A AND B if both are.
func (r *Rules) refusal(license string) string {
	if len(r.licenses) == 0 {
		return ""
	}
	expression, ok := normalized(license)
	if !ok {
		if slices.ContainsFunc(r.licenses, func(l refusedLicense) bool { return l.text == Unknown }) {
			return Unknown
		}
		return ""
	}
	e := evaluation{rules: r.licenses, tokens: tokensOf(expression)}
	return e.or()
}

// normalized returns a licence as an SPDX expression. ok is false if it is unknown. The parser is
// recursive, so that longer strings than limits.License are unknown.
func normalized(license string) (expression string, ok bool) {
	license = strings.TrimSpace(license)
	if license == "" || len(license) > limits.License {
		return "", false
	}
	license = current(license)
	normal, invalid := spdxexp.ValidateAndNormalizeLicensesWithOptions([]string{license}, spdxexp.ValidateLicensesOptions{})
	if len(invalid) > 0 || len(normal) != 1 || normal[0] == "" {
		return "", false
	}
	return normal[0], true
}

var (
	// licenseFile matches the reference of R packages to a file with details.
	licenseFile = regexp.MustCompile(`(?i)\s*[|+]\s*file\s+licen[sc]e`)
	// gnu matches how R and others write the GNU licences, e.g. "GPL (>= 2)" and "LGPLv3".
	gnu = regexp.MustCompile(`(?i)^(AGPL|LGPL|GPL)[ -]?\(?\s*(>=)?\s*v?([123](?:\.[01])?)\s*\)?(\+?)$`)
)

// current returns a licence as an SPDX expression, if it is written in another common way; otherwise
// unchanged.
func current(license string) string {
	license = licenseFile.ReplaceAllString(license, "")
	parts := strings.Split(license, "|")
	for i, part := range parts {
		part = strings.TrimSpace(part)
		if known, ok := commonNames()[strings.ToLower(part)]; ok {
			part = known
		} else if m := gnu.FindStringSubmatch(part); m != nil {
			version, suffix := m[3], "-only"
			if !strings.Contains(version, ".") {
				version += ".0"
			}
			if m[2] != "" || m[4] != "" {
				suffix = "-or-later"
			}
			part = strings.ToUpper(m[1]) + "-" + version + suffix
		}
		parts[i] = part
	}
	return strings.Join(parts, " OR ")
}

// withExceptions returns the deprecated identifiers of licences with an exception, in lower case.
func withExceptions() map[string][2]string {
	return map[string][2]string{
		"gpl-2.0-with-autoconf-exception": {"GPL-2.0-only", "Autoconf-exception-2.0"}, "gpl-2.0-with-bison-exception": {"GPL-2.0-only", "Bison-exception-2.2"},
		"gpl-2.0-with-classpath-exception": {"GPL-2.0-only", "Classpath-exception-2.0"}, "gpl-2.0-with-font-exception": {"GPL-2.0-only", "Font-exception-2.0"},
		"gpl-2.0-with-gcc-exception": {"GPL-2.0-only", "GCC-exception-2.0"}, "gpl-3.0-with-autoconf-exception": {"GPL-3.0-only", "Autoconf-exception-3.0"},
		"gpl-3.0-with-gcc-exception": {"GPL-3.0-only", "GCC-exception-3.1"},
	}
}

// commonNames returns the names that packages of R and older Conda packages have for licences, in
// lower case.
func commonNames() map[string]string {
	return map[string]string{
		"gpl": "GPL-1.0-or-later", "lgpl": "LGPL-2.0-or-later", "agpl": "AGPL-1.0-or-later", "gnu general public license": "GPL-1.0-or-later", "gnu gpl v3": "GPL-3.0-only", "gnu gpl": "GPL-1.0-or-later",
		"apache": "Apache-2.0", "apache 2.0": "Apache-2.0", "apache-2": "Apache-2.0", "apache license 2.0": "Apache-2.0", "apache software license": "Apache-2.0",
		"bsd 3-clause": "BSD-3-Clause", "bsd-3": "BSD-3-Clause", "bsd_3_clause": "BSD-3-Clause", "3-clause bsd": "BSD-3-Clause", "new bsd": "BSD-3-Clause",
		"bsd 2-clause": "BSD-2-Clause", "bsd_2_clause": "BSD-2-Clause", "mit license": "MIT", "mit + file license": "MIT", "psf": "PSF-2.0",
	}
}

// An evaluation evaluates an SPDX expression by recursive descent. The expression is valid. AND binds
// more than OR.
type evaluation struct {
	rules  []refusedLicense
	tokens []string
}

// tokensOf splits an SPDX expression.
func tokensOf(expression string) []string {
	return strings.Fields(strings.NewReplacer("(", " ( ", ")", " ) ").Replace(expression))
}

// next returns the next token; "" at the end.
func (e *evaluation) next() string {
	if len(e.tokens) == 0 {
		return ""
	}
	t := e.tokens[0]
	e.tokens = e.tokens[1:]
	return t
}

// accept removes the next token if it is the given operator.
func (e *evaluation) accept(operator string) bool {
	if len(e.tokens) == 0 || !strings.EqualFold(e.tokens[0], operator) {
		return false
	}
	e.next()
	return true
}

// or returns the entry that refuses a list of alternatives; "" if one of them is permitted.
func (e *evaluation) or() string {
	refused := e.and()
	for e.accept("OR") {
		if other := e.and(); other == "" {
			refused = ""
		}
	}
	return refused
}

// and returns the first entry that refuses one of several licences that apply together.
func (e *evaluation) and() string {
	refused := e.license()
	for e.accept("AND") {
		if other := e.license(); refused == "" {
			refused = other
		}
	}
	return refused
}

func (e *evaluation) license() string {
	if e.accept("(") {
		refused := e.or()
		e.accept(")")
		return refused
	}
	id, exception := e.next(), ""
	if e.accept("WITH") {
		exception = e.next()
	}
	if both, ok := withExceptions()[strings.ToLower(id)]; ok {
		id, exception = both[0], both[1]
	}
	for _, r := range e.rules {
		if r.text != Unknown && r.matches(id, exception) {
			return r.text
		}
	}
	return ""
}

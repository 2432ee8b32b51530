package vulns

import (
	"encoding/json"
	"strings"

	cvss20 "github.com/pandatix/go-cvss/20"
	cvss30 "github.com/pandatix/go-cvss/30"
	cvss31 "github.com/pandatix/go-cvss/31"
	cvss40 "github.com/pandatix/go-cvss/40"
)

// severityOf returns the highest severity in a record: of its CVSS vectors, of the rating of its distribution, or
// of the member "severity" of the database's own object. It returns "" if none is known.
func severityOf(list []rawSeverity, specific json.RawMessage) Severity {
	var out Severity
	for _, s := range list {
		if r := rating(s); r != "" {
			out = worst(out, r)
		}
	}
	if out == "" {
		out = word(text(specific, "severity"))
	}
	return out
}

func rating(s rawSeverity) Severity {
	if len(s.Score) > 500 {
		return ""
	}
	switch {
	case strings.HasPrefix(s.Score, "CVSS:4.0/"):
		if v, err := cvss40.ParseVector(s.Score); err == nil {
			return scored(v.Score())
		}
	case strings.HasPrefix(s.Score, "CVSS:3.1/"):
		if v, err := cvss31.ParseVector(s.Score); err == nil {
			return scored(v.BaseScore())
		}
	case strings.HasPrefix(s.Score, "CVSS:3.0/"):
		if v, err := cvss30.ParseVector(s.Score); err == nil {
			return scored(v.BaseScore())
		}
	case s.Type == "CVSS_V2":
		if v, err := cvss20.ParseVector(s.Score); err == nil {
			return scored(v.BaseScore())
		}
	default:
		return word(s.Score) // e.g. type Ubuntu
	}
	return ""
}

// scored returns the severity of a score as FIRST defines them. A score of 0 is low, too.
func scored(score float64) Severity {
	switch {
	case score >= 9:
		return Critical
	case score >= 7:
		return High
	case score >= 4:
		return Medium
	}
	return Low
}

// word returns the severity that a word means; "" for unknown words.
func word(s string) Severity {
	switch strings.ToLower(s) {
	case "critical":
		return Critical
	case "high", "important":
		return High
	case "medium", "moderate":
		return Medium
	case "low", "negligible", "minor":
		return Low
	}
	return ""
}

package artifact

import (
	"encoding/json"
	"io"
	"net/url"
	"strings"
	"unicode"

	"slipway.dev/services/internal/limits"
)

// An About holds values of a package's info/about.json, each on one line. "" means unknown.
type About struct {
	// Summary is a sentence of at most limits.IndexedSummary bytes.
	Summary string `json:"summary,omitempty"`
	// Home is the http(s) URL of the project.
	Home string `json:"home,omitempty"`
	// License is an expression of at most limits.ChannelWord bytes.
	License string `json:"license,omitempty"`
}

// About returns what the package states about itself.
func (a *Artifact) About() About { return a.about }

// readAbout reads an info/about.json. No installer needs the file, so a malformed one is
// not an error: its values are unknown.
func readAbout(in io.Reader) About {
	var raw struct {
		Summary json.RawMessage `json:"summary"`
		Home    json.RawMessage `json:"home"`
		License json.RawMessage `json:"license"`
	}
	if err := decode(in, &raw); err != nil {
		return About{}
	}
	var out About
	optional(raw.Summary, &out.Summary)
	optional(raw.License, &out.License)
	if optional(raw.Home, &out.Home); out.Home == "" {
		var several []string // conda-build also writes a list
		if optional(raw.Home, &several); len(several) > 0 {
			out.Home = several[0]
		}
	}
	return out.Printable()
}

// Printable returns each value on one line, without unprintable characters and shortened to
// its limit. A Home that is not an http(s) URL is omitted.
func (a About) Printable() About {
	a.Summary, a.License = oneLine(a.Summary, limits.IndexedSummary), oneLine(a.License, limits.ChannelWord)
	a.Home = strings.TrimSpace(a.Home)
	at, err := url.Parse(a.Home)
	if err != nil || at.Scheme != "https" && at.Scheme != "http" || at.Host == "" || at.User != nil || a.Home != oneLine(a.Home, limits.IndexedSummary) {
		a.Home = ""
	}
	return a
}

// oneLine returns a text with single spaces and without unprintable characters, shortened to
// a number of bytes.
func oneLine(text string, most int) string {
	text = strings.Join(strings.Fields(strings.ToValidUTF8(text, "")), " ")
	text = strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return -1
		}
		return r
	}, text)
	text = strings.Join(strings.Fields(text), " ")
	const more = "…"
	if len(text) > most {
		text = strings.TrimSpace(strings.ToValidUTF8(text[:most-len(more)], "")) + more
	}
	return text
}

package shadow

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// A Difference is one difference between two images.
type Difference struct {
	// Path is the name in the images, without a leading slash.
	Path string `json:"path"`
	// What is the kind of difference: "missing", "kind", "mode", "target", "content", or a
	// field of a conda-meta record.
	What string `json:"what"`
	// Direct is the value in the image of packages, and Classic the value in the
	// installer's image; "" if the name is missing.
	Direct  string `json:"direct"`
	Classic string `json:"classic"`
}

// KnownDifference is a kind of difference that any two installers have.
type KnownDifference struct {
	// Why is the reason.
	Why string `json:"why"`
	// Count is the number of names or fields with this difference, and Example is one of
	// them.
	Count   int    `json:"count"`
	Example string `json:"example"`
}

// A Report is the result of a comparison.
type Report struct {
	// Names is the number of names in either image.
	Names int `json:"names"`
	// Records is the number of conda-meta records in both images.
	Records     int               `json:"records"`
	Differences []Difference      `json:"differences"`
	Known       []KnownDifference `json:"known"`
}

// Equal reports whether there are no differences except known ones.
func (r Report) Equal() bool { return len(r.Differences) == 0 }

// Compare compares an image that was assembled from packages with an installer's image.
func Compare(direct, classic *Tree) Report {
	c := &comparison{known: map[string]*KnownDifference{}}
	for _, name := range names(direct, classic) {
		a, inDirect := direct.entries[name]
		b, inClassic := classic.entries[name]
		c.report.Names++
		switch {
		case inDirect != inClassic:
			c.missing(name, a, b)
		case direct.records[name] != nil && classic.records[name] != nil:
			c.report.Records++
			c.entry(name, a, b, false)
			c.record(name, direct.records[name], classic.records[name])
		default:
			c.entry(name, a, b, true)
		}
	}
	for _, k := range c.known {
		c.report.Known = append(c.report.Known, *k)
	}
	slices.SortFunc(c.report.Known, func(a, b KnownDifference) int { return cmp.Compare(a.Why, b.Why) })
	return c.report
}

// names returns the names of both trees, sorted.
func names(a, b *Tree) []string {
	var all []string
	for name := range a.entries {
		all = append(all, name)
	}
	for name := range b.entries {
		if _, there := a.entries[name]; !there {
			all = append(all, name)
		}
	}
	slices.Sort(all)
	return all
}

// comparison is a report in progress.
type comparison struct {
	report Report
	known  map[string]*KnownDifference
}

// Reasons why installers differ.
const (
	bytecode = "compiled Python, which only one installer creates, or which contains timestamps"
	keeping  = "files of the installer itself"
	login    = "the profile of login shells, which only an image of layers has"
	times    = "times of files and folders"
	fields   = "fields of records that hold paths on the machine, or how something was requested"
)

// reason returns why a name is known to differ, or "".
func reason(name string) string {
	in, ours := strings.CutPrefix(name, "opt/conda/")
	top, _, _ := strings.Cut(in, "/")
	switch {
	case name == "etc", name == "etc/profile.d", name == "etc/profile.d/slipway-conda.sh":
		return login
	case !ours:
		return ""
	case strings.HasSuffix(in, ".pyc"), strings.HasSuffix(in, "/__pycache__"):
		return bytecode
	case in == "conda-meta/history", in == "conda-meta/slipway.lock", top == "pkgs", top == "envs", top == ".mambarc", top == ".condarc":
		return keeping
	}
	return ""
}

func (c *comparison) missing(name string, a, b Entry) {
	if why := reason(name); why != "" {
		c.expected(why, name)
		return
	}
	c.add(name, "missing", describe(a), describe(b))
}

// describe returns the kind of an entry with its mode or target; "" for the zero Entry.
func describe(e Entry) string {
	switch e.Kind {
	case "":
		return ""
	case Link:
		return "link to " + e.Target
	case Folder, File, Other:
	}
	return fmt.Sprintf("%s %04o", e.Kind, e.Mode)
}

// entry compares the entries of a name. If content is set, the bytes must be equal, too.
func (c *comparison) entry(name string, a, b Entry, content bool) {
	if a.Kind != b.Kind {
		c.add(name, "kind", string(a.Kind), string(b.Kind))
		return
	}
	if a.Mode != b.Mode {
		c.add(name, "mode", fmt.Sprintf("%04o", a.Mode), fmt.Sprintf("%04o", b.Mode))
	}
	if a.Target != b.Target {
		c.add(name, "target", a.Target, b.Target)
	}
	if a.Kind != Link && !a.Time.Equal(b.Time) {
		c.expected(times, name)
	}
	if content && a.Digest != b.Digest {
		if why := reason(name); why != "" {
			c.expected(why, name)
			return
		}
		c.add(name, "content", a.Digest.String(), b.Digest.String())
	}
}

func (c *comparison) add(name, what, direct, classic string) {
	c.report.Differences = append(c.report.Differences, Difference{name, what, direct, classic})
}

func (c *comparison) expected(why, example string) {
	if c.known[why] == nil {
		c.known[why] = &KnownDifference{Why: why, Example: example}
	}
	c.known[why].Count++
}

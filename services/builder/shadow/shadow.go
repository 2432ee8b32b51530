package shadow

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Difference is one thing that two images do not have alike.
type Difference struct {
	// Path is the name in the images, without a slash before it.
	Path string `json:"path"`
	// What differs: "missing", "kind", "mode", "target", "content", or a field of a
	// record of conda-meta.
	What string `json:"what"`
	// Direct is what the image of packages has, Classic what the installer's has; "" where
	// the name is missing.
	Direct  string `json:"direct"`
	Classic string `json:"classic"`
}

// Known is a kind of difference that any two installers have.
type Known struct {
	// Why they differ.
	Why string `json:"why"`
	// Count is how many names or fields do; Example is one of them.
	Count   int    `json:"count"`
	Example string `json:"example"`
}

// Report is how two images compare.
type Report struct {
	// Names is how many names are in either.
	Names int `json:"names"`
	// Records is how many records of conda-meta are in both.
	Records     int          `json:"records"`
	Differences []Difference `json:"differences"`
	Known       []Known      `json:"known"`
}

// Equal says whether they differ in nothing but what is known to differ.
func (r Report) Equal() bool { return len(r.Differences) == 0 }

// Compare holds an image that was put together of packages against an installer's.
func Compare(direct, classic *Tree) Report {
	c := &comparison{known: map[string]*Known{}}
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
	slices.SortFunc(c.report.Known, func(a, b Known) int { return cmp.Compare(a.Why, b.Why) })
	return c.report
}

// names are those of both trees, in order.
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

// comparison is a report on its way.
type comparison struct {
	report Report
	known  map[string]*Known
}

// Why installers differ.
const (
	bytecode = "compiled Python, which one makes and the other leaves to the first import, or which holds times"
	keeping  = "what an installer keeps for itself"
	times    = "times of files and folders"
	fields   = "fields of records that hold paths on the machine, or how something was asked for"
)

// reason says why a name is known to differ; "" where it is not.
func reason(name string) string {
	in, ours := strings.CutPrefix(name, "opt/conda/")
	top, _, _ := strings.Cut(in, "/")
	switch {
	case !ours:
		return ""
	case strings.HasSuffix(in, ".pyc"), strings.HasSuffix(in, "/__pycache__"):
		return bytecode
	case in == "conda-meta/history", top == "pkgs", top == "envs", top == ".mambarc", top == ".condarc":
		return keeping
	}
	return ""
}

func (c *comparison) missing(name string, a, b Entry) {
	if why := reason(name); why != "" {
		c.expected(why, name)
		return
	}
	c.add(name, "missing", shown(a), shown(b))
}

// shown is an entry in words; "" for none.
func shown(e Entry) string {
	switch e.Kind {
	case "":
		return ""
	case Link:
		return "link to " + e.Target
	case Folder, File, Other:
	}
	return fmt.Sprintf("%s %04o", e.Kind, e.Mode)
}

// entry compares what a name stands for in both; content says whether bytes are to be
// the same.
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
		c.known[why] = &Known{Why: why, Example: example}
	}
	c.known[why].Count++
}

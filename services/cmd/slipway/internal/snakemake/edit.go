package snakemake

import (
	"slices"
	"strings"
)

// A change is the container that a rule gets.
type change struct {
	rule  *rule
	image string
}

// written returns the text of a Snakefile with the containers of its rules. Other lines stay as they
// are.
func (f *snakefile) written(changes []change) string {
	lines := slices.Clone(f.lines)
	slices.SortFunc(changes, func(a, b change) int { return b.rule.conda.from - a.rule.conda.from }) // from the end: numbers of lines stay valid
	for _, c := range changes {
		ending := "\n"
		if strings.HasSuffix(lines[c.rule.conda.from], "\r\n") {
			ending = "\r\n"
		}
		text := c.rule.indent + `container: "docker://` + c.image + `"` + ending
		from, to := c.rule.conda.to, c.rule.conda.to
		if d := c.rule.container; d != nil {
			from, to = d.from, d.to
		}
		if from > 0 && !strings.HasSuffix(lines[from-1], "\n") { // the last line of the file
			lines[from-1] += ending
		}
		lines = slices.Replace(lines, from, to, text)
	}
	return strings.Join(lines, "")
}

// image returns the name of the image that a rule has, without the scheme. It is "" if the rule has
// none, or an expression.
func (r *rule) image() string {
	if r.container == nil || !r.container.isText {
		return ""
	}
	return strings.TrimPrefix(r.container.text, "docker://")
}

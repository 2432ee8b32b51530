package solver

import (
	"slices"
	"strings"

	"slipway.dev/services/conda/spec"
)

// leaf returns a node that explains why no record matches a want.
func (t *treeBuilder) leaf(w *want) (*node, error) {
	n := &node{want: w, Reason: Reason{Spec: w.spec.String()}}
	name := w.pkg.name
	switch {
	case w.unread != "":
		n.Kind, n.Spec, n.Text = "unread", name, w.unread
	case strings.HasPrefix(name, "__"):
		n.Kind, n.Text = "machine", t.machine(w)
	case len(w.pkg.records) > 0:
		newest := w.pkg.versions[len(w.pkg.versions)-1].String()
		n.Kind, n.Text = "unfit", "no "+name+" fits "+w.spec.String()+": the newest is "+newest
		if w.pkg.hasVersion(w.spec.Version) {
			n.Text = "no " + name + " fits " + w.spec.String() + ": its version is there, but not that build or channel"
		}
	default:
		text, err := t.absence(w)
		if err != nil {
			return nil, err
		}
		n.Kind, n.Text = "unnamed", text
	}
	return n, nil
}

func (p *candidates) hasVersion(wanted spec.VersionSpec) bool {
	return slices.ContainsFunc(p.versions, wanted.Match)
}

func (t *treeBuilder) machine(w *want) string {
	if len(w.pkg.records) == 0 {
		return "the machine has no " + w.pkg.name
	}
	r := w.pkg.records[0]
	return "the machine has " + spec.VirtualPackage{Name: r.Name, Version: r.Version, Build: r.Build}.String()
}

// absence explains why a name has no records.
func (t *treeBuilder) absence(w *want) (string, error) {
	name := w.pkg.name
	newest := t.library.problem.newest(name)
	if !newest.IsZero() {
		for i := range t.library.problem.Channels {
			all, err := recordsOf(&t.library.problem.Channels[i], name)
			if err != nil {
				return "", err
			}
			if len(all) > 0 {
				return "every " + name + " is newer than " + newest.UTC().Format("2006-01-02 15:04 MST"), nil
			}
		}
	}
	return "no package is named " + name + " in " + channelNames(t.library.problem.Channels), nil
}

func channelNames(channels []Channel) string {
	names := make([]string, len(channels))
	for i := range channels {
		names[i] = channels[i].Name
	}
	if n := len(names); n > 1 {
		return strings.Join(names[:n-1], ", ") + " and " + names[n-1]
	}
	return strings.Join(names, "")
}

// missing returns the missing names in the tree, with alternatives.
func (t *treeBuilder) missing(roots []*node) []Missing {
	var out []Missing
	var walk func(n *node)
	walk = func(n *node) {
		name := n.want.pkg.name
		if n.Kind == "unnamed" && !slices.ContainsFunc(out, func(m Missing) bool { return m.Name == name }) {
			m := Missing{Name: name}
			if names := t.library.problem.Names; names != nil && len(out) < maxKinds {
				m.Nearest = names.Nearest(name)
				for _, c := range names.InOtherChannels(name) {
					m.InOtherChannels = append(m.InOtherChannels, c.Name)
				}
				m.Version, m.Platforms = names.Platforms(name)
			}
			n.Text += m.hint()
			out = append(out, m)
		}
		for _, b := range n.because {
			walk(b)
		}
	}
	for _, n := range roots {
		walk(n)
	}
	return out
}

// hint returns a suffix for a sentence with the alternatives of a missing name.
func (m *Missing) hint() string {
	switch {
	case len(m.Platforms) > 0:
		return "; " + strings.TrimSpace(m.Name+" "+m.Version) + " is only available for " + strings.Join(m.Platforms, " and ")
	case len(m.InOtherChannels) > 0:
		return "; it is in " + m.InOtherChannels[0] + ", which is not among your channels"
	case len(m.Nearest) > 0:
		return ": did you mean " + strings.Join(m.Nearest[:min(3, len(m.Nearest))], ", ") + "?"
	}
	return ""
}

package layering

import (
	"cmp"
	"maps"
	"path"
	"slices"
	"strings"

	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/limits"
)

// plan assigns packages to layers: alone has those with a layer of their own, lowest first,
// and rest those that share the layer above, in the order of the lock.
type plan struct {
	alone, rest []int
}

// arrange assigns the packages of an environment to layers. The packages are in topological
// order. If two have the same path, the later one wins, so its layer is above. Otherwise
// the largest are lowest, in every environment, so that environments share layers from the
// bottom. The names are used in messages.
func arrange(names []string, packages []Package) (plan, error) {
	beaten, err := clashes(names, packages)
	if err != nil {
		return plan{}, err
	}
	order := make([]int, len(packages))
	for i := range order {
		order[i] = i
	}
	if len(packages) <= limits.CondaLayers {
		return plan{alone: stack(order, packages, beaten)}, nil
	}
	// A package that loses a path must not be in the top layer, unless the winner is there,
	// too.
	losers := 0
	for i := range packages {
		if len(beaten[i]) > 0 {
			losers++
		}
	}
	if losers < limits.CondaLayers {
		slices.SortStableFunc(order, func(a, b int) int {
			return cmp.Or(-cmp.Compare(min(len(beaten[a]), 1), min(len(beaten[b]), 1)), -cmp.Compare(packages[a].Size, packages[b].Size), cmp.Compare(a, b))
		})
	}
	p := plan{alone: stack(order[:limits.CondaLayers-1], packages, beaten), rest: order[limits.CondaLayers-1:]}
	slices.Sort(p.rest)
	return p, nil
}

// stack orders layers by size, the largest first, but each above those that it takes a path
// from.
func stack(which []int, packages []Package, beaten [][]int) []int {
	left := slices.Clone(which)
	slices.SortStableFunc(left, func(a, b int) int {
		return cmp.Or(-cmp.Compare(packages[a].Size, packages[b].Size), cmp.Compare(a, b))
	})
	var out []int
	for len(left) > 0 {
		next := slices.IndexFunc(left, func(i int) bool {
			return !slices.ContainsFunc(left, func(below int) bool { return slices.Contains(beaten[below], i) })
		})
		out = append(out, left[next])
		left = slices.Delete(left, next, next+1)
	}
	return out
}

// clashes returns for each package the later packages that have one of its paths. A path
// that is a folder of one package and a file of another is fault.Invalid.
func clashes(names []string, packages []Package) ([][]int, error) {
	c := claims{beaten: make([][]int, len(packages)), files: map[string]int{}, folders: map[string]int{}}
	total := 0
	for i, p := range packages {
		if total += len(p.Paths); total > limits.ImageEntries {
			return nil, fault.Invalid.Newf("The environment has more than %d files", limits.ImageEntries)
		}
		for _, name := range p.Paths {
			c.add(name, i)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(c.folders)) { // sorted, so that the same environment always returns the same error
		if other, ok := c.files[name]; ok {
			i := c.folders[name]
			return nil, fault.Invalid.Newf("%s and %s cannot be in one environment: %.200q is a file of the first, and a folder of the other", names[other], names[i], name)
		}
	}
	return c.beaten, nil
}

// claims maps the paths of an environment to the packages that have them.
type claims struct {
	files, folders map[string]int
	beaten         [][]int
}

// add adds a path of package i, which takes the path from an earlier package.
func (c *claims) add(name string, i int) {
	file, folder := strings.CutSuffix(name, "/")
	if folder {
		c.folders[file] = i
	} else {
		if earlier, ok := c.files[file]; ok && !slices.Contains(c.beaten[earlier], i) {
			c.beaten[earlier] = append(c.beaten[earlier], i)
		}
		c.files[file] = i
	}
	for dir := path.Dir(file); dir != "."; dir = path.Dir(dir) {
		if _, known := c.folders[dir]; known {
			return
		}
		c.folders[dir] = i
	}
}

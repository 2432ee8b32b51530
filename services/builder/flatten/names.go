package flatten

import (
	"cmp"
	"errors"
	"hash/maphash"
	"slices"

	"slipway.dev/services/builder/arena"
)

// place links a name into its directory by the numbers of nodes. Node 0 is the root, and
// means none in next and below.
type place struct {
	parent uint32
	name   uint32 // index in names
	next   uint32 // another name in the same directory
	below  uint32 // the first name in this directory
}

// names finds nodes by name, counts them, and holds them in an arena.
type names struct {
	memory *arena.Arena
	limits Limits
	count  int
	bytes  int64
	text   *arena.Strings
	index  *arena.Index
	seed   maphash.Seed
	// at returns the place of a node.
	at func(id uint32) *place
}

func newNames(memory *arena.Arena, limits Limits) *names {
	return &names{memory: memory, limits: limits, text: arena.NewStrings(memory), seed: maphash.MakeSeed()}
}

// use sets the function that returns places.
func (n *names) use(at func(id uint32) *place) {
	n.at = at
	n.index = arena.NewIndex(n.memory, func(id uint32) uint64 {
		p := at(id)
		return n.hash(p.parent, n.text.At(p.name))
	})
}

func (n *names) hash(parent uint32, name string) uint64 {
	return maphash.String(n.seed, name) + uint64(parent+1)*0x9e3779b97f4a7c15
}

// find returns the node of a name in a directory.
func (n *names) find(parent uint32, name string) (id uint32, ok bool) {
	return n.index.Find(n.hash(parent, name), func(id uint32) bool {
		p := n.at(id)
		return p.parent == parent && n.text.At(p.name) == name
	})
}

// add counts the name of a new node and links it into its directory.
func (n *names) add(parent, id uint32, name string) error {
	if err := n.countName(name); err != nil {
		return err
	}
	p := n.at(id)
	var err error
	if p.name, err = n.text.Add(name); err != nil {
		return n.full(err)
	}
	n.enter(parent, id)
	return n.full(n.index.Add(n.hash(parent, name), id))
}

// replace replaces a node by another.
func (n *names) replace(old, id uint32) {
	o := n.at(old)
	n.at(id).name = o.name
	n.enter(o.parent, id)
	n.index.Replace(n.hash(o.parent, n.text.At(o.name)), old, id)
}

func (n *names) enter(parent, id uint32) {
	p, up := n.at(id), n.at(parent)
	p.parent, p.next = parent, up.below
	up.below = id
}

// countName counts a name.
func (n *names) countName(name string) error {
	n.count++
	n.bytes += int64(len(name))
	switch {
	case n.limits.Names > 0 && n.count > n.limits.Names:
		return refuse("belongs to an image with more than %d names, including parent directories", n.limits.Names)
	case n.limits.NameBytes > 0 && n.bytes > n.limits.NameBytes:
		return refuse("belongs to an image whose names have more than %d MiB in total", n.limits.NameBytes>>20)
	}
	return nil
}

// full converts an exceeded budget to a refusal, and returns other errors unchanged.
func (n *names) full(err error) error {
	if arena.IsFull(err) && n.limits.Memory != nil {
		return refuse("belongs to an image whose names and links take more than %d MiB of memory", n.limits.Memory.Limit()>>20)
	}
	return err
}

// path returns the path of a node, without leading and trailing slashes.
func (n *names) path(id uint32) string {
	var ids []uint32
	length := 0
	for ; id != 0; id = n.at(id).parent {
		ids = append(ids, id)
		length += len(n.text.At(n.at(id).name)) + 1
	}
	out := make([]byte, 0, length)
	for _, id := range slices.Backward(ids) {
		if len(out) > 0 {
			out = append(out, '/')
		}
		out = append(out, n.text.At(n.at(id).name)...)
	}
	return string(out)
}

// name returns the name of a node, which is valid until the memory is released.
func (n *names) name(id uint32) string { return n.text.At(n.at(id).name) }

// sorted returns the nodes in a directory, sorted by name.
func (n *names) sorted(dir uint32) []uint32 {
	var out []uint32
	for id := n.at(dir).below; id != 0; id = n.at(id).next {
		out = append(out, id)
	}
	slices.SortFunc(out, func(a, b uint32) int { return cmp.Compare(n.name(a), n.name(b)) })
	return out
}

// errLayers is returned if there are more layers than can be numbered.
var errLayers = errors.New("an image has too many layers")

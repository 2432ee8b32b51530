package cache

import (
	"cmp"
	"errors"
	"math"
	"path"
	"slices"

	"slipway.dev/services/mount/erofs"
)

// FirstPaths returns the paths of the files of an index that have a chunk in a list of first uses, in the order of the list. Paths have no
// leading slash. Files in the same chunk are in the order of their paths.
func FirstPaths(x *erofs.Index, list []First) ([]string, error) {
	rank := map[First]int{}
	for i, f := range slices.Backward(list) {
		rank[f] = i
	}
	type found struct {
		path string
		rank int
	}
	type folder struct {
		nid  uint64
		path string
	}
	var files []found
	seen := map[uint64]bool{x.Root(): true}
	for todo := []folder{{nid: x.Root()}}; len(todo) > 0; {
		dir := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		var malformed error
		err := x.Each(dir.nid, 0, func(name string, nid uint64, _ byte, _ uint64) bool {
			i, ok := x.Inode(nid)
			if !ok {
				malformed = errors.New("the index of the environment has no inode of " + path.Join(dir.path, name))
				return false
			}
			switch at := path.Join(dir.path, name); {
			case name == "." || name == "..":
			case i.Mode&erofs.ModeType == erofs.ModeDir && !seen[nid]:
				seen[nid] = true
				todo = append(todo, folder{nid, at})
			default:
				if r := firstRank(x, nid, i.Size, rank); r < math.MaxInt {
					files = append(files, found{at, r})
				}
			}
			return true
		})
		if err := errors.Join(err, malformed); err != nil {
			return nil, err
		}
	}
	slices.SortFunc(files, func(a, b found) int { return cmp.Or(cmp.Compare(a.rank, b.rank), cmp.Compare(a.path, b.path)) })
	out := make([]string, len(files))
	for i, f := range files {
		out[i] = f.path
	}
	return out, nil
}

// firstRank returns the place in the list of the first chunk of a file that was read; math.MaxInt for none.
func firstRank(x *erofs.Index, nid, size uint64, rank map[First]int) int {
	device, at, ok := x.Extent(nid)
	out := math.MaxInt
	if !ok || device == erofs.Embedded || size == 0 {
		return out
	}
	for i := at / erofs.ChunkSize; i <= (at+int64(size)-1)/erofs.ChunkSize; i++ {
		if r, listed := rank[First{device, int(i)}]; listed {
			out = min(out, r)
		}
	}
	return out
}

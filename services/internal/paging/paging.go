// Package paging reads which part of a list a call asks for, the same way for every
// list: max and offset, or pageSize and page, which is counted from 1.
package paging

import (
	"slipway.dev/services/internal/fault"
)

// Request is what a call says of the part of a list that it wants. 0 says nothing.
type Request interface {
	GetMax() int32
	GetOffset() int32
	GetPage() int32
	GetPageSize() int32
}

// farthest is the last page: what is beyond it is in no list.
const farthest = 1_000_000

// Read returns how many to answer, usually so many and at most so many, and how many to
// skip. fault.Invalid where the call asks for less than nothing.
func Read(r Request, usually, most int) (limit, offset int, err error) {
	limit, offset = int(r.GetMax()), int(r.GetOffset())
	if r.GetPageSize() != 0 {
		limit = int(r.GetPageSize())
	}
	if limit < 0 || offset < 0 || r.GetPage() < 0 {
		return 0, 0, fault.Invalid.Newf("max, offset, page and pageSize must not be negative")
	}
	if limit == 0 {
		limit = usually
	}
	limit = min(limit, most)
	if r.GetPage() > 1 {
		offset = (min(int(r.GetPage()), farthest) - 1) * limit
	}
	return limit, offset, nil
}

// Strictly is Read of a list that is never answered in larger parts than most: whoever
// asks for more is told.
func Strictly(r Request, usually, most int) (limit, offset int, err error) {
	if max(r.GetMax(), r.GetPageSize()) > int32(most) {
		return 0, 0, fault.Invalid.Newf("max and pageSize must be 1 to %d", most)
	}
	return Read(r, usually, most)
}

// Cut returns the part of a list that is asked for; by default all of it.
func Cut[T any](list []T, r Request) ([]T, error) {
	limit, offset, err := Read(r, len(list), len(list))
	if err != nil {
		return nil, err
	}
	list = list[min(offset, len(list)):]
	return list[:min(limit, len(list))], nil
}

// Package paging reads the paging parameters of list requests: max and offset, or pageSize
// and page, where pages are numbered from 1.
package paging

import (
	"slipway.dev/services/internal/fault"
)

// A Request has the paging parameters of a list request. 0 means that a parameter is not set.
type Request interface {
	GetMax() int32
	GetOffset() int32
	GetPage() int32
	GetPageSize() int32
}

// maxPage is the highest page number. It is larger than the last page of any list.
const maxPage = 1_000_000

// Read returns the number of items to return and the number of items to skip. The limit is
// defaultLimit if the request sets none, and never more than maxLimit. It returns
// fault.Invalid if a parameter is negative.
func Read(r Request, defaultLimit, maxLimit int) (limit, offset int, err error) {
	limit, offset = int(r.GetMax()), int(r.GetOffset())
	if r.GetPageSize() != 0 {
		limit = int(r.GetPageSize())
	}
	if limit < 0 || offset < 0 || r.GetPage() < 0 {
		return 0, 0, fault.Invalid.Newf("max, offset, page and pageSize must not be negative")
	}
	if limit == 0 {
		limit = defaultLimit
	}
	limit = min(limit, maxLimit)
	if r.GetPage() > 1 {
		offset = (min(int(r.GetPage()), maxPage) - 1) * limit
	}
	return limit, offset, nil
}

// ReadStrict is like Read, but returns fault.Invalid if the request exceeds maxLimit.
func ReadStrict(r Request, defaultLimit, maxLimit int) (limit, offset int, err error) {
	if max(r.GetMax(), r.GetPageSize()) > int32(maxLimit) {
		return 0, 0, fault.Invalid.Newf("max and pageSize must be 1 to %d", maxLimit)
	}
	return Read(r, defaultLimit, maxLimit)
}

// Slice returns the requested part of list, by default all of it.
func Slice[T any](list []T, r Request) ([]T, error) {
	limit, offset, err := Read(r, len(list), len(list))
	if err != nil {
		return nil, err
	}
	list = list[min(offset, len(list)):]
	return list[:min(limit, len(list))], nil
}

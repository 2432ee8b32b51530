package paging_test

import (
	"errors"
	"fmt"
	"testing"

	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/paging"
)

type asked struct{ max, offset, page, size int32 }

func (a asked) GetMax() int32      { return a.max }
func (a asked) GetOffset() int32   { return a.offset }
func (a asked) GetPage() int32     { return a.page }
func (a asked) GetPageSize() int32 { return a.size }

func TestRead(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		asked
		limit, offset int
	}{
		{asked{}, 20, 0},
		{asked{max: 5, offset: 7}, 5, 7},
		{asked{max: 5, size: 6}, 6, 0},
		{asked{page: 1, size: 6}, 6, 0},
		{asked{page: 3, size: 6}, 6, 12},
		{asked{page: 3}, 20, 40},
		{asked{page: 3, offset: 1}, 20, 40},
		{asked{max: 1 << 30}, 100, 0},
		{asked{page: 2, size: 1 << 30}, 100, 100},
		{asked{page: 1<<31 - 1, size: 100}, 100, 99_999_900},
	} {
		limit, offset, err := paging.Read(c.asked, 20, 100)
		if limit != c.limit || offset != c.offset || err != nil {
			t.Errorf("%+v: %d from %d, %v; want %d from %d", c.asked, limit, offset, err, c.limit, c.offset)
		}
	}
}

func TestReadRefuses(t *testing.T) {
	t.Parallel()
	for _, a := range []asked{{max: -1}, {offset: -1}, {page: -1}, {size: -1}} {
		if _, _, err := paging.Read(a, 20, 100); !errors.Is(err, fault.Invalid) {
			t.Errorf("%+v: %v", a, err)
		}
	}
	for a, refused := range map[asked]bool{{max: 100}: false, {size: 100}: false, {max: 101}: true, {size: 101}: true, {max: -1}: true} {
		if _, _, err := paging.ReadStrict(a, 20, 100); errors.Is(err, fault.Invalid) != refused {
			t.Errorf("%+v: %v", a, err)
		}
	}
}

func TestSlice(t *testing.T) {
	t.Parallel()
	list := []int{1, 2, 3, 4, 5}
	for a, want := range map[asked]string{
		{}: "[1 2 3 4 5]", {max: 2}: "[1 2]", {offset: 3}: "[4 5]", {offset: 9}: "[]", {page: 2, size: 2}: "[3 4]", {page: 3, size: 2}: "[5]", {page: 9, size: 2}: "[]",
	} {
		if got, err := paging.Slice(list, a); fmt.Sprint(got) != want || err != nil {
			t.Errorf("%+v: %v, %v; want %s", a, got, err, want)
		}
	}
	if got, err := paging.Slice([]int(nil), asked{page: 2}); len(got) != 0 || err != nil {
		t.Errorf("a page of an empty list: %v, %v", got, err)
	}
}

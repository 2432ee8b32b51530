package session

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
)

func TestPager(t *testing.T) {
	t.Parallel()
	show := func(program string, lines int, end error) (string, error) {
		var out bytes.Buffer
		err := throughPager(t.Context(), program, &out, func(page io.Writer) error {
			for n := range lines {
				if _, err := fmt.Fprintln(page, "line", n); err != nil {
					return fmt.Errorf("printing: %w", err)
				}
			}
			return end
		})
		return out.String(), err
	}
	if got, err := show("sed 's/^/| /'", 2, nil); got != "| line 0\n| line 1\n" || err != nil {
		t.Errorf("shown is %q, %v", got, err)
	}
	if got, err := show("head -n 1", 100_000, nil); got != "line 0\n" || err != nil {
		t.Errorf("who leaves early sees %q, %v", got, err)
	}
	why := errors.New("why")
	if got, err := show("tail -n 1", 2, why); got != "line 1\n" || !errors.Is(err, why) {
		t.Errorf("work that ends with an error is shown as %q, %v", got, err)
	}
	if _, err := show("no-such-pager", 2, nil); err == nil || !strings.Contains(err.Error(), "--no-pager") {
		t.Errorf("without the pager: %v", err)
	}
}

func TestPagerOf(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		env  map[string]string
		want string
	}{
		{nil, ""},
		{map[string]string{"PAGER": "less"}, "less"},
		{map[string]string{"PAGER": "less", "SLIPWAY_PAGER": "more -d"}, "more -d"},
		{map[string]string{"PAGER": "less", "SLIPWAY_PAGER": "cat"}, ""},
	} {
		if got := pagerOf(func(name string) string { return c.env[name] }); got != c.want {
			t.Errorf("%v: %q, want %q", c.env, got, c.want)
		}
	}
}

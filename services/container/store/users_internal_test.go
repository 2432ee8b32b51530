package store

import (
	"math"
	"strings"
	"testing"
)

// FuzzPageToken checks that page tokens parse to the place that they were made from, and
// that anything else is rejected.
func FuzzPageToken(f *testing.F) {
	f.Add("1769990400000000." + strings.Repeat("0a", 32))
	f.Add("")
	f.Add("-1." + strings.Repeat("0", 64))
	f.Add("9223372036854775808." + strings.Repeat("0", 64))
	f.Fuzz(func(t *testing.T, text string) {
		p, err := ParsePosition(text)
		if err != nil {
			return
		}
		if text == "" && p != (PagePosition{created: math.MaxInt64}) {
			t.Errorf("the start of the list is %v", p)
		}
		if again, err := ParsePosition(p.String()); text != "" && (err != nil || again != p) {
			t.Errorf("%q parses as %v, then as %v, %v", text, p, again, err)
		}
	})
}

package store

import (
	"math"
	"strings"
	"testing"
)

// FuzzPageToken: a place is read as it is written, and nothing else is read.
func FuzzPageToken(f *testing.F) {
	f.Add("1769990400000000." + strings.Repeat("0a", 32))
	f.Add("")
	f.Add("-1." + strings.Repeat("0", 64))
	f.Add("9223372036854775808." + strings.Repeat("0", 64))
	f.Fuzz(func(t *testing.T, text string) {
		p, err := ReadPlace(text)
		if err != nil {
			return
		}
		if text == "" && p != (Place{created: math.MaxInt64}) {
			t.Errorf("the beginning is %v", p)
		}
		if again, err := ReadPlace(p.String()); text != "" && (err != nil || again != p) {
			t.Errorf("%q is read as %v, then as %v, %v", text, p, again, err)
		}
	})
}

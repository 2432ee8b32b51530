package metrics

import (
	"cmp"
	"encoding/csv"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/types/known/wrapperspb"

	usagev1 "slipway.dev/proto/gen/slipway/usage/v1"
)

// FuzzCSV checks that names stay in their cells, and that no spreadsheet evaluates one as a
// formula.
func FuzzCSV(f *testing.F) {
	for _, name := range []string{"ada", "", "=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1", `a "quoted", name`, "two\nlines", "'=1"} {
		f.Add(name)
	}
	f.Fuzz(func(t *testing.T, name string) {
		text, err := usageCSV([]*usagev1.Usage{{UserId: wrapperspb.Double(1 << 52), UserName: wrapperspb.String(name), Pulls: 3}})
		if err != nil {
			t.Fatal(err)
		}
		rows, err := csv.NewReader(strings.NewReader(text)).ReadAll()
		if err != nil || len(rows) != 2 || len(rows[1]) != len(rows[0]) || rows[1][1] != "4503599627370496" || rows[1][9] != "3" {
			t.Fatalf("%q became %q, %v", name, rows, err)
		}
		cell := rows[1][2]
		if cell != "" && strings.ContainsAny(cell[:1], "=+-@\t\r\n") {
			t.Errorf("%q became the formula %q", name, cell)
		}
		if bare := strings.ReplaceAll(name, "\r", ""); cell != bare && cell != "'"+bare {
			t.Errorf("%q became %q", name, cell)
		}
	})
}

func FuzzReadColumns(f *testing.F) {
	f.Add("day,user")
	f.Add("user,user,day")
	f.Add(",")
	f.Fuzz(func(t *testing.T, text string) {
		list, err := readColumns(text)
		if err != nil {
			return
		}
		given := strings.Split(cmp.Or(text, byUser), ",")
		slices.Sort(given)
		if want := slices.Compact(given); !slices.Equal(slices.Sorted(slices.Values(list)), want) || len(want) > 4 {
			t.Errorf("%q became %q", text, list)
		}
	})
}

package main

import (
	"fmt"
	"strconv"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"
)

// words shows the elements of a command; empty for none.
func words(list []string) string {
	if len(list) == 0 {
		return ""
	}
	return fmt.Sprintf("%q", list)
}

// bytesText shows a length, e.g. "29.7 MB".
func bytesText(n float64) string {
	unit := 0
	units := []string{"B", "kB", "MB", "GB", "TB"}
	for ; n >= 1000 && unit < len(units)-1; unit++ {
		n /= 1000
	}
	if unit == 0 {
		return fmt.Sprintf("%.0f B", n)
	}
	return fmt.Sprintf("%.1f %s", n, units[unit])
}

// moment shows an instant; empty for none.
func moment(t *timestamppb.Timestamp) string {
	if t == nil {
		return ""
	}
	return t.AsTime().Format(time.RFC3339)
}

// yesNo shows a truth value; empty for none.
func yesNo(b *bool) string {
	switch {
	case b == nil:
		return ""
	case *b:
		return "yes"
	}
	return "no"
}

// momentOrNever shows an instant that need not come.
func momentOrNever(t *timestamppb.Timestamp) string {
	if t == nil {
		return "never"
	}
	return moment(t)
}

// tallied shows a whole number that JSON has as a double.
func tallied(n float64) string { return strconv.FormatFloat(n, 'f', -1, 64) }

// number shows a whole number that JSON has as a double; empty for none.
func number(n *float64) string {
	if n == nil {
		return ""
	}
	return tallied(*n)
}

// seconds shows a length of time; "-" for none.
func seconds(s *float64) string {
	if s == nil {
		return "-"
	}
	return time.Duration(*s * float64(time.Second)).Round(time.Millisecond).String()
}

package output

import (
	"fmt"
	"strconv"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"
)

// FormatCommand formats the elements of a command; "" for none.
func FormatCommand(list []string) string {
	if len(list) == 0 {
		return ""
	}
	return fmt.Sprintf("%q", list)
}

// Count formats a number of things, for example "1 image" or "2 images". The plural of what ends with s.
func Count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return strconv.Itoa(n) + " " + what + "s"
}

// BytesText formats a number of bytes, for example "29.7 MB".
func BytesText(n float64) string {
	unit := 0
	units := []string{"B", "kB", "MB", "GB", "TB"}
	for ; unit < len(units)-1 && (n >= 1000 || unit > 0 && n >= 999.95); unit++ { // which would be rounded to 1000.0
		n /= 1000
	}
	if unit == 0 {
		return fmt.Sprintf("%.0f B", n)
	}
	return fmt.Sprintf("%.1f %s", n, units[unit])
}

// FormatTime formats a time; "" for none.
func FormatTime(t *timestamppb.Timestamp) string {
	if t == nil {
		return ""
	}
	return t.AsTime().Format(time.RFC3339)
}

// YesNo formats a boolean; "" for none.
func YesNo(b *bool) string {
	switch {
	case b == nil:
		return ""
	case *b:
		return "yes"
	}
	return "no"
}

// MomentOrNever formats a time, or "never".
func MomentOrNever(t *timestamppb.Timestamp) string {
	if t == nil {
		return "never"
	}
	return FormatTime(t)
}

// Tallied formats an integer that JSON encodes as a double.
func Tallied(n float64) string { return strconv.FormatFloat(n, 'f', -1, 64) }

// Number formats an integer that JSON encodes as a double; "" for none.
func Number(n *float64) string {
	if n == nil {
		return ""
	}
	return Tallied(*n)
}

// Seconds formats a duration; "-" for none.
func Seconds(s *float64) string {
	if s == nil {
		return "-"
	}
	return time.Duration(*s * float64(time.Second)).Round(time.Millisecond).String()
}

package config

import (
	"fmt"
	"strconv"
	"strings"
)

// Bytes is a size in bytes. In configuration it is a number with an optional unit: B, KiB,
// MiB, GiB, TiB.
type Bytes int64

var units = []struct {
	suffix string
	size   Bytes
}{{"TiB", 1 << 40}, {"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}, {"B", 1}}

// UnmarshalText parses "1GiB", "512 MiB" or "1024".
func (b *Bytes) UnmarshalText(text []byte) error {
	s, size := strings.TrimSpace(string(text)), Bytes(1)
	for _, u := range units {
		if rest, ok := strings.CutSuffix(s, u.suffix); ok {
			s, size = strings.TrimSpace(rest), u.size
			break
		}
	}
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil || n < 0 || n > 1<<62/int64(size) {
		return fmt.Errorf("a size is a number with B, KiB, MiB, GiB or TiB, e.g. 8GiB; got %q", text)
	}
	*b = Bytes(n) * size
	return nil
}

// MarshalText formats the size with the largest unit that divides it.
func (b Bytes) MarshalText() ([]byte, error) {
	for _, u := range units {
		if b >= u.size && b%u.size == 0 {
			return []byte(strconv.FormatInt(int64(b/u.size), 10) + u.suffix), nil
		}
	}
	return []byte("0"), nil
}

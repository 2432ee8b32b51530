package config

import (
	"fmt"
	"strconv"
	"strings"
)

// Share is a part of a whole, from 0 to 1. In configuration it is a percentage, such as 5%.
type Share float64

// UnmarshalText parses "5%", "0.5 %" or "0".
func (s *Share) UnmarshalText(text []byte) error {
	number, isPercent := strings.CutSuffix(strings.TrimSpace(string(text)), "%")
	n, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
	if err != nil || !(n >= 0 && n <= 100) || !isPercent && n != 0 {
		return fmt.Errorf("must be a percentage from 0%% to 100%%, such as 5%%, not %q", text)
	}
	*s = Share(n / 100)
	return nil
}

// MarshalText formats the share as a percentage.
func (s Share) MarshalText() ([]byte, error) {
	if s == 0 {
		return []byte("0"), nil
	}
	return []byte(strconv.FormatFloat(float64(s)*100, 'g', 12, 64) + "%"), nil
}

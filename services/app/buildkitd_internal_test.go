package app

import (
	"slices"
	"testing"
)

func TestStepsDoNotReachPlainRegistries(t *testing.T) {
	t.Parallel()
	allow := []string{"10.0.0.0/8", "Images.local", "images.local:5000", "images.local:6000", "mirror.local", "127.0.0.1"}
	want := []string{"10.0.0.0/8", "images.local:6000", "mirror.local"}
	if got := withoutRegistries(allow, []string{"images.local:5000", "127.0.0.1:5000"}); !slices.Equal(got, want) {
		t.Errorf("steps may reach %q, want %q", got, want)
	}
}

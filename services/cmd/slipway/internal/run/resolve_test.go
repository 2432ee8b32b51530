package run

import (
	"strings"
	"testing"
)

func TestIsImageName(t *testing.T) {
	t.Parallel()
	hex := strings.Repeat("0123456789abcdef", 4)
	for s, want := range map[string]bool{
		"registry.example.org/team/tools:2":                         true,
		"docker://registry.example.org/team/tools:2":                true,
		"localhost:5000/tools:latest":                               true,
		"team/tools:2":                                              true,
		"registry.example.org/tools@sha256:" + hex:                  true,
		"registry.example.org/tools:2@sha256:" + hex:                true,
		"registry.example.org/wt/Ab_9-/team/tools:2":                true,
		"registry.example.org/tools:" + strings.Repeat("a", 128):    true,
		"registry.example.org/tools:" + strings.Repeat("a", 129):    false,
		"registry.example.org/tools@sha256:" + hex + "0":            false,
		"registry.example.org/tools@sha256:" + hex[1:]:              false,
		"registry.example.org/tools:2@sha256:" + hex[1:]:            false,
		"registry.example.org/tools@sha256:" + strings.ToUpper(hex): false,
		"registry.example.org/tools":                                false,
		"registry.example.org/Tools:2":                              false,
		"registry.example.org/tools:-2":                             false,
		"registry.example.org/tools:":                               false,
		"registry.example.org/tools:2 ":                             false,
		"samtools=1.20":                                             false,
		"bioconda::samtools":                                        false,
		"tools:2":                                                   false,
		"environment.yml":                                           false,
		"./environment.yml":                                         false,
		"":                                                          false,
	} {
		if got := isImageName(s); got != want {
			t.Errorf("isImageName(%q) is %v", s, got)
		}
	}
}

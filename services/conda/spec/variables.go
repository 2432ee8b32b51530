package spec

import (
	"regexp"
	"strings"
	"unicode/utf8"

	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/limits"
)

// variableName matches the name of an environment variable.
var variableName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,127}$`)

// CheckVariables returns fault.Invalid for variables that an image cannot have. PATH is
// rejected because it would replace the image's PATH.
func CheckVariables(all map[string]string) error {
	size := 0
	for name, value := range all {
		size += len(name) + len(value)
		switch {
		case !variableName.MatchString(name):
			return fault.Invalid.Newf("%s is not the name of an environment variable: those have letters, digits and _", fault.Quoted(name))
		case name == "PATH", name == "CONDA_PREFIX", name == "MAMBA_ROOT_PREFIX":
			return fault.Invalid.Newf("%s is set by the image; leave it out", name)
		case !utf8.ValidString(value) || strings.ContainsAny(value, "\x00\n\r"):
			return fault.Invalid.Newf("the value of %s must be one line of text", name)
		}
	}
	if len(all) > limits.CondaVariables || size > limits.CondaVariablesSize {
		return fault.Invalid.Newf("there may be %d variables, of %d bytes together", limits.CondaVariables, limits.CondaVariablesSize)
	}
	return nil
}

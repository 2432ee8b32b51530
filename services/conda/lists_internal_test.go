package conda

import (
	"errors"
	"testing"

	"slipway.dev/services/internal/fault"
)

// TestBlame checks that the fault for a missing channel names the package that it was added for.
func TestBlame(t *testing.T) {
	t.Parallel()
	q := query{added: []string{"bioconda::samtools", "conda-forge::procps-ng", "lab::htslib=1.20"}}
	missing := func(name string) error {
		return fault.Invalid.New("There is no channel "+name, missingChannel(name)).WithCode(fault.CondaChannel)
	}
	for name, want := range map[string]string{
		"lab":         "There is no channel lab (lab::htslib=1.20 is to come from it)",
		"conda-forge": "There is no channel conda-forge (conda-forge::procps-ng is to come from it, a base package, which every container gets: name others, or none, in packages.condaOpts.basePackages)",
		"other":       "There is no channel other",
	} {
		f, ok := fault.As(q.blame(missing(name)))
		if !ok || f.Public != want || f.Code != fault.CondaChannel || f.Kind != fault.Invalid || !errors.Is(f, errNoChannel) {
			t.Errorf("%s: %+v, want %s", name, f, want)
		}
	}
	if err := errors.New("no disk"); q.blame(err) != err { //nolint:errorlint // the very value
		t.Error("another error was changed")
	}
}

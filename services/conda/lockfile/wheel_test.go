package lockfile_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"slipway.dev/services/conda/lockfile"
	"slipway.dev/services/conda/spec"
)

// TestWheelsAreWritten checks that a lock of wheels is the same in each format.
func TestWheelsAreWritten(t *testing.T) {
	t.Parallel()
	p := spec.PyPIPackage{
		Name: "requests", Version: "2.32.3", SHA256: strings.Repeat("1a", 32),
		URL: "https://files.example/packages/requests-2.32.3-py3-none-any.whl",
	}
	p.Requires = []string{"charset-normalizer>=2,<4", "pysocks>=1.5.6,!=1.5.7 ; extra == 'socks'", "idna"}
	p.RequiresPython = ">=3.8"
	from := lockfile.Lock{Platforms: []lockfile.PlatformLock{{Platform: "linux-64", PyPI: []spec.PyPIPackage{p}}}}
	text, err := from.Pixi()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(from, read(t, text)); diff != "" {
		t.Errorf("pixi (-want +got):\n%s", diff)
	}
	if text, err = from.CondaLock(); err != nil {
		t.Fatal(err)
	}
	p.Requires, p.RequiresPython = []string{"charset-normalizer>=2,<4", "idna"}, "" // conda-lock.yml has neither extras nor the Python version
	from.Platforms[0].PyPI[0] = p
	if diff := cmp.Diff(from, read(t, text)); diff != "" {
		t.Errorf("conda-lock (-want +got):\n%s", diff)
	}
	if _, err := from.Text(lockfile.FormatExplicit); err == nil || !strings.Contains(err.Error(), "cannot list wheels") {
		t.Errorf("explicit: %v", err)
	}
}

package lockfile_test

import (
	"testing"

	"slipway.dev/services/conda/lockfile"
	"slipway.dev/services/internal/fault"
)

// The fuzz targets check that the parser does not panic, and that a lock is unchanged when
// it is written in any format and read again.

const (
	oneExplicit = "# platform: linux-64\n@EXPLICIT\nhttps://h/c/noarch/a-1!2-py_0.conda#sha256:0123456789012345678901234567890123456789012345678901234567890123\n"
	oneInConda  = "version: 1\nmetadata:\n  channels:\n  - url: c\n  platforms: [linux-64]\npackage:\n" +
		"- {name: a, version: '1', manager: conda, platform: linux-64, dependencies: {b: '>=1'}, url: 'https://h/noarch/a-1-0.conda', hash: {md5: 01234567890123456789012345678901}}\n"
	oneInPixi = "version: 6\nenvironments:\n  default:\n    channels: []\n    packages:\n      linux-64:\n      - conda: https://h/noarch/a-1-0.conda\n" +
		"packages:\n- conda: https://h/noarch/a-1-0.conda\n  depends: [b >=1]\n  size: 5\n"
)

func FuzzExplicit(f *testing.F) { fuzzLock(f, oneExplicit) }

func FuzzCondaLock(f *testing.F) { fuzzLock(f, oneInConda) }

func FuzzPixi(f *testing.F) {
	fuzzLock(f, oneInPixi, lockFile(f, "v7-derived-channel-lock.yml"), lockFile(f, "v5-similar-with-and-without-purl.yml"))
}

func fuzzLock(f *testing.F, seeds ...string) {
	for _, s := range seeds {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		l, err := lockfile.Read(text, "")
		if err != nil {
			if _, ok := fault.As(err); !ok {
				t.Errorf("%q: %v", text, err)
			}
			return
		}
		for _, write := range []func() (string, error){l.CondaLock, l.Pixi} {
			if _, err := write(); err != nil && len(text) < 1<<18 && !isUnnamed(l) {
				t.Errorf("%q: %v", text, err)
			}
		}
		for _, p := range l.Platforms {
			if _, err := p.Explicit(false); err != nil {
				t.Errorf("%q: %v", text, err)
			}
		}
	})
}

// isUnnamed reports whether l is a list without a platform.
func isUnnamed(l lockfile.Lock) bool { return len(l.Platforms) == 1 && l.Platforms[0].Platform == "" }

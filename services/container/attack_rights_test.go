package container_test

import (
	"errors"
	"strings"
	"testing"

	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/testkit"
)

// TestCacheExportNeverUsesServiceLogin requests caches at the registry that the service pushes
// to with its own login: 127.0.0.1:9090.
func TestCacheExportNeverUsesServiceLogin(t *testing.T) {
	t.Parallel()
	s := newSite(t, testkit.SQLite(t))
	for _, host := range []string{"127.0.0.1:9090", "localhost:9090", "LOCALHOST:9090", "[::1]:9090", "127.0.0.2:9090", "0.0.0.0:9090", "127.1:9090", "127.0.0.1:09090"} {
		for _, who := range []string{"", "ada"} {
			r := as(who, s.conda("bwa"))
			r.CacheRepository = host + "/prod/app"
			if _, err := s.ask(t, r); !errors.Is(err, fault.Invalid) || !strings.HasPrefix(err.Error(), "cacheRepository: ") {
				t.Errorf("%q, %s: %v", who, host, err)
			}
			r.CacheRepository = host + "/store/builds/x"
			if _, err := s.ask(t, r); !errors.Is(err, fault.Invalid) || !strings.Contains(err.Error(), "belongs to this service") {
				t.Errorf("%q, %s, our own repository: %v", who, host, err)
			}
		}
	}
	r := s.conda("bwa")
	r.CacheRepository, r.BuildRepository = "127.0.0.1:9090/prod/app", "127.0.0.1:9090/mine"
	if _, err := s.ask(t, r); !errors.Is(err, fault.Invalid) {
		t.Errorf("without a login of the caller's: %v", err)
	}
}

// TestOwnRepositoryInEverySpelling requests images of the service's own repository, with
// FROM and as an image.
func TestOwnRepositoryInEverySpelling(t *testing.T) {
	t.Parallel()
	s := newSite(t, testkit.SQLite(t))
	for _, host := range []string{"127.0.0.1:9090", "localhost:9090", "LOCALHOST:9090", "[::1]:9090", "127.0.0.2:9090", "0.0.0.0:9090", "a.localhost:9090"} {
		image := host + "/store/builds/x:1"
		if _, err := s.ask(t, as("ada", from(image))); !errors.Is(err, fault.Invalid) || !strings.Contains(err.Error(), "does not exist") {
			t.Errorf("FROM %s: %v", image, err)
		}
		r := as("ada", s.conda("bwa"))
		r.BuildRepository = host + "/store/builds/x"
		if _, err := s.ask(t, r); !errors.Is(err, fault.Invalid) || !strings.Contains(err.Error(), "belongs to this service") {
			t.Errorf("pushing to %s: %v", host, err)
		}
	}
}

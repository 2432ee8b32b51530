package buildkit

import (
	"strings"
	"testing"

	buildv1 "slipway.dev/proto/gen/slipway/build/v1"
	containerv1 "slipway.dev/proto/gen/slipway/container/v1"
	"slipway.dev/services/builder/jobs"
	"slipway.dev/services/internal/oci"
	"slipway.dev/services/internal/upstream"
)

// TestOwnImagesAreForbidden: of what the service has made, a build reads the one image
// that it goes on from, and nothing else.
func TestOwnImagesAreForbidden(t *testing.T) {
	t.Parallel()
	own, other := "sha256:"+strings.Repeat("a", 64), "sha256:"+strings.Repeat("b", 64)
	s := newSources(nil, nil, jobs.Job{
		Forbidden: []string{"store.example:5000/builds"},
		Recipe:    &buildv1.Recipe{Source: &containerv1.Source{Registry: "store.example:5000", Repository: "builds/ada", Reference: own}},
	})
	ref, err := oci.ParseReference("store.example:5000/builds/ada@" + own)
	if err != nil || !s.isSource(ref) {
		t.Errorf("it cannot go on from its own image: %v", err)
	}
	for _, name := range []string{
		"builds/ada@" + other, "builds/ada:latest", "builds/bob@" + own, "builds@" + own,
	} {
		if why := s.refusal(t.Context(), "docker-image://store.example:5000/"+name); !strings.Contains(why, "it belongs to the build service") {
			t.Errorf("%s: %q", name, why)
		}
	}
}

// TestGivenImages: of what the service has made, a build reads the digests whose names its
// request was given, with the login for them; a base image's ONBUILD has it read nothing
// beside them.
func TestGivenImages(t *testing.T) {
	t.Parallel()
	given, other := "sha256:"+strings.Repeat("a", 64), "sha256:"+strings.Repeat("b", 64)
	l := jobs.NewLogins(rightsRoom{logins: map[string]string{"read own.test:5000/builds/ada": "grant"}}, "")
	s := newSources(&tokens{}, l, jobs.Job{
		Forbidden: []string{"own.test:5000/builds"},
		Given:     []*containerv1.Source{{Registry: "own.test:5000", Repository: "builds/ada", Reference: given}},
	})
	for _, name := range []string{
		"builds/ada@" + other, "builds/ada:latest", "builds/ada", "builds/bob@" + given, "builds@" + given, "builds/ada/x@" + given, "builds/ada:v1",
	} {
		if why := s.refusal(t.Context(), "docker-image://own.test:5000/"+name); !strings.Contains(why, "it belongs to the build service") {
			t.Errorf("%s: %q", name, why)
		}
	}
	repo := upstream.Repository{Host: "own.test:5000", Name: "builds/ada"}
	if _, ok := s.of(repo); ok {
		t.Error("what was refused can be read")
	}
	if why := s.refusal(t.Context(), "docker-image://own.test:5000/builds/ada@"+given); why != "" {
		t.Errorf("what was given cannot be read: %s", why)
	}
	if login, ok := s.of(repo); !ok || login.Username != "grant" {
		t.Errorf("it is read with %q", login.Username)
	}
	if why := s.refusal(t.Context(), "docker-image://own.test:5000/builds/ada@"+other); why == "" {
		t.Error("with one image that was given another can be read")
	}
}

package container_test

import (
	"errors"
	"strings"
	"testing"

	containerv1 "slipway.dev/proto/gen/slipway/container/v1"

	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/testkit"
)

// TestRolesThatMayNotUseCredentials checks that members who may not use a workspace's
// credentials neither read nor push with them, get an explanation, and can use public
// images.
func TestRolesThatMayNotUseCredentials(t *testing.T) {
	t.Parallel()
	s := newSite(t, testkit.SQLite(t))
	host, _, _ := strings.Cut(s.secret, "/")
	into := func(r *containerv1.ContainerRequest) *containerv1.ContainerRequest {
		r.BuildRepository = host + "/team/made"
		return r
	}
	for name, r := range map[string]*containerv1.ContainerRequest{
		"an image": {ContainerImage: s.secret}, "a recipe": from(s.secret),
		"a push": into(from(s.image)), "a frozen image": into(&containerv1.ContainerRequest{ContainerImage: s.image, Freeze: true}),
		"a frozen recipe":        into(&containerv1.ContainerRequest{ContainerFile: encoded("FROM " + s.image + "\n"), Freeze: true}),
		"a copy of what is read": into(&containerv1.ContainerRequest{ContainerImage: s.secret, Freeze: true}),
	} {
		_, err := s.ask(t, as("eve", r))
		if !errors.Is(err, fault.Invalid) || !strings.Contains(err.Error(), "your role view in the workspace may not use its credentials") {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := s.ask(t, as("ada", r)); err != nil {
			t.Errorf("%s, for whom may: %v", name, err)
		}
	}
	s.must(t, as("eve", from(s.image)))
	s.must(t, as("eve", &containerv1.ContainerRequest{ContainerImage: s.image}))
}

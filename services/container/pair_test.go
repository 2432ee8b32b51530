package container_test

import (
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"slipway.dev/services/internal/testkit"
)

// TestTwoPlatforms requests both platforms: a build for each, and an index over both.
func TestTwoPlatforms(t *testing.T) {
	t.Parallel()
	s := newSite(t, testkit.SQLite(t))
	both := from(s.image)
	both.ContainerPlatform = "linux/amd64, arm64"
	resp, err := s.ask(t, both)
	if err != nil {
		t.Fatal(err)
	}
	index := s.builds.last(t)
	if len(index.GetParts()) != 2 || index.GetRecipe().GetEngine() != "index" || index.GetRecipe().GetPlatform() != "linux/amd64,linux/arm64" {
		t.Fatalf("the build request is %v", index)
	}
	if !strings.HasSuffix(resp.GetTargetImage(), ":"+index.GetContentId()) {
		t.Errorf("the name is %s", resp.GetTargetImage())
	}
	// Each part is the same build as that of a request for one platform.
	for i, platform := range []string{"amd64", "arm64"} {
		one := proto.CloneOf(both)
		one.ContainerPlatform = platform
		if _, err := s.ask(t, one); err != nil {
			t.Fatal(err)
		}
		if got := s.builds.last(t); !proto.Equal(got, index.GetParts()[i]) {
			t.Errorf("for %s alone it is\n%v, as a part\n%v", platform, got, index.GetParts()[i])
		}
	}
	same := proto.CloneOf(both)
	same.ContainerPlatform = "linux/amd64,amd64"
	if _, err := s.ask(t, same); err == nil {
		t.Error("the same platform twice is accepted")
	}
	plan, err := s.resolve(t, resp.GetContainerToken(), false)
	if err != nil || plan.GetPlatform() != "linux/amd64,linux/arm64" {
		t.Errorf("the plan is %v, %v", plan, err)
	}
}

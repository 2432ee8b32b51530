package container_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	buildv1 "slipway.dev/proto/gen/slipway/build/v1"
	containerv1 "slipway.dev/proto/gen/slipway/container/v1"

	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/testkit"
)

// TestNamesThatWereGivenOut adds to images by the names that requests were given.
func TestNamesThatWereGivenOut(t *testing.T) {
	t.Parallel()
	s := newSite(t, testkit.SQLite(t))
	layer, _ := dataLayer(t, "one")
	first := s.submit(t, &containerv1.ContainerConfig{Env: []string{"A=1", "B=1"}, Entrypoint: []string{"sh"}, Layers: []*containerv1.Layer{layer}})
	s.sleep(time.Hour)
	second := s.must(t, &containerv1.ContainerRequest{
		ContainerImage: first.GetTargetImage(), ContainerConfig: &containerv1.ContainerConfig{Env: []string{"B=2"}, Cmd: []string{"-c"}},
		WorkflowId: "run1",
	})
	if !second.GetExpiration().AsTime().Equal(first.GetExpiration().AsTime()) || strings.Contains(second.GetContainerImage(), first.GetRequestId()) {
		t.Errorf("got %v", second)
	}
	plan, err := s.resolve(t, second.GetContainerToken(), true)
	c := plan.GetConfig()
	if err != nil || !slices.Equal(c.GetEnv(), []string{"A=1", "B=2"}) || !slices.Equal(c.GetEntrypoint(), []string{"sh"}) ||
		!slices.Equal(c.GetCmd(), []string{"-c"}) || len(c.GetLayers()) != 1 || plan.GetSource().GetRepository() != "lib/tool" {
		t.Errorf("the plan is %v, %v", plan, err)
	}
	d, err := s.DescribeContainer(t.Context(), &containerv1.DescribeContainerRequest{RequestId: second.GetRequestId()})
	if err != nil || strings.Contains(d.String(), first.GetRequestId()) || d.WorkflowId != nil {
		t.Errorf("the description shows the other token, or a run: %v, %v", d, err)
	}

	built := s.must(t, as("ada", from(s.secret)))
	onTop := &containerv1.ContainerRequest{ContainerImage: built.GetTargetImage(), ContainerConfig: &containerv1.ContainerConfig{Env: []string{"C=3"}}}
	if got := s.must(t, onTop); got.GetBuildId() != built.GetBuildId() || got.Succeeded != nil {
		t.Errorf("while it is built: %v", got)
	}
	s.builds.set(built.GetBuildId(), &buildv1.AwaitBuildResponse{State: buildv1.BuildState_BUILD_STATE_SUCCEEDED})
	if got := s.must(t, onTop); !got.GetSucceeded() {
		t.Errorf("when it is built: %v", got)
	}
	s.builds.set(built.GetBuildId(), &buildv1.AwaitBuildResponse{State: buildv1.BuildState_BUILD_STATE_FAILED})

	never := strings.Replace(first.GetTargetImage(), first.GetRequestId(), strings.Repeat("a", 26), 1)
	frozen := &containerv1.ContainerRequest{ContainerImage: first.GetTargetImage(), Freeze: true, BuildRepository: "r.example/x"}
	for name, c := range map[string]struct {
		ask  *containerv1.ContainerRequest
		want error
	}{
		"a failed build":  {onTop, fault.NotFound},
		"never given out": {&containerv1.ContainerRequest{ContainerImage: never}, fault.NotFound},
		"another tag":     {&containerv1.ContainerRequest{ContainerImage: first.GetTargetImage() + "x"}, fault.NotFound},
		"another path":    {&containerv1.ContainerRequest{ContainerImage: strings.Replace(first.GetTargetImage(), "lib/tool", "lib/other", 1)}, fault.NotFound},
		"FROM":            {from(first.GetTargetImage()), fault.Invalid},
		"freeze":          {frozen, fault.Invalid},
	} {
		if got, err := s.ask(t, c.ask); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, %v, want %v", name, got, err, c.want)
		}
	}
	s.sleep(36 * time.Hour)
	if _, err := s.ask(t, &containerv1.ContainerRequest{ContainerImage: second.GetTargetImage()}); !errors.Is(err, fault.NotFound) {
		t.Errorf("expired: %v", err)
	}
}

package build_test

import (
	"strings"
	"testing"

	buildv1 "slipway.dev/proto/gen/slipway/build/v1"

	"slipway.dev/services/internal/caller"
	"slipway.dev/services/internal/testkit"
)

// TestPublicNames checks that an address which only the service uses is in no response: the
// record, its message, and the log. The reason is the message on one line.
func TestPublicNames(t *testing.T) {
	t.Parallel()
	p := newDeployment(t, testkit.SQLite(t))
	p.logins = caller.NewKeychain(nil, nil).WithBuildRepository(caller.BuildRepository{Host: p.up.Host, Public: "slipway.test", Repository: "builds"})
	r := p.replica(t, 100)
	w := newWorker(t, p, 1)
	req := p.request("broken", "", nil)
	req.Recipe.ContainerFile = "FROM " + p.up.Host + "/builds@sha256:0\n"
	r.submit(t, req)
	j := w.take(t, r, 1)
	j.print(t, 1, "pushing to "+p.up.Host+"/builds")
	long := strings.Repeat("ü", 600)
	j.report(t, &buildv1.Result{Reason: "push", Message: "Nothing was pushed:\n  " + p.up.Host + " " + long})
	j.ended(t, r)

	got := r.describe(t, j.id)
	if strings.Contains(got.String(), p.up.Host) || !strings.HasPrefix(got.GetTargetImage(), "slipway.test/builds:") || got.GetContainerFile() != "FROM slipway.test/builds@sha256:0\n" {
		t.Errorf("the build is %v", got)
	}
	wantReason := "Nothing was pushed: slipway.test " + long
	wantReason = string([]rune(wantReason)[:499]) + "…"
	if got.GetReason() != wantReason || got.GetReasonCode() != "push" || got.GetMessage() != "Nothing was pushed:\n  slipway.test "+long {
		t.Errorf("the reason is %q (%s), the message %q", got.GetReason(), got.GetReasonCode(), got.GetMessage())
	}
	if state := r.state(t, j.id); state.GetSummary() != wantReason || state.GetReason() != "push" {
		t.Errorf("the state is %v", state)
	}
	if lines := r.follow(t, j.id, 0).read(t, 1); len(lines) != 1 || lines[0] != "1 pushing to slipway.test/builds" {
		t.Errorf("the log is %q", lines)
	}
}

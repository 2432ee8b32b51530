package contracttest_test

import (
	"strings"
	"testing"

	"slipway.dev/gateway/contracttest"
)

// TestPublished checks that the comparison finds values that typed clients reject.
func TestPublished(t *testing.T) {
	t.Parallel()
	p, err := contracttest.ReadPublished()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ path, body, want string }{
		{"/user-info", `{"user": {"userName": "ada", "waveBuildNotification": null, "later": {"x": 1}}}`, ""},
		{"/user-info", `{"user": {"waveBuildNotification": "ON_ERROR"}}`, ""},
		{"/user-info", `{"user": {"waveBuildNotification": false}}`, "user.waveBuildNotification is false"},
		{"/user-info", `{"user": {"waveBuildNotification": "NEVER"}}`, "not one of ALWAYS_ON"},
		{"/user/7/workspaces", `{"orgsAndWorkspaces": [{"orgType": "community"}]}`, `orgsAndWorkspaces[].orgType is "community"`},
		{"/credentials?workspaceId=1", `{"credentials": [{"keys": {"registry": "quay.io"}}]}`, "credentials[].keys.discriminator is missing"},
		{"/credentials?workspaceId=1", `{"credentials": [{"name": "no keys"}, {"keys": {"discriminator": "container-reg"}}]}`, ""},
		{"/workflow/a/task/1", `{"task": {"nativeId": 4711}}`, "task.nativeId is 4711"},
		{"/workflow/a/task/1", `{"task": {"taskId": 1.5}}`, "task.taskId is 1.5"},
		{"/workflow/a", `{"workflow": {"start": "yesterday"}}`, "workflow.start is yesterday"},
		{"/nothing/of/the/kind", `{"task": {"nativeId": 4711}}`, ""},
	} {
		err := p.Check("GET", c.path, []byte(c.body))
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s %s: %v", c.path, c.body, err)
		}
	}
}

package gateway_test

import (
	"encoding/json"
	"net/http"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/wrapperspb"

	platformv1 "slipway.dev/proto/gen/slipway/platform/v1"
)

// TestDocumentsArePassedOn checks that documents are returned unchanged, even if their members
// look like a Document message or contain numbers that no float64 represents.
func TestDocumentsArePassedOn(t *testing.T) {
	t.Parallel()
	const mark = `{"json":"MA=="}`
	documents := []string{`{"json":"MQ==","n":9007199254740993}`, `{}`, `{"runName":"{\"json\":\"MA==\"}","a":[{"json":"MA=="}],"x":1e400}`}
	page := &platformv1.ListWorkflowsResponse{}
	for range 5 {
		for _, d := range documents {
			page.Workflows = append(page.Workflows, &platformv1.WorkflowItem{Document: &platformv1.Document{Json: []byte(d)}, OrgName: wrapperspb.String(mark)})
		}
	}
	url := servePlatform(t, "", func(_ any, s grpc.ServerStream) error { return s.SendMsg(page) })
	_, body := exchange(t, http.MethodGet, url+"/workflow", nil)
	var got struct {
		Workflows []struct {
			Workflow json.RawMessage
			OrgName  string
		}
		HasMore *bool
	}
	if err := json.Unmarshal(body, &got); err != nil || len(got.Workflows) != len(page.GetWorkflows()) || got.HasMore == nil {
		t.Fatalf("%v: %s", err, body)
	}
	for i, item := range got.Workflows {
		if want := documents[i%len(documents)]; string(item.Workflow) != want || item.OrgName != mark {
			t.Errorf("run %d is %s of %s, want %s of %s", i, item.Workflow, item.OrgName, want, mark)
		}
	}
}

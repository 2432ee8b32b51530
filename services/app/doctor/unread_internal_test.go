package doctor

import (
	"strings"
	"testing"
	"time"

	"slipway.dev/services/app"
)

func TestUnread(t *testing.T) {
	t.Parallel()
	got := unread([]app.Backlog{
		{Consumer: "webhooks", Messages: 7, Age: 2 * time.Hour},
		{Consumer: "container", Messages: 1, Age: 65 * time.Second},
		{Consumer: "metrics"},
	})
	if len(got) != 1 || got[0].State != Warn || got[0].Text != "7 events for webhooks have waited up to 2h0m0s" || !strings.Contains(got[0].Do, "the role platform") {
		t.Errorf("the findings are %+v", got)
	}
}

package doctor

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"slipway.dev/services/app"
)

func TestUnreadFindings(t *testing.T) {
	t.Parallel()
	got := unreadFindings([]app.Backlog{
		{Stream: "EVENTS", Consumer: "webhooks", Messages: 7, Age: 2 * time.Hour},
		{Stream: "EVENTS", Consumer: "container", Messages: 1, Age: 65 * time.Second},
		{Stream: "METRICS_EVENTS", Consumer: "metrics", Messages: 1, Age: time.Hour},
	})
	if len(got) != 2 || got[0].State != Warn || got[0].Text != "7 messages for webhooks have waited up to 2h0m0s" || !strings.Contains(got[0].Do, "the role platform") {
		t.Fatalf("the findings are %+v", got)
	}
	if got[1].Text != "1 message for metrics has waited up to 1h0m0s" || !strings.HasSuffix(got[1].Do, "nats consumer rm METRICS_EVENTS metrics") {
		t.Errorf("the findings are %+v", got)
	}
}

// TestAlertOfUnread compares the age of the alert with that of the finding.
func TestAlertOfUnread(t *testing.T) {
	t.Parallel()
	alerts, err := os.ReadFile("../../../deploy/monitoring/alerts.yaml")
	if err != nil {
		t.Fatal(err)
	}
	_, rule, _ := strings.Cut(string(alerts), "- alert: SlipwayEventsNotRead\n")
	expr, _, _ := strings.Cut(rule, "\n")
	if !strings.HasSuffix(expr, fmt.Sprintf(" > %.0f", maxUnread.Seconds())) {
		t.Errorf("the alert is %s, and the finding is for %v", expr, maxUnread)
	}
}

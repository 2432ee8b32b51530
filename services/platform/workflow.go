package platform

import (
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/structpb"
)

// State of a run. UNKNOWN is never stored: it is RUNNING without a sign of life.
const (
	statusSubmitted = "SUBMITTED"
	statusRunning   = "RUNNING"
	statusSucceeded = "SUCCEEDED"
	statusFailed    = "FAILED"
	statusCancelled = "CANCELLED"
	statusUnknown   = "UNKNOWN"
)

// silence is how long a run may be silent until nobody knows how it is.
const silence = 15 * time.Minute

// workflow is a row of platform_workflows.
type workflow struct {
	id                   string
	userID               int64
	space                space
	status               string
	runName, sessionID   string
	projectName          string
	userName             string
	submitted, completed time.Time // completed is zero until the run said so
	heartbeat            time.Time
	created, updated     time.Time
	document             string
	launch, metrics      string
}

// shown is the status at an instant.
func (w workflow) shown(now time.Time) string {
	if w.status == statusRunning && now.Sub(w.heartbeat) > silence {
		return statusUnknown
	}
	return w.status
}

// hasEnded says whether nothing more can come of it.
func (w workflow) hasEnded() bool {
	return w.status == statusSucceeded || w.status == statusFailed || w.status == statusCancelled
}

// describe brings the columns in line with a document.
func (w *workflow) describe(doc object) {
	for column, name := range map[*string]string{
		&w.runName: "runName", &w.sessionID: "sessionId", &w.projectName: "projectName", &w.userName: "userName",
	} {
		if v := doc.column(name); v != "" {
			*column = v
		}
	}
	w.document = doc.String()
}

// searched is what free text is looked for in.
func (w workflow) searched() string {
	return cut(strings.ToLower(strings.Join([]string{w.projectName, w.runName, w.sessionID}, "\n")), searchText)
}

// answer is the run as the contract shows it.
func (w workflow) answer(now time.Time) (*structpb.Struct, error) {
	doc, err := readObject(w.document)
	if err != nil {
		return nil, err
	}
	for _, name := range []string{"runName", "commandLine", "projectName", "sessionId", "userName", "workDir"} {
		if _, ok := doc[name].(string); !ok {
			doc[name] = ""
		}
	}
	for _, name := range []string{"start", "complete"} {
		if t := doc.time(name); !t.IsZero() {
			doc[name] = stamp(t)
		}
	}
	doc.merge(object{
		"id": w.id, "runName": w.runName, "sessionId": w.sessionID, "projectName": w.projectName,
		"status": w.shown(now), "submit": stamp(w.submitted), "ownerId": float64(w.userID),
		"dateCreated": stamp(w.created), "lastUpdated": stamp(w.updated), "deleted": false,
	}, false)
	doc.merge(object{"userName": w.userName}, true)
	if _, ok := doc["launchId"]; !ok {
		doc["launchId"] = nil
	}
	return doc.answer()
}

package runs

import (
	"strings"
	"time"

	platformv1 "slipway.dev/proto/gen/slipway/platform/v1"

	"slipway.dev/services/internal/limits"
	"slipway.dev/services/platform/orgs"
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
	space                orgs.Space
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

// statusAt is the status at an instant.
func (w workflow) statusAt(now time.Time) string {
	if w.status == statusRunning && now.Sub(w.heartbeat) > silence {
		return statusUnknown
	}
	return w.status
}

// hasEnded says whether nothing more can come of it.
func (w workflow) hasEnded() bool {
	return w.status == statusSucceeded || w.status == statusFailed || w.status == statusCancelled
}

// texts are the columns that a run says itself, by the names that it gives them.
func (w *workflow) texts() map[string]*string {
	return map[string]*string{"runName": &w.runName, "sessionId": &w.sessionID, "projectName": &w.projectName, "userName": &w.userName}
}

// describe brings a run in line with what it said of itself. The columns are taken
// out of the document: said and shown put them back.
func (w *workflow) describe(doc object) {
	for name, column := range w.texts() {
		if v := doc.column(name); v != "" {
			*column = v
		}
	}
	for _, name := range []string{"commandLine", "workDir"} {
		if _, ok := doc[name].(string); !ok {
			doc[name] = ""
		}
	}
	for _, name := range []string{"start", "complete"} {
		if t := doc.time(name); !t.IsZero() {
			doc[name] = stamp(t)
		}
	}
	if _, ok := doc["launchId"]; !ok {
		doc["launchId"] = nil
	}
	for name := range w.columns(time.Time{}) {
		delete(doc, name)
	}
	doc.fit(limits.RunDocument)
	w.document = doc.String()
}

// said is what the run said of itself, without what describe filled in.
func (w workflow) said() (object, error) {
	doc, err := readObject(w.document)
	if err != nil {
		return nil, err
	}
	for _, name := range []string{"commandLine", "workDir", "launchId"} {
		if v := doc[name]; v == nil || v == "" {
			delete(doc, name)
		}
	}
	for name, column := range w.texts() {
		if *column != "" {
			doc[name] = *column
		}
	}
	return doc, nil
}

// columns are what responses show of the columns.
func (w workflow) columns(now time.Time) object {
	o := object{
		"id": w.id, "status": w.statusAt(now), "submit": stamp(w.submitted), "ownerId": w.userID,
		"dateCreated": stamp(w.created), "lastUpdated": stamp(w.updated), "deleted": false,
	}
	for name, column := range w.texts() {
		o[name] = *column
	}
	return o
}

// shown is the run as the contract shows it.
func (w workflow) shown(now time.Time) *platformv1.Document {
	return showStored(w.document, w.columns(now))
}

// searched is what free text is looked for in.
func (w workflow) searched() string {
	return cut(strings.ToLower(strings.Join([]string{w.projectName, w.runName, w.sessionID}, "\n")), searchText)
}

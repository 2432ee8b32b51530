package runs

import (
	"strings"
	"time"

	platformv1 "slipway.dev/proto/gen/slipway/platform/v1"

	"slipway.dev/services/internal/limits"
	"slipway.dev/services/platform/orgs"
)

// Statuses of a run. UNKNOWN is never stored: it is the status of a run that is RUNNING but has
// sent no heartbeat for heartbeatTimeout.
const (
	statusSubmitted = "SUBMITTED"
	statusRunning   = "RUNNING"
	statusSucceeded = "SUCCEEDED"
	statusFailed    = "FAILED"
	statusCancelled = "CANCELLED"
	statusUnknown   = "UNKNOWN"
)

// heartbeatTimeout is the time without a heartbeat after which the status of a run is unknown.
const heartbeatTimeout = 15 * time.Minute

// A workflow is a row of platform_workflows.
type workflow struct {
	id                   string
	userID               int64
	space                orgs.Space
	status               string
	runName, sessionID   string
	projectName          string
	userName             string
	submitted, completed time.Time // completed is zero until the end is reported
	heartbeat            time.Time
	created, updated     time.Time
	document             string
	launch, metrics      string
}

// statusAt returns the run's status at a time.
func (w workflow) statusAt(now time.Time) string {
	if w.status == statusRunning && now.Sub(w.heartbeat) > heartbeatTimeout {
		return statusUnknown
	}
	return w.status
}

// hasEnded reports whether the run's status is final.
func (w workflow) hasEnded() bool {
	return w.status == statusSucceeded || w.status == statusFailed || w.status == statusCancelled
}

// reportedColumns returns the columns that hold members of a report, by the name of the member.
func (w *workflow) reportedColumns() map[string]*string {
	return map[string]*string{"runName": &w.runName, "sessionId": &w.sessionID, "projectName": &w.projectName, "userName": &w.userName}
}

// setDocument updates a run from a reported document and normalizes the document. Members that
// have a column are removed from the document; reported and toProto add them again.
func (w *workflow) setDocument(doc object) {
	for name, column := range w.reportedColumns() {
		if v := doc.column(name); v != "" {
			*column = v
		}
	}
	for member, names := range runTextMembers() {
		if member == "" {
			doc.toText(names)
		} else {
			doc.object(member).toText(names)
		}
	}
	for _, name := range []string{"commandLine", "workDir"} {
		if _, ok := doc[name].(string); !ok {
			doc[name] = ""
		}
	}
	for _, name := range []string{"start", "complete"} {
		if t := doc.time(name); !t.IsZero() {
			doc[name] = formatTime(t)
		}
	}
	if _, ok := doc["launchId"]; !ok {
		doc["launchId"] = nil
	}
	for name := range w.columns(time.Time{}) {
		delete(doc, name)
	}
	doc.truncate(limits.RunDocument)
	w.document = doc.String()
}

// reported returns the document as the run reported it, without the members that setDocument
// added.
func (w workflow) reported() (object, error) {
	doc, err := readObject(w.document)
	if err != nil {
		return nil, err
	}
	for _, name := range []string{"commandLine", "workDir", "launchId"} {
		if v := doc[name]; v == nil || v == "" {
			delete(doc, name)
		}
	}
	for name, column := range w.reportedColumns() {
		if *column != "" {
			doc[name] = *column
		}
	}
	return doc, nil
}

// columns returns the members of a response that come from columns.
func (w workflow) columns(now time.Time) object {
	o := object{
		"id": w.id, "status": w.statusAt(now), "submit": formatTime(w.submitted), "ownerId": w.userID,
		"dateCreated": formatTime(w.created), "lastUpdated": formatTime(w.updated), "deleted": false,
	}
	for name, column := range w.reportedColumns() {
		o[name] = *column
	}
	return o
}

// toProto returns the run in the form of the contract.
func (w workflow) toProto(now time.Time) *platformv1.Document {
	return joinStored(w.document, w.columns(now))
}

// searchableText returns the text that searches for words match.
func (w workflow) searchableText() string {
	return truncate(strings.ToLower(strings.Join([]string{w.projectName, w.runName, w.sessionID}, "\n")), maxSearchString)
}

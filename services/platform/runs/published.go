package runs

import (
	"encoding/json"
	"strconv"
)

// taskTextMembers returns the members of a task that are strings in the published API. Nextflow
// sends some of them as numbers or booleans (nativeId, scratch), which typed clients reject.
func taskTextMembers() []string {
	return []string{
		"hash", "nativeId", "process", "container", "tag", "name", "workdir", "script", "scratch", "queue", "env", "errorAction", "executor",
		"cloudZone", "machineType", "priceModel", "errorMessage", "logStreamId",
	}
}

// runTextMembers returns the same for a run, by the object that contains them; "" is the run
// itself.
func runTextMembers() map[string][]string {
	return map[string][]string{
		"": {
			"profile", "workDir", "commitId", "scriptId", "revision", "commandLine", "scriptName", "configText", "errorMessage", "errorReport",
			"projectDir", "homeDir", "container", "repository", "containerEngine", "scriptFile", "launchDir", "logFile", "outFile", "operationId",
		},
		"nextflow": {"version", "build", "timestamp"},
		"manifest": {
			"nextflowVersion", "defaultBranch", "version", "homePage", "gitmodules", "description", "name", "mainScript", "author", "icon",
		},
		"fusion": {"version"},
	}
}

// toText converts members that are numbers or booleans to strings, and deletes members of other
// types.
func (o object) toText(names []string) {
	for _, name := range names {
		switch v := o[name].(type) {
		case nil, string:
		case json.Number:
			o[name] = v.String()
		case bool:
			o[name] = strconv.FormatBool(v)
		default:
			delete(o, name)
		}
	}
}

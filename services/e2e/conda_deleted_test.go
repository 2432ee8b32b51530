package e2e

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"

	"slipway.dev/services/internal/testkit"
)

// TestPackageDeletedAtChannel deletes a package in the channel after it was listed. The build
// must not fail, but solve its packages again with the channel's newer list.
func TestPackageDeletedAtChannel(t *testing.T) {
	t.Parallel()
	up, channel := testkit.NewRegistry(t, testkit.Open), newArtifacts(t)
	base := up.Push(t, "base/one:1", testkit.Image(t, "amd64", true))
	known := map[string]map[string]any{"c-ares-1.21.0-h31becfc_0.conda": {"name": "c-ares", "version": "1.21.0", "build": "h31becfc_0"}}
	without := repodataOf(t, known)
	var both map[string]map[string]map[string]any
	if err := json.Unmarshal(without, &both); err != nil {
		t.Fatal(err)
	}
	const deleted = "c-ares-1.22.0-h31becfc_0.conda"
	both["packages.conda"][deleted] = map[string]any{
		"name": "c-ares", "version": "1.22.0", "build": "h31becfc_0", "build_number": 0, "depends": []string{}, "size": 1000, "sha256": strings.Repeat("ab", 32),
	}
	with, err := json.Marshal(both)
	if err != nil {
		t.Fatal(err)
	}
	send := func(list []byte) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(list) }
	}
	channel.answer("repodata.json", send(with))
	channel.answer(deleted, func(w http.ResponseWriter, r *http.Request) {
		channel.answer("repodata.json", send(without))
		http.NotFound(w, r)
	})
	p := oneProcess(t, common(t, []string{up.Host}, bare(channel.URL)))
	answer := p.order(environment(base, "c-ares"))
	if s := p.finished(t, answer); s["succeeded"] != true {
		t.Fatalf("the build ended as %v:\n%s", s, p.logOf(answer))
	}
	content := files(t, pull(t, text(answer, "targetImage"), "amd64"))
	if got := installed(t, content); !slices.Equal(got, []string{"c-ares-1.21.0-h31becfc_0"}) {
		t.Errorf("the image has %q", got)
	}
	p.judgeBuild(t, answer, content, judged{})
	if log := p.logOf(answer); strings.Count(log, "does not have "+deleted+" any more") != 1 || !strings.Contains(log, "resolved again, since a channel does not have") {
		t.Errorf("the log is %s", log)
	}
	if again := p.order(environment(base, "c-ares")); again["cached"] != true || text(again, "buildId") != text(answer, "buildId") {
		t.Errorf("the same request got %v", again)
	}
}

package main

import (
	"strings"
	"testing"
)

const twoBuilds = `{"builds":[{"buildId":"beef_1","status":"COMPLETED","duration":12345678901234567890},` +
	`{"buildId":"feed_1","status":"COMPLETED","reason":"\u001b[31msolve"}],"totalSize":2}`

// TestChoose prints selected parts of a response, like gh.
func TestChoose(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		answer, want string
		args         []string
	}{
		"fields":               {twoBuilds, `[{"buildId":"beef_1","reason":null},{"buildId":"feed_1","reason":"\u001b[31msolve"}]`, []string{"--json", "buildId,reason"}},
		"large numbers":        {twoBuilds, `[{"duration":12345678901234567890},{"duration":null}]`, []string{"--json", " duration "}},
		"no entries":           {`{"totalSize":0}`, `[]`, []string{"--json", "buildId"}},
		"no entries at all":    {` { } `, `[]`, []string{"--json", "buildId"}},
		"an omitted list":      {` { "totalSize":0}`, "0\n", []string{"--jq", ".builds | length"}},
		"a query":              {twoBuilds, "2\n", []string{"--jq", ".totalSize"}},
		"texts":                {twoBuilds, "beef_1\nfeed_1\n", []string{"--jq", ".builds[].buildId"}},
		"no control sequences": {twoBuilds, "solve\n", []string{"--jq", ".builds[1].reason"}},
		"of the fields":        {twoBuilds, `{"buildId":"feed_1"}` + "\n", []string{"--json", "buildId", "--jq", ".[1]"}},
		"nothing":              {twoBuilds, "", []string{"--jq", "empty"}},
		"other branches":       {twoBuilds, "[\"beef_1\",\"feed_1\"]\n", []string{"--jq", "[.builds[].buildId]"}},
	} {
		url, _ := answering(t, map[string]string{"GET /v1alpha1/builds": c.answer})
		got := slipway(t.Context(), map[string]string{"SLIPWAY_SERVER": url}, append([]string{"builds"}, c.args...)...)
		if same := got.out == c.want || strings.HasPrefix(c.want, "[{") && sameJSON(got.out, c.want) || c.want == "[]" && got.out == "[]\n"; got.code != 0 || !same || got.errs != "" {
			t.Errorf("%s: %+v, want %q", name, got, c.want)
		}
	}
	url, _ := answering(t, map[string]string{"GET /api/user-info": `{"user":{"id":1,"userName":"ada"},"needConsent":false}`})
	if got := slipway(t.Context(), map[string]string{"SLIPWAY_SERVER": url}, "whoami", "--json", "userName"); !sameJSON(got.out, `{"userName":"ada"}`) {
		t.Errorf("of what is in an envelope: %+v", got)
	}
	for _, c := range []struct {
		args, want string
		code       int
	}{
		{"builds --jq .[", "is not a jq expression", 2},
		{"builds --jq .x -o yaml", "another format", 2},
		{"builds -o yaml --json x", "leave out -o", 2},
		{"builds --json a,,b", "commas between them", 2},
		{"builds --json buildID", `there is no field "buildID"; the fields are buildCompression, buildId, `, 2},
		{"builds --json", "give --json one or more fields with commas between them: buildCompression, buildId, ", 2},
		{"builds --jq", "flag needs an argument: --jq", 2},
		{"builds --jq .builds.x", "--jq: ", 1},
	} {
		url, _ := answering(t, map[string]string{"GET /v1alpha1/builds": twoBuilds})
		if got := slipway(t.Context(), map[string]string{"SLIPWAY_SERVER": url}, strings.Fields(c.args)...); got.code != c.code || !strings.Contains(got.errs, c.want) || got.out != "" {
			t.Errorf("slipway %s: %+v, want %q", c.args, got, c.want)
		}
	}
}

package main

import "testing"

const (
	described = `{"requestId":"abc123","targetImage":"h:1/wt/abc123/library/ubuntu:24.04","containerImage":"docker.io/library/ubuntu:24.04",` +
		`"containerPlatform":"linux/amd64","containerConfig":{"entrypoint":["sh"],"cmd":["-c","ls"],"env":["A","B"],"workingDir":"/w","layers":[` +
		`{"location":"data:","gzipDigest":"sha256:l1","gzipSize":"1500","tarDigest":"sha256:t1"},` +
		`{"location":"https://example.org/l2.tar.gz","gzipDigest":"sha256:l2","gzipSize":"12","tarDigest":"sha256:t2"}]},` +
		`"containerFile":"FROM a\n\n\tRUN b\n","digests":["sha256:aa"],"timestamp":"2026-01-01T12:00+01:00","fingerprint":"ff","userId":17,"platformEndpoint":"https://p.example.org",` +
		`"workspaceId":12,"workflowId":"w1","freeze":false,"creationTime":"2026-01-01T11:00:00.123456Z","expiration":"2026-01-02T23:00:00Z"}`
	describedText = `Request      abc123
Name         h:1/wt/abc123/library/ubuntu:24.04
Image        docker.io/library/ubuntu:24.04
Platform     linux/amd64
Digests      sha256:aa
Entrypoint   ["sh"]
Cmd          ["-c" "ls"]
Env          A
             B
Working dir  /w
Layer 1      sha256:l1 1.5 kB
Layer 2      sha256:l2 12 B
             https://example.org/l2.tar.gz
Recipe       FROM a
             
              RUN b
Frozen       no
User         17
Workspace    12
Known to     https://p.example.org
Workflow     w1
Fingerprint  ff
Timestamp    2026-01-01T12:00+01:00
Created      2026-01-01T11:00:00Z
Expires      2026-01-02T23:00:00Z
             ` + "`slipway get h:1/wt/abc123/a:1` prints a fresh name\n"
)

func TestRequests(t *testing.T) {
	t.Parallel()
	const path = "/v1alpha2/container/abc123"
	done := exchange{call: "GET " + path + "/status", answer: `{"id":"abc123","status":"DONE","buildId":"ff_1","succeeded":false,` +
		`"reasonCode":"build","message":"RUN b\n  ended with 1","targetImage":"h/wt/abc123/b:1","detailsUri":"https://d","creationTime":"2026-01-01T00:00:00Z","duration":"60000000000"}`}
	doneText := `Request    abc123
Name       h/wt/abc123/b:1
Status     DONE
Succeeded  no
Reason     build
Message    RUN b
             ended with 1
Build      ff_1
Created    2026-01-01T00:00:00Z
Duration   1m0s
Details    https://d
`
	for _, s := range []sight{
		{name: "status by id", args: []string{"status", "abc123"}, ex: done, out: doneText},
		{name: "status by name", args: []string{"status", "localhost:9090/wt/abc123/library/ubuntu:24.04"}, ex: done, out: doneText},
		{name: "status by name and digest", args: []string{"status", "h/wt/abc123/a/b/c@sha256:aa"}, ex: done, out: doneText},
		{
			name: "in the queue", args: []string{"status", "abc123"},
			ex:  exchange{call: "GET " + path + "/status", answer: `{"id":"abc123","status":"PENDING","position":3,"expectedStart":200,"expectedEnd":290.5,"duration":"odd"}`},
			out: "Request   abc123\nStatus    PENDING\nPosition  3\nExpected  to begin in about 3 min, to end in about 5 min\nDuration  odd\n",
		}, {
			name: "a build in the queue", args: []string{"status", "beef_1"},
			ex:  exchange{call: "GET /v1alpha1/builds/beef_1/status", answer: `{"id":"beef_1","status":"PENDING","position":1,"expectedStart":0,"expectedEnd":30}`},
			out: "Build     beef_1\nStatus    PENDING\nPosition  1\nExpected  to end in about 30 s\n",
		}, {
			name: "status as JSON", args: []string{"status", "abc123", "-o", "json"},
			ex: exchange{call: "GET " + path + "/status", answer: `{"status":"DONE"}`}, out: "{\n  \"status\": \"DONE\"\n}\n",
		},
		{name: "describe", args: []string{"describe", "h:1/wt/abc123/a:1"}, ex: exchange{call: "GET " + path, answer: described}, out: describedText},
		{
			name: "describe what was revoked", args: []string{"describe", "abc123"},
			ex:  exchange{call: "GET " + path, answer: `{"freeze":true,"revocationTime":"2026-01-01T00:00:00Z"}`},
			out: "Frozen   yes\nRevoked  2026-01-01T00:00:00Z\n",
		}, {
			name: "describe as JSON", args: []string{"describe", "abc123", "-o", "json"},
			ex: exchange{call: "GET " + path, answer: `{"userId":17}`}, out: "{\n  \"userId\": 17\n}\n",
		},
		{name: "revoke", args: []string{"revoke", "h/wt/abc123/a:1"}, ex: exchange{call: "DELETE " + path, status: 204}, out: "Revoked.\n"},
	} {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			s.check(t)
		})
	}
}

func TestInfo(t *testing.T) {
	t.Parallel()
	const answer = `{"serviceInfo":{"version":"1.31.0","commitId":"039ce73"}}`
	for able, more := range map[string][2]string{
		"": {"", ""}, // an older server
		`{"productVersion":"0.2.0","abilities":[{"name":"build","available":true,"platforms":["linux/amd64","linux/arm64"]},` +
			`{"name":"sif","available":false,"problem":"this service is run without builds"},{"name":"conda","available":true},{"name":"new","available":true}]}`: {
			"Version      0.2.0\n", "Builds       linux/amd64, linux/arm64\nSingularity  no: this service is run without builds\nConda        yes\nnew          yes\n",
		},
	} {
		answers := map[string]string{"GET /below/service-info": answer}
		gap := ""
		if able != "" {
			answers["GET /below/v1alpha1/abilities"], gap = able, "   "
		}
		url, _ := answering(t, answers)
		url += "/below/"
		got := slipway(t.Context(), map[string]string{"SLIPWAY_SERVER": url}, "info")
		want := "Server    " + gap + url + "\n" + more[0] + "Contract  " + gap + "1.31.0\nCommit    " + gap + "039ce73\n" + more[1]
		if got.out != want || got.code != 0 {
			t.Errorf("got %+v, want %q", got, want)
		}
		got = slipway(t.Context(), map[string]string{"SLIPWAY_SERVER": "http://unused"}, "info", "--server", url, "-o", "json")
		if !sameJSON(got.out, answer) || got.code != 0 {
			t.Errorf("got %+v, want %s", got, answer)
		}
	}
}

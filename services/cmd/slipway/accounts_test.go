package main

import (
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
)

// asked responds to calls keyed by "METHOD URI body", and records the calls.
func asked(t *testing.T, answers map[string]string) string {
	t.Helper()
	return serve(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if r.Header.Get("Authorization") != "Bearer secret" {
			t.Errorf("%s came with %q", r.RequestURI, r.Header.Get("Authorization"))
		}
		for what, answer := range answers {
			call, want, _ := strings.Cut(what, " {")
			if want != "" {
				want = "{" + want
			}
			if call != r.Method+" "+r.RequestURI || want != "" && !sameJSON(string(body), want) {
				continue
			}
			if answer == "" {
				w.WriteHeader(http.StatusNoContent)
			}
			_, _ = io.WriteString(w, answer)
			return
		}
		t.Errorf("nobody expects %s %s %s", r.Method, r.RequestURI, body)
		w.WriteHeader(http.StatusForbidden)
		_, _ = io.WriteString(w, `{"message":"unexpected"}`)
	})
}

const (
	robotsAnswer      = `{"robots":[{"id":12,"name":"ci","userName":"robot:lab/rnaseq/ci","workspaceId":3,"role":"launch","createdBy":"ada","dateCreated":"2026-01-31T12:00:00Z","lastUsed":null}]}`
	limitsAnswer      = `{"limits":[{"of":"workspace","id":3,"name":"lab/rnaseq","kind":"builds","value":"250/1h","lastUpdated":"2026-01-31T12:00:00Z","remaining":12},{"of":"workspace","id":3,"name":"lab/rnaseq","kind":"runningBuilds","value":"4","lastUpdated":"2026-01-31T12:00:00Z","remaining":null}],"totalSize":2}`
	robotAnswer       = `{"robot":{"id":12,"name":"ci","userName":"robot:lab/rnaseq/ci","workspaceId":3,"role":"view","description":"Pulls \u001b[31mred images","createdBy":"ada","dateCreated":"2026-01-31T12:00:00Z","lastUsed":null}}`
	robotTokensAnswer = `{"tokens":[{"id":5,"name":"cluster","dateCreated":"2026-01-31T12:00:00Z","expires":"2026-05-01T12:00:00Z","scopes":["pull","request"]}]}`
	tokensAnswer      = `{"tokens":[{"id":9007199254740991,"name":"lap\u001b[31mtop","dateCreated":"2026-01-31T12:00:00Z","expires":"2027-01-31T12:00:00Z","lastUsed":null},{"id":5,"name":"ci","dateCreated":"2026-01-31T12:00:00Z","scopes":["pull","request"],"workspaceId":3,"repositories":["ghcr.io/lab/*","docker.io/library/debian"],"lastUsed":"2026-02-01T12:00:00Z","lastAddress":"192.0.2.7"}],"sessions":[{"id":6,"clientId":"nf","tokenId":5,"dateCreated":"2026-01-31T12:00:00Z"}]}`
	hooksAnswer       = `{"webhooks":[{"id":"h1","url":"https://hooks.example.org/\u001b[31ma","events":["build.*"],"disabled":false,"failingSince":"2026-01-31T12:00:00Z"},{"id":"h2","url":"https://b","events":["*"],"disabled":true}]}`
	sentAnswer        = `{"deliveries":[{"id":"d1","type":"build.failed","subject":"b_1","status":"FAILED","attempts":3,"dateCreated":"2026-01-31T12:00:00Z","problem":"The receiver rejected the message: 500 Internal Server Error"}],"totalSize":1}`
	credsAnswer       = `{"credentials":[{"id":"abc","name":"quay","provider":"container-reg","keys":{"registry":"quay.io","userName":"ada"},"lastUsed":"2026-01-31T12:00:00Z"}]}`
	runAnswer         = `{"id":"r1","runName":"happy_ørsted","projectName":"nf-core/rnaseq","status":"%","submit":"2026-01-31T12:00:00Z","duration":61000,"userName":"ada","errorMessage":null,"json":5}`
	loadAnswer        = `{"workflowProgress":{"pending":1,"submitted":2,"running":3,"succeeded":4,"failed":1,"cpuEfficiency":75.4},"processesProgress":[{"process":"A","running":3}],"totalProcesses":1}`
)

func TestAccounts(t *testing.T) {
	t.Parallel()
	keys := filepath.Join(t.TempDir(), "keys")
	if err := os.WriteFile(keys, []byte(`{"accessKey":"a"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	password := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(password, []byte("pa ss\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	running := strings.Replace(runAnswer, "%", "RUNNING", 1)
	mine := map[string]string{
		"GET /api/user-info":         `{"user":{"id":7,"userName":"ada"}}`,
		"GET /api/user/7/workspaces": `{"orgsAndWorkspaces":[{"orgId":1,"orgName":"lab","workspaceId":null},{"orgId":1,"orgName":"lab","workspaceId":3,"workspaceName":"rnaseq","visibility":"PRIVATE","roles":["owner"]}]}`,
	}
	for _, c := range []struct {
		args, out string
		answers   map[string]string
	}{
		{
			"tokens list", "ID                NAME           SCOPES        WORKSPACE  REPOSITORIES                            CREATED               LAST USED             FROM       EXPIRES\n" +
				"9007199254740991  laptop         all           all        all                                     2026-01-31T12:00:00Z  never                 -          2027-01-31T12:00:00Z\n" +
				"5                 ci             pull,request  3          ghcr.io/lab/*,docker.io/library/debian  2026-01-31T12:00:00Z  2026-02-01T12:00:00Z  192.0.2.7  never\n" +
				"6                 session of nf  all           all        all                                     2026-01-31T12:00:00Z  never                 -          never\n",
			map[string]string{"GET /api/tokens": tokensAnswer},
		},
		{"tokens create ci", "key\n", map[string]string{`POST /api/tokens {"name":"ci"}`: `{"accessKey":"key"}`}},
		{"tokens create ci --scope pull,request --scope runs --workspace lab/rnaseq", "key\n", map[string]string{
			"GET /api/user-info": mine["GET /api/user-info"], "GET /api/user/7/workspaces": mine["GET /api/user/7/workspaces"],
			`POST /api/tokens {"name":"ci","scopes":["pull","request","runs"],"workspaceId":"3"}`: `{"accessKey":"key"}`,
		}},
		{"tokens create ci --repository ghcr.io/lab/* --repository docker.io/debian,quay.io/x", "key\n", map[string]string{
			`POST /api/tokens {"name":"ci","repositories":["ghcr.io/lab/*","docker.io/debian","quay.io/x"]}`: `{"accessKey":"key"}`,
		}},
		{"tokens delete ci 9007199254740991", "Deleted token ci.\nDeleted token 9007199254740991.\n", map[string]string{
			"GET /api/tokens": tokensAnswer, "DELETE /api/tokens/5": "", "DELETE /api/tokens/9007199254740991": "",
		}},
		{"tokens delete 6", "Deleted token 6.\n", map[string]string{"GET /api/tokens": tokensAnswer, "DELETE /api/tokens/6": ""}},
		{"tokens delete --all", "Deleted all tokens.\n", map[string]string{"DELETE /api/tokens/delete-all": ""}},
		{
			"robots list lab/rnaseq", "ID  NAME  ROLE    CREATED BY  CREATED               LAST USED  DESCRIPTION\n12  ci    launch  ada         2026-01-31T12:00:00Z  never      -\n",
			with(mine, map[string]string{"GET /api/orgs/1/robots?workspaceId=3": robotsAnswer}),
		},
		{
			"limits show lab/rnaseq", "KIND           LIMIT   LEFT  SET\nbuilds         250/1h  12    2026-01-31T12:00:00Z\nrunningBuilds  4       -     2026-01-31T12:00:00Z\n",
			with(mine, map[string]string{"GET /api/orgs/1/limits?workspaceId=3": limitsAnswer}),
		},
		{"limits show -o name", "", map[string]string{"GET /api/limits": `{"limits":[]}`}},
		{
			"limits list --of workspace --search lab/", "ID  OF         NAME        KIND           LIMIT   SET\n3   workspace  lab/rnaseq  builds         250/1h  2026-01-31T12:00:00Z\n" +
				"3   workspace  lab/rnaseq  runningBuilds  4       2026-01-31T12:00:00Z\n",
			map[string]string{"GET /api/admin/limits?max=1000&of=workspace&search=lab%2F": limitsAnswer},
		},
		{"limits set workspace lab/rnaseq builds 250/1h", "Set  workspace lab/rnaseq  builds  250/1h\n", with(mine, map[string]string{
			`PUT /api/admin/limits/workspace/3/builds {"value":"250/1h"}`: `{"limit":{"of":"workspace","id":3,"name":"lab/rnaseq","kind":"builds","value":"250/1h"}}`,
		})},
		{"limits set organization 77 builds 0", "Set  organization other  builds  0\n", map[string]string{
			`PUT /api/admin/limits/organization/77/builds {"value":"0"}`: `{"limit":{"of":"organization","id":77,"name":"other","kind":"builds","value":"0"}}`,
		}},
		{"limits set organization lab requestDays 30", "Set  organization lab  requestDays  30\n", with(mine, map[string]string{
			`PUT /api/admin/limits/organization/1/requestDays {"value":"30"}`: `{"limit":{"of":"organization","id":1,"name":"lab","kind":"requestDays","value":"30"}}`,
		})},
		{"limits set user ada pulls 9/1s", "Set  user ada  pulls  9/1s\n", map[string]string{
			"GET /api/admin/users?max=1000&search=ada":            `{"users":[{"id":6,"userName":"adam"},{"id":7,"userName":"ada"}]}`,
			`PUT /api/admin/limits/user/7/pulls {"value":"9/1s"}`: `{"limit":{"of":"user","id":7,"name":"ada","kind":"pulls","value":"9/1s"}}`,
		}},
		{"limits delete organization lab builds", "Deleted limit builds of organization lab.\n", with(mine, map[string]string{"DELETE /api/admin/limits/organization/1/builds": ""})},
		{"robots list lab -o name", "", with(mine, map[string]string{"GET /api/orgs/1/robots": `{"robots":[]}`})},
		{"robots list 5/8 -o name", "12\n", with(mine, map[string]string{"GET /api/orgs/5/robots?workspaceId=8": robotsAnswer})},
		{"robots create lab/rnaseq ci --role view", "Created  robot:lab/rnaseq/ci\n", with(mine, map[string]string{
			`POST /api/orgs/1/robots?workspaceId=3 {"name":"ci","role":"view"}`: `{"robot":{"id":12,"name":"ci","userName":"robot:lab/rnaseq/ci"}}`,
		})},
		{"robots create lab ci --description Cluster", "Created  robot:lab/ci\n", with(mine, map[string]string{
			`POST /api/orgs/1/robots {"name":"ci","description":"Cluster"}`: `{"robot":{"id":12,"name":"ci","userName":"robot:lab/ci"}}`,
		})},
		{
			"robots show lab/rnaseq ci", "Id           12\nName         ci\nUser name    robot:lab/rnaseq/ci\nRole         view\nDescription  Pulls red images\nCreated      2026-01-31T12:00:00Z\nCreated by   ada\nLast used    never\n",
			with(mine, map[string]string{"GET /api/orgs/1/robots?workspaceId=3": robotsAnswer, "GET /api/orgs/1/robots/12?workspaceId=3": robotAnswer}),
		},
		{"robots update lab/rnaseq ci --role view -o name", "12\n", with(mine, map[string]string{
			"GET /api/orgs/1/robots?workspaceId=3": robotsAnswer, `PUT /api/orgs/1/robots/12?workspaceId=3 {"role":"view"}`: robotAnswer,
		})},
		{"robots update lab 12 --description= -o name", "12\n", with(mine, map[string]string{
			"GET /api/orgs/1/robots": robotsAnswer, `PUT /api/orgs/1/robots/12 {"description":""}`: robotAnswer,
		})},
		{"robots delete lab/rnaseq ci", "Deleted robot ci.\n", with(mine, map[string]string{
			"GET /api/orgs/1/robots?workspaceId=3": robotsAnswer, "DELETE /api/orgs/1/robots/12?workspaceId=3": "",
		})},
		{
			"robots tokens list lab/rnaseq ci", "ID  NAME     SCOPES        REPOSITORIES  CREATED               LAST USED  FROM  EXPIRES\n" +
				"5   cluster  pull,request  all           2026-01-31T12:00:00Z  never      -     2026-05-01T12:00:00Z\n",
			with(mine, map[string]string{"GET /api/orgs/1/robots?workspaceId=3": robotsAnswer, "GET /api/orgs/1/robots/12/tokens?workspaceId=3": robotTokensAnswer}),
		},
		{"robots tokens create lab ci cluster --scope pull,request --expires-in 0", "key\n", with(mine, map[string]string{
			"GET /api/orgs/1/robots": robotsAnswer, `POST /api/orgs/1/robots/12/tokens {"name":"cluster","expires":"never","scopes":["pull","request"]}`: `{"accessKey":"key"}`,
		})},
		{"robots tokens create lab ci cluster --scope pull --repository ghcr.io/lab/*", "key\n", with(mine, map[string]string{
			"GET /api/orgs/1/robots": robotsAnswer, `POST /api/orgs/1/robots/12/tokens {"name":"cluster","scopes":["pull"],"repositories":["ghcr.io/lab/*"]}`: `{"accessKey":"key"}`,
		})},
		{"robots tokens delete lab/rnaseq ci cluster", "Deleted token cluster.\n", with(mine, map[string]string{
			"GET /api/orgs/1/robots?workspaceId=3": robotsAnswer, "GET /api/orgs/1/robots/12/tokens?workspaceId=3": robotTokensAnswer,
			"DELETE /api/orgs/1/robots/12/tokens/5?workspaceId=3": "",
		})},
		{
			"webhooks list", "ID  URL                          EVENTS   STATUS\nh1  https://hooks.example.org/a  build.*  failing since 2026-01-31T12:00:00Z\nh2  https://b                    *        disabled\n",
			map[string]string{"GET /api/webhooks": hooksAnswer},
		},
		{"webhooks create https://hooks.example.org --event build.*,container.ready --workspace lab/rnaseq", "whsec_a\n", with(mine, map[string]string{
			`POST /api/webhooks?workspaceId=3 {"url":"https://hooks.example.org","events":["build.*","container.ready"]}`: `{"webhook":{"id":"h1"},"secret":"whsec_a"}`,
		})},
		{"webhooks update h1 --enable --url https://c --new-secret", "whsec_b\n", map[string]string{`PUT /api/webhooks/h1 {"url":"https://c","disabled":false,"newSecret":true}`: `{"webhook":{"id":"h1"},"secret":"whsec_b"}`}},
		{"webhooks delete h1 h2", "Deleted webhook h1.\nDeleted webhook h2.\n", map[string]string{"DELETE /api/webhooks/h1": "", "DELETE /api/webhooks/h2": ""}},
		{"webhooks deliveries h1 --status failed -o name", "d1\n", map[string]string{"GET /api/webhooks/h1/deliveries?max=20&status=FAILED": sentAnswer}},
		{"webhooks message h1 d1", "{}\n", map[string]string{"GET /api/webhooks/h1/deliveries/d1": `{"delivery":{"id":"d1"},"body":"{}"}`}},
		{"webhooks repeat h1 d1", "Queued d1 again.\n", map[string]string{"POST /api/webhooks/h1/deliveries/d1/repeat": `{"delivery":{"id":"d1"}}`}},
		{"__complete webhooks repeat h1 ", "d1\tbuild.failed FAILED\n:36\n", map[string]string{"GET /api/webhooks/h1/deliveries": sentAnswer}},
		{"__complete robots delete ", "lab\t1\nlab/rnaseq\t3\n:36\n", mine},
		{"__complete robots delete lab ", "ci\tlaunch\n:36\n", with(mine, map[string]string{"GET /api/orgs/1/robots": robotsAnswer})},
		{"__complete robots tokens delete lab ci ", "cluster\tpull,request\n:36\n", with(mine, map[string]string{
			"GET /api/orgs/1/robots": robotsAnswer, "GET /api/orgs/1/robots/12/tokens": robotTokensAnswer,
		})},
		{"workspaces", "ID  WORKSPACE   VISIBILITY  ROLE\n3   lab/rnaseq  PRIVATE     owner\n", mine},
		{"credentials list", "ID   NAME  PROVIDER       REGISTRY  USER  LAST USED\nabc  quay  container-reg  quay.io   ada   2026-01-31T12:00:00Z\n", map[string]string{"GET /api/credentials": credsAnswer}},
		{"credentials add q --registry quay.io -u ada --workspace 3 --password-file " + password, "abc\n", map[string]string{
			`POST /v1alpha2/validate-creds {"userName":"ada","password":"pa ss","registry":"quay.io"}`:                                                                      "true",
			`POST /api/credentials?workspaceId=3 {"credentials":{"name":"q","provider":"container-reg","keys":{"registry":"quay.io","userName":"ada","password":"pa ss"}}}`: `{"credentialsId":"abc"}`,
		}},
		{"credentials add cloud --provider aws --keys-file " + keys + " --description d -o json", "{\n  \"credentialsId\": \"abc\"\n}\n", map[string]string{
			`POST /api/credentials {"credentials":{"name":"cloud","provider":"aws","description":"d","keys":{"accessKey":"a"}}}`: `{"credentialsId":"abc"}`,
		}},
		{"credentials update quay --name new --password-file " + password, "Changed credentials quay.\n", map[string]string{
			`POST /v1alpha2/validate-creds {"userName":"ada","password":"pa ss","registry":"quay.io"}`: "true",
			"GET /api/credentials": credsAnswer, `PUT /api/credentials/abc {"credentials":{"name":"new","keys":{"password":"pa ss"}}}`: "",
		}},
		{"credentials add q -u ada --no-verify --password-file " + password, "abc\n", map[string]string{
			`POST /api/credentials {"credentials":{"name":"q","provider":"container-reg","keys":{"userName":"ada","password":"pa ss"}}}`: `{"credentialsId":"abc"}`,
		}},
		{"credentials update quay --name new", "Changed credentials quay.\n", map[string]string{
			"GET /api/credentials": credsAnswer, `PUT /api/credentials/abc {"credentials":{"name":"new","keys":{}}}`: "",
		}},
		{"credentials update lab --password-file " + password, "Changed credentials lab.\n", map[string]string{ // a registry is not asked
			"GET /api/credentials": strings.NewReplacer("quay.io", "conda.example.org/lab", "quay", "lab", "container-reg", "conda").Replace(credsAnswer), `PUT /api/credentials/abc {"credentials":{"keys":{"password":"pa ss"}}}`: "",
		}},
		{"credentials delete abc --checked", "Deleted credentials abc.\n", map[string]string{"GET /api/credentials": credsAnswer, "DELETE /api/credentials/abc?checked=true": ""}},
		{
			"runs list --search status:RUNNING --max 2 --offset 1 --progress",
			"ID  RUN           PROJECT         STATUS   SUBMITTED             DURATION  USER  TASKS\nr1  happy_ørsted  nf-core/rnaseq  RUNNING  2026-01-31T12:00:00Z  1m1s      ada   5/11, 1 failed\n",
			map[string]string{"GET /api/workflow?attributes=progress&max=2&offset=1&search=status%3ARUNNING": `{"workflows":[{"workflow":` + running + `,"progress":` + loadAnswer + `}],"totalSize":1}`},
		},
		{"runs cancel r1", "Cancelled run r1.\n", map[string]string{"POST /api/workflow/r1/cancel": ""}},
		{"runs delete r1 r2", "Deleted run r1.\nDeleted run r2.\n", map[string]string{"DELETE /api/workflow/r1": "", "DELETE /api/workflow/r2": ""}},
		{
			"runs tasks r1 --sort complete --reverse --search FAILED",
			"TASK  HASH  PROCESS  NAME  STATUS  EXIT  SUBMITTED  ENDED\n7     ab/c           A (1  FAILED  137              \n",
			map[string]string{"GET /api/workflow/r1/tasks?search=FAILED&sortBy=complete&sortDir=desc": `{"tasks":[{"task":{"taskId":7,"hash":"ab/c","process":null,"name":"A (1","status":"FAILED","exit":137}}],"total":1}`},
		},
		{
			"runs tasks r1 --status failed,ABORTED --process ALIGN:BWA --sort outcome",
			"TASK  HASH  PROCESS  NAME  STATUS  EXIT  SUBMITTED  ENDED\n",
			map[string]string{"GET /api/workflow/r1/tasks?process=ALIGN%3ABWA&sortBy=outcome&status=FAILED%2CABORTED": `{"tasks":[],"total":0}`},
		},
		{"__complete tokens delete ", "9007199254740991\tlaptop\n5\tci\n6\tsession of nf\n:36\n", map[string]string{"GET /api/tokens": tokensAnswer}},
		{"__complete credentials show --workspace 3 ", "abc\tquay\n:36\n", map[string]string{"GET /api/credentials?workspaceId=3": credsAnswer}},
		{"__complete runs show ", "r1\thappy_ørsted, RUNNING\n:36\n", map[string]string{"GET /api/workflow": `{"workflows":[{"workflow":` + running + `,"progress":null}]}`}},
		{"__complete image x --workspace ", "lab/rnaseq\t3\n:36\n", mine},
	} {
		t.Run(c.args, func(t *testing.T) {
			t.Parallel()
			env := map[string]string{"SLIPWAY_SERVER": asked(t, c.answers), "SLIPWAY_TOKEN": "secret"}
			args := strings.Fields(c.args)
			if strings.HasSuffix(c.args, " ") {
				args = append(args, "")
			}
			if got := slipway(t.Context(), env, args...); got.code != 0 || got.out != c.out {
				t.Errorf("exit code %d, printed\n%s%s\nwant\n%s", got.code, got.out, got.errs, c.out)
			}
		})
	}
}

// TestLoginsAreTried checks that a login which does not work is not stored.
func TestLoginsAreTried(t *testing.T) {
	t.Parallel()
	password := write(t, "password", "pa ss\n")
	const try = `POST /v1alpha2/validate-creds {"userName":"ada","password":"pa ss","registry":"docker.io"}`
	for answer, want := range map[string]string{
		"false": "trying the login at docker.io: the registry refuses the user name or the password; nothing was stored: correct the login, or store it anyway with --no-verify",
		"true":  "docker.io accepts the login. From now on images below docker.io are read and pushed with it, on your behalf only",
	} {
		answers := map[string]string{try: answer}
		if answer == "true" {
			answers[`POST /api/credentials {"credentials":{"name":"hub","provider":"container-reg","keys":{"userName":"ada","password":"pa ss"}}}`] = `{"credentialsId":"abc"}`
		}
		env := map[string]string{"SLIPWAY_SERVER": asked(t, answers), "SLIPWAY_TOKEN": "secret"}
		got := slipway(t.Context(), env, "credentials", "add", "hub", "-u", "ada", "--password-file", password)
		if !strings.Contains(got.errs, want) || (got.code == 0) != (answer == "true") {
			t.Errorf("%s: %+v, want %q", answer, got, want)
		}
	}
}

// TestWorkspaceByName checks that names are accepted wherever ids are, also in the
// environment variable.
func TestWorkspaceByName(t *testing.T) {
	t.Parallel()
	answers := map[string]string{
		"GET /api/user-info":                 `{"user":{"id":7,"userName":"ada"}}`,
		"GET /api/user/7/workspaces":         `{"orgsAndWorkspaces":[{"orgName":"lab","workspaceId":3,"workspaceName":"rnaseq"}]}`,
		"GET /api/credentials?workspaceId=3": credsAnswer,
		`POST /v1alpha1/inspect {"containerImage":"a","platformWorkspaceId":"3"}`:   `{"container":{"digest":"d"}}`,
		`POST /v1alpha2/container {"containerImage":"a","platformWorkspaceId":"3"}`: `{"targetImage":"x"}`,
	}
	env := map[string]string{"SLIPWAY_SERVER": asked(t, answers), "SLIPWAY_TOKEN": "secret", "SLIPWAY_WORKSPACE": "Lab/rnaseq"}
	for _, args := range []string{"credentials show quay", "inspect a", "image a", "image a --workspace 3"} {
		answers["GET /api/credentials/abc?workspaceId=3"] = `{"credentials":{"id":"abc"}}`
		if got := slipway(t.Context(), env, strings.Fields(args)...); got.code != 0 {
			t.Errorf("%s: %+v", args, got)
		}
	}
	if got := slipway(t.Context(), env, "credentials", "list", "--workspace", "lab/none"); got.code != 1 || !strings.Contains(got.errs, "slipway workspaces") {
		t.Errorf("got %+v", got)
	}
}

func TestWatch(t *testing.T) {
	t.Parallel()
	for end, want := range map[string]int{"SUCCEEDED": 0, "FAILED": 1, "CANCELLED": 1, "UNKNOWN": 1} {
		t.Run(end, func(t *testing.T) {
			t.Parallel()
			var calls atomic.Int64
			url := serve(t, func(w http.ResponseWriter, _ *http.Request) {
				status := "RUNNING"
				if calls.Add(1) > 2 {
					status = end
				}
				_, _ = io.WriteString(w, `{"workflow":`+strings.Replace(runAnswer, "%", status, 1)+`,"progress":`+loadAnswer+`}`)
			})
			got := slipway(t.Context(), nil, "runs", "show", "r1", "--watch", "--interval", "1s", "--server", url)
			if got.code != want || strings.Count(got.out, "Status     RUNNING") != 1 || !strings.Contains(got.out, end) || strings.Count(got.out, "happy_ørsted") != 2 {
				t.Errorf("got %d\n%s%s", got.code, got.out, got.errs)
			}
		})
	}
}

func TestAccountsUsage(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]string{
		"tokens":                                     "",
		"tokens delete":                              "name the tokens to delete",
		"tokens delete a --all":                      "name the tokens to delete",
		"tokens create":                              "0 arguments instead of 1",
		"tokens create a --expires-in 1ms":           "from one second to 100 years",
		"tokens rotate":                              `there is no command "rotate"`,
		"robots create lab":                          "1 argument instead of 2",
		"robots delete lab":                          "an argument is missing",
		"robots show lab":                            "1 argument instead of 2",
		"robots update lab ci":                       "no change was requested",
		"robots tokens delete lab ci":                "an argument is missing",
		"robots tokens create lab ci x":              "--scope is missing",
		"credentials add x":                          "--username is needed",
		"credentials add x --provider aws":           "--keys-file is needed",
		"credentials add x -u ada":                   "--password-stdin",
		"credentials add x -u ada --keys-file k":     "--keys-file holds all keys",
		"credentials add x -u ada --password secret": "unknown flag: --password",
		"credentials update x":                       "no change was requested",
		"credentials delete":                         "an argument is missing",
		"credentials list --workspace x":             "ORGANISATION/NAME",
		"runs show ../x":                             "not a run id",
		"runs cancel 12345678901234567":              "not a run id",
		"runs delete":                                "an argument is missing",
		"runs tasks r1 --sort x":                     "--sort must be one of",
		"runs tasks r1 --status LOST":                "is not one of NEW, SUBMITTED,",
		"runs list --watch --interval 1ms":           "--interval",
	} {
		got := slipway(t.Context(), nil, strings.Fields(args)...)
		if want == "" && (got.code != 0 || !strings.Contains(got.out, "Available Commands:")) ||
			want != "" && (got.code != 2 || got.out != "" || !strings.Contains(got.errs, want)) {
			t.Errorf("%s: got %+v, want %q", args, got, want)
		}
	}
}

// with returns the answers of both.
func with(a, b map[string]string) map[string]string {
	out := maps.Clone(a)
	maps.Copy(out, b)
	return out
}

package e2e

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"slipway.dev/services/internal/testkit"
)

// A person is a user with a home directory and a shell.
type person struct {
	t    testing.TB
	home string
}

func newPerson(t testing.TB) *person { return &person{t, t.TempDir()} }

// command returns a command line whose environment has only the home directory.
func (u *person) command(args ...string) *exec.Cmd {
	cmd := exec.Command(filepath.Join(binaries, "slipway"), args...)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + u.home, "TERM=dumb"}
	return cmd
}

// try runs a command and returns its output.
func (u *person) try(stdin string, args ...string) (stdout, stderr string, err error) {
	cmd := u.command(args...)
	var out, errs bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(stdin), &out, &errs
	err = cmd.Run()
	return strings.TrimSpace(out.String()), errs.String(), err
}

// do runs a command that must succeed; args are split at spaces.
func (u *person) do(args string) string {
	u.t.Helper()
	return u.give("", args)
}

// give runs a command like do, with standard input.
func (u *person) give(stdin, args string) string {
	u.t.Helper()
	list := strings.Fields(args)
	if strings.HasSuffix(args, " ") { // the shell completion of an argument that is still empty
		list = append(list, "")
	}
	out, errs, err := u.try(stdin, list...)
	if err != nil {
		u.t.Fatalf("slipway %s: %v\n%s", args, err, errs)
	}
	return out
}

// refused runs a command that must fail with want in its output.
func (u *person) refused(args, want string) {
	u.t.Helper()
	if out, errs, err := u.try("", strings.Fields(args)...); err == nil || !strings.Contains(errs, want) {
		u.t.Errorf("slipway %s: printed %s%s, want the error %q", args, out, errs, want)
	}
}

// shows fails the test unless the output of a command contains all of want.
func (u *person) shows(args string, want ...string) {
	u.t.Helper()
	out := u.do(args)
	for _, w := range want {
		if !strings.Contains(out, w) {
			u.t.Errorf("slipway %s printed\n%s\nwant %s in it", args, out, w)
		}
	}
}

// TestCommandLineAccounts signs in, and uses all account commands.
func TestCommandLineAccounts(t *testing.T) {
	t.Parallel()
	up := testkit.NewRegistry(t, testkit.Bearer)
	image := up.Push(t, "team/private:1", testkit.Index(t, true, "amd64"))
	more := settings{"master_key_file": newMasterKey(t)}
	eachShape(t, []string{up.Host}, more, func(t *testing.T, p *program) {
		u := newPerson(t)
		u.refused("whoami --server "+p.url, "sign in with `slipway login`")
		u.signInAtTerminal(p)
		u.shows("whoami", p.url, "admin@localhost")
		u.shows("whoami -o json", `"userName"`)
		p.makeWorkspace("lab", "rnaseq")
		u.shows("workspaces", "lab/rnaseq", "PRIVATE", "owner")
		u.manageTokens(p)
		u.manageCredentials(p, up, image)
		u.manageRuns(p)
		u.do("logout")
		if out := u.signInOnTheWeb(p, p.fillIn); !strings.Contains(out, "as admin") {
			t.Errorf("the web signs in as %s", out)
		}
		u.shows("whoami", "admin@localhost")
		raw, err := os.ReadFile(filepath.Join(u.home, ".config", "slipway", "logins.json"))
		if info, statErr := os.Stat(filepath.Join(u.home, ".config", "slipway", "logins.json")); err != nil || statErr != nil || info.Mode().Perm() != 0o600 || bytes.Contains(raw, []byte(p.token)) {
			t.Errorf("the stored logins are %s, %v", raw, err)
		}
		u.do("logout")
		u.refused("whoami --server "+p.url, "sign in with `slipway login`")
	})
}

// signInAtTerminal signs in with a token at the terminal, which must not display it.
func (u *person) signInAtTerminal(p *program) {
	u.t.Helper()
	term := inTerminal(u.t, u.command("login"))
	term.answer("Server [http://localhost:9090]: ", "\x03")
	if screen, err := term.end(); err == nil || !strings.Contains(screen, "nothing was entered") {
		u.t.Fatalf("after Ctrl-C the terminal shows %q, %v", screen, err)
	}
	term = inTerminal(u.t, u.command("login"))
	term.answer("Server [http://localhost:9090]: ", p.url+"/")
	term.answer("(it is not shown): ", p.token)
	screen, err := term.end()
	if err != nil || !strings.Contains(screen, "Signed in to "+p.url+" as admin.") || strings.Contains(screen, p.token) {
		u.t.Fatalf("the terminal shows %q, %v", screen, err)
	}
}

// signInOnTheWeb signs in with the printed page. The browser must end on the program's own
// page.
func (u *person) signInOnTheWeb(p *program, browse func(page string) (*http.Response, error)) string {
	u.t.Helper()
	return u.signInWith(p, "--web", "signed in", func(lines *bufio.Scanner) (*http.Response, error) {
		page := ""
		for page == "" && lines.Scan() {
			page = regexp.MustCompile(`https?://\S+`).FindString(lines.Text())
		}
		if page == "" {
			return nil, errors.New("no page is named")
		}
		return browse(page)
	})
}

// signInWith runs `slipway login` and completes it with a browser, whose last page must contain
// shows. It returns the remaining output of the command.
func (u *person) signInWith(p *program, flag, shows string, browse func(says *bufio.Scanner) (*http.Response, error)) string {
	u.t.Helper()
	cmd := u.command("login", flag, "--server", p.url)
	var out bytes.Buffer
	cmd.Stdout = &out
	errs, err := cmd.StderrPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		u.t.Fatal(err)
	}
	resp, err := browse(bufio.NewScanner(errs))
	if err != nil {
		u.t.Fatal(err)
	}
	defer resp.Body.Close()
	if body, _ := io.ReadAll(resp.Body); !strings.Contains(string(body), shows) {
		u.t.Errorf("the browser shows %d %s", resp.StatusCode, body)
	}
	rest, _ := io.ReadAll(errs)
	if err := cmd.Wait(); err != nil {
		u.t.Fatalf("signing in: %v %s", err, rest)
	}
	return out.String()
}

// fillIn submits a token on the page, and follows the redirect to the program.
func (p *program) fillIn(page string) (*http.Response, error) {
	to, err := url.Parse(page)
	if err != nil {
		return nil, err
	}
	form := to.Query()
	form.Set("access_token", p.token)
	return http.PostForm(page, form)
}

// makeWorkspace creates an organisation with a workspace, and returns the workspace's id.
func (p *program) makeWorkspace(org, name string) string {
	p.t.Helper()
	user := []string{"Authorization", "Bearer " + p.token}
	made := p.call(http.MethodPost, "/api/orgs", map[string]any{"organization": map[string]any{"name": org}}, user...)
	var o struct{ Organization struct{ OrgID json.Number } }
	if err := json.Unmarshal(made.body, &o); err != nil || made.status != http.StatusOK {
		p.t.Fatalf("creating an organisation: %d %s", made.status, made.body)
	}
	made = p.call(http.MethodPost, "/api/orgs/"+o.Organization.OrgID.String()+"/workspaces", map[string]any{"workspace": map[string]any{"name": name}}, user...)
	var w struct{ Workspace struct{ ID json.Number } }
	if err := json.Unmarshal(made.body, &w); err != nil || made.status != http.StatusOK {
		p.t.Fatalf("creating a workspace: %d %s", made.status, made.body)
	}
	return w.Workspace.ID.String()
}

func (u *person) manageTokens(p *program) {
	u.t.Helper()
	token := u.do("tokens create ci --expires-in 1h")
	other := newPerson(u.t)
	other.give(token, "login --token-stdin --server "+p.url)
	other.shows("whoami", "admin@localhost")
	u.shows("tokens list", "ci", "never")
	u.shows("__complete tokens delete ", "\tci")
	u.refused("tokens create ci", "already")
	u.do("tokens delete ci")
	other.refused("whoami", "token")
	other.refused("login --server "+p.url, "--token-stdin")
	if out := u.do("tokens list"); strings.Contains(out, "ci ") {
		u.t.Errorf("the token is not deleted:\n%s", out)
	}
}

// manageCredentials stores a login in a workspace, and pulls with it.
func (u *person) manageCredentials(p *program, up *testkit.Registry, image string) {
	t := u.t
	t.Helper()
	add := "credentials add up --registry " + up.Host + " -u " + testkit.User + " --password-stdin --workspace lab/rnaseq"
	if _, errs, err := u.try("wrong", strings.Fields(add)...); err == nil || !strings.Contains(errs, "refuses the user name or the password") {
		t.Errorf("a wrong password was stored: %v %s", err, errs)
	}
	id := u.give("wrong", add+" --no-verify")
	u.refused("credentials add up --workspace lab/rnaseq -u x --no-verify --password-file "+writeFile(t, "p", "x"), "already")
	term := inTerminal(t, u.command("credentials", "update", "up", "--password", "--workspace", "lab/rnaseq"))
	term.answer("Password (it is not shown): ", testkit.Password)
	if screen, err := term.end(); err != nil || strings.Contains(screen, testkit.Password) {
		t.Fatalf("the terminal shows %q, %v", screen, err)
	}
	u.shows("credentials list --workspace lab/rnaseq", id, "container-reg", up.Host, testkit.User)
	u.shows("credentials show up --workspace lab/rnaseq -o json", `"userName"`, up.Host)
	u.shows("__complete credentials show --workspace lab/rnaseq ", id+"\tup")
	if out := u.do("credentials list -o json") + u.do("credentials show up --workspace lab/rnaseq -o json"); strings.Contains(out, testkit.Password) {
		t.Errorf("the secret is printed: %s", out)
	}
	target := u.do("image " + image + " --workspace lab/rnaseq --env A=b")
	pull(t, target, "amd64")
	u.shows("inspect "+image+" --platform linux/amd64 --workspace lab/rnaseq", "/bin/entry")
	u.refused("image "+image, "slipway: requesting")
	u.refused("credentials delete up --checked --workspace lab/rnaseq", "deleting credentials up")
	u.do("credentials delete " + id + " --workspace lab/rnaseq")
	u.refused("credentials show up --workspace lab/rnaseq", "there is no record")
}

func (u *person) manageRuns(p *program) {
	t := u.t
	t.Helper()
	user := []string{"Authorization", "Bearer " + p.token}
	report := func(method, path, body string) reply {
		t.Helper()
		r := p.call(method, "/api/trace/"+path, body, user...)
		for r.status == http.StatusTooManyRequests { // the rate limit may be used up by the previous commands
			time.Sleep(time.Second)
			r = p.call(method, "/api/trace/"+path, body, user...)
		}
		if r.status != http.StatusOK {
			t.Fatalf("%s %s: %d %s", method, path, r.status, r.body)
		}
		return r
	}
	id := text(report(http.MethodPost, "create", `{"sessionId":"s","runName":"happy_ørsted","projectName":"nf-core/rnaseq"}`).json(t), "workflowId")
	report(http.MethodPut, id+"/begin", `{"workflow":{"start":"2026-01-31T12:00:00Z","commandLine":"nextflow run x"},"processNames":["ALIGN"]}`)
	report(http.MethodPut, id+"/progress", `{"tasks":[{"taskId":1,"process":"ALIGN","name":"ALIGN (1)","status":"FAILED","exit":137},{"taskId":2,"process":"ALIGN","name":"ALIGN (2)","status":"RUNNING"}]}`)
	u.shows("runs list --search rnaseq --progress", id, "happy_ørsted", "RUNNING", "1/2, 1 failed")
	if out := u.do("runs list --search status:SUCCEEDED"); strings.Contains(out, id) {
		t.Errorf("found\n%s", out)
	}
	u.shows("runs show "+id, "nextflow run x", "ALIGN", "1/2, 1 failed")
	u.shows("runs tasks "+id+" --sort name --reverse", "ALIGN (2)", "137")
	u.shows("__complete runs cancel ", id+"\thappy_ørsted, RUNNING")
	u.refused("runs delete "+id, "cancel it first")
	u.refused("runs show none", "")

	watch := u.command("runs", "show", id, "--watch", "--interval", "1s")
	out, err := watch.StdoutPipe()
	if err == nil {
		err = watch.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	var states []string
	for lines.Scan() {
		if f := strings.Fields(lines.Text()); len(f) == 2 && f[0] == "Status" {
			if states = append(states, f[1]); len(states) == 1 {
				report(http.MethodPut, id+"/complete", `{"workflow":{"success":true}}`)
			}
		}
	}
	// The state may be printed again while the report above waits for the rate limit.
	if err := watch.Wait(); err != nil || !slices.Equal(slices.Compact(states), []string{"RUNNING", "SUCCEEDED"}) {
		t.Errorf("watched %q, %v", states, err)
	}
	second := text(report(http.MethodPost, "create", `{"sessionId":"s","runName":"sad"}`).json(t), "workflowId")
	u.do("runs cancel " + second)
	u.shows("runs list --search status:CANCELLED", second)
	u.do(fmt.Sprintf("runs delete %s %s", id, second))
	if out := u.do("runs list"); strings.Contains(out, id) || strings.Contains(out, second) {
		t.Errorf("not deleted:\n%s", out)
	}
}

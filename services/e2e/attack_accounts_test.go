package e2e

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"slipway.dev/services/internal/testkit"
)

// A team is an organisation with a workspace that has a registry login, and a user for each
// role.
type team struct {
	*program
	workspace     int64
	org           string
	tokens        map[string]string
	participantID map[string]string
}

func (p *program) platformCall(method, path, token string, body any) map[string]any {
	p.t.Helper()
	r := request(p.t, method, p.platform+path, body, "Authorization", "Bearer "+token)
	if r.status != http.StatusOK && r.status != http.StatusNoContent {
		p.t.Fatalf("%s %s: %d %s", method, path, r.status, r.body)
	}
	if len(r.body) == 0 {
		return nil
	}
	return r.json(p.t)
}

func newTeam(p *program, registry string) *team {
	p.t.Helper()
	w := &team{program: p, tokens: map[string]string{"owner of all": p.token}, participantID: map[string]string{}}
	org := p.platformCall(http.MethodPost, "/orgs", p.token, map[string]any{"organization": map[string]any{"name": "lab"}})["organization"].(map[string]any)
	w.org = fmt.Sprintf("/orgs/%.0f/workspaces", org["orgId"])
	made := p.platformCall(http.MethodPost, w.org, p.token, map[string]any{"workspace": map[string]any{"name": "bench"}})["workspace"].(map[string]any)
	w.workspace = int64(made["id"].(float64))
	for _, role := range []string{"owner", "admin", "maintain", "launch", "connect", "view"} {
		w.tokens[role] = p.newUser("one-" + role) // with a prefix, since the first user has the name of a role
		joined := p.platformCall(http.MethodPut, fmt.Sprintf("%s/%d/participants/add", w.org, w.workspace), p.token, map[string]any{"userNameOrEmail": "one-" + role})
		w.participantID[role] = fmt.Sprintf("%.0f", joined["participant"].(map[string]any)["participantId"])
		w.become(role, role)
	}
	p.platformCall(http.MethodPost, fmt.Sprintf("/credentials?workspaceId=%d", w.workspace), p.token, map[string]any{"credentials": map[string]any{
		"name": "team", "keys": map[string]any{"userName": testkit.User, "password": testkit.Password, "registry": registry},
	}})
	return w
}

// become changes the role of a user.
func (w *team) become(who, role string) {
	w.t.Helper()
	w.platformCall(http.MethodPut, fmt.Sprintf("%s/%d/participants/%s/role", w.org, w.workspace, w.participantID[who]), w.token, map[string]any{"role": role})
}

// in returns a request body with a user's token and the workspace.
func (w *team) in(who string, body map[string]any) map[string]any {
	body["platformAccessToken"], body["platformWorkspaceId"] = w.tokens[who], w.workspace
	return body
}

// TestRolesThatMayNotUseCredentials tests every role with every use of a workspace's
// credentials, and pulls by an issued name after its owner's role was reduced.
func TestRolesThatMayNotUseCredentials(t *testing.T) {
	t.Parallel()
	up, open := testkit.NewRegistry(t, testkit.Bearer), testkit.NewRegistry(t, testkit.Open)
	image := up.Push(t, "team/private:1", testkit.Image(t, "amd64", true))
	public := open.Push(t, "lib/public:1", testkit.Image(t, "amd64", true))
	eachShape(t, []string{up.Host, open.Host}, settings{"limit_platform": "0", "master_key_file": newMasterKey(t)}, func(t *testing.T, p *program) {
		w := newTeam(p, up.Host)
		const reason = "may not use its credentials"
		for role := range w.participantID {
			may := role != "connect" && role != "view"
			for name, r := range map[string]reply{
				"a name":  p.call(http.MethodPost, "/v1alpha2/container", w.in(role, map[string]any{"containerImage": image})),
				"inspect": p.call(http.MethodPost, "/v1alpha1/inspect", w.in(role, map[string]any{"containerImage": image})),
			} {
				if may != (r.status == http.StatusOK) || may == strings.Contains(string(r.body), reason) {
					t.Errorf("%s as %s: %d %s", name, role, r.status, r.body)
				}
				if may && name == "a name" {
					pull(t, text(r.json(t), "targetImage"), "amd64")
				}
			}
			frozen := p.call(http.MethodPost, "/v1alpha2/container", w.in(role, frozen(public, up.Host+"/team/frozen", nil)))
			if !may && frozen.status != http.StatusNotImplemented && (frozen.status != http.StatusBadRequest || !strings.Contains(string(frozen.body), reason)) {
				t.Errorf("freezing as %s: %d %s", role, frozen.status, frozen.body)
			}
			if r := p.call(http.MethodPost, "/v1alpha2/container", w.in(role, map[string]any{"containerImage": public})); r.status != http.StatusOK {
				t.Errorf("a public image as %s: %d %s", role, r.status, r.body)
			}
		}

		target := text(p.call(http.MethodPost, "/v1alpha2/container", w.in("launch", map[string]any{"containerImage": image})).json(t), "targetImage")
		pull(t, target, "amd64")
		w.become("launch", "view")
		// Caches of the login must be invalidated immediately.
		err := within(20*time.Second, func() error {
			for range 4 {
				r := request(t, http.MethodGet, v2(target)+"/manifests/1", nil)
				if r.status == http.StatusOK {
					return fmt.Errorf("the image is still served")
				}
				if !strings.Contains(string(r.body), reason) {
					return fmt.Errorf("the pull got %d %s", r.status, r.body)
				}
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	})
}

// session signs a program in with a token, like a user in a browser.
func (p *program) session(token string) (access, refresh string) {
	p.t.Helper()
	verifier := strings.Repeat("v", 50)
	sum := sha256.Sum256([]byte(verifier))
	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	resp, err := client.PostForm(p.platform+"/oauth/authorize", url.Values{
		"access_token": {token}, "client_id": {"cli"}, "redirect_uri": {"http://127.0.0.1:1/"},
		"code_challenge": {base64.RawURLEncoding.EncodeToString(sum[:])}, "code_challenge_method": {"S256"},
	})
	if err != nil {
		p.t.Fatal(err)
	}
	defer resp.Body.Close()
	to, err := resp.Location()
	if err != nil {
		p.t.Fatalf("signing in: %d, %v", resp.StatusCode, err)
	}
	issued, err := client.PostForm(p.platform+"/oauth/access_token", url.Values{
		"grant_type": {"authorization_code"}, "code": {to.Query().Get("code")}, "code_verifier": {verifier},
		"client_id": {"cli"}, "redirect_uri": {"http://127.0.0.1:1/"},
	})
	if err != nil {
		p.t.Fatal(err)
	}
	defer issued.Body.Close()
	var raw bytes.Buffer
	_, _ = raw.ReadFrom(issued.Body)
	pair := reply{status: issued.StatusCode, body: raw.Bytes()}.json(p.t)
	return text(pair, "access_token"), text(pair, "refresh_token")
}

// TestSessionsEndWithTheirToken checks that deleting a token also ends the sessions that began
// with it.
func TestSessionsEndWithTheirToken(t *testing.T) {
	t.Parallel()
	eachShape(t, nil, settings{"limit_platform": "0", "master_key_file": newMasterKey(t)}, func(t *testing.T, p *program) {
		made := p.platformCall(http.MethodPost, "/tokens", p.token, map[string]any{"name": "stolen"})
		access, refresh := p.session(text(made, "accessKey"))
		list := p.platformCall(http.MethodGet, "/tokens", access, nil)
		if sessions, _ := list["sessions"].([]any); len(sessions) != 1 {
			t.Errorf("the sessions are %v", list)
		}
		p.platformCall(http.MethodDelete, fmt.Sprintf("/tokens/%.0f", made["token"].(map[string]any)["id"]), p.token, nil)
		if r := request(t, http.MethodGet, p.platform+"/user-info", nil, "Authorization", "Bearer "+access); r.status != http.StatusForbidden {
			t.Errorf("the session still works: %d %s", r.status, r.body)
		}
		r, err := http.PostForm(p.platform+"/oauth/access_token", url.Values{"grant_type": {"refresh_token"}, "refresh_token": {refresh}})
		if err != nil {
			t.Fatal(err)
		}
		defer r.Body.Close()
		if r.StatusCode == http.StatusOK {
			t.Error("the session was refreshed")
		}
		if r := p.call(http.MethodPost, "/v1alpha2/container", map[string]any{"containerImage": "quay.io/x/y:1", "platformAccessToken": access}); r.status != http.StatusUnauthorized {
			t.Errorf("a request with the session: %d %s", r.status, r.body)
		}
	})
}

// TestStoredDataContainsNoUsableSecret searches all stored files and Redis for valid secrets, and
// checks that other users cannot read the files.
func TestStoredDataContainsNoUsableSecret(t *testing.T) {
	t.Parallel()
	up := testkit.NewRegistry(t, testkit.Bearer)
	image := up.Push(t, "team/private:1", testkit.Image(t, "amd64", true))
	eachShape(t, []string{up.Host}, settings{"limit_platform": "0", "master_key_file": newMasterKey(t)}, func(t *testing.T, p *program) {
		w := newTeam(p, up.Host)
		access, refresh := p.session(p.token)
		live := text(p.call(http.MethodPost, "/v1alpha2/container", w.in("launch", map[string]any{"containerImage": image})).json(t), "targetImage")
		pull(t, live, "amd64")
		revoked := text(p.call(http.MethodPost, "/v1alpha2/container", w.in("launch", map[string]any{"containerImage": image})).json(t), "targetImage")
		if r := p.call(http.MethodDelete, "/v1alpha2/container/"+tokenOf(revoked), nil); r.status != http.StatusNoContent {
			t.Errorf("revoking: %d %s", r.status, r.body)
		}
		secrets := map[string]string{
			"a live name": tokenOf(live), "a revoked name": tokenOf(revoked), "an access token": w.tokens["launch"], "a session's access token": access,
			"a session's refresh token": refresh, "a password": testkit.Password + `"`,
		}
		for _, name := range []string{"an access token", "a session's refresh token"} {
			raw, err := base64.StdEncoding.DecodeString(secrets[name])
			if err != nil {
				t.Fatal(err)
			}
			_, secrets[name+"'s secret"], _ = strings.Cut(string(raw), ".")
		}
		holds := func(where string, content []byte) {
			for what, secret := range secrets {
				if bytes.Contains(content, []byte(secret)) {
					t.Errorf("%s contains %s", where, what)
				}
			}
		}
		for _, proc := range p.procs {
			holds("the log of "+proc.name, []byte(proc.log()))
			err := filepath.WalkDir(proc.env["data_dir"], func(path string, e fs.DirEntry, err error) error {
				if err != nil || !e.Type().IsRegular() {
					return err
				}
				raw, err := os.ReadFile(path)
				holds(path, raw)
				if name := e.Name(); strings.HasPrefix(name, "slipway.db") {
					if info, err := e.Info(); err != nil || info.Mode().Perm() != 0o600 {
						t.Errorf("%s: %v, %v", path, info.Mode(), err)
					}
				}
				return err
			})
			if err != nil {
				t.Error(err)
			}
		}
		if p.redis != nil {
			holds("Redis", redisDump(t, p.redis.URL))
		}
	})
}

// redisDump returns the whole content of a Redis server.
func redisDump(t *testing.T, address string) []byte {
	t.Helper()
	o, err := redis.ParseURL(address)
	if err != nil {
		t.Fatal(err)
	}
	client := redis.NewClient(o)
	defer client.Close()
	var all bytes.Buffer
	for _, key := range client.Keys(context.Background(), "*").Val() {
		all.WriteString(key)
		all.WriteString(client.Dump(context.Background(), key).Val())
		for field, value := range client.HGetAll(context.Background(), key).Val() { // hashes are added uncompressed, since a dump is compressed
			all.WriteString(field + value)
		}
	}
	return all.Bytes()
}

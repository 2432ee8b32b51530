package e2e

import (
	"encoding/base64"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"

	"golang.org/x/crypto/bcrypt"

	"slipway.dev/services/internal/testkit"
)

// TestForeignPlatform: a second Slipway is the platform of the first one's users.
// Their credentials live there alone, and come over encrypted.
func TestForeignPlatform(t *testing.T) {
	t.Parallel()
	up := testkit.NewRegistry(t, testkit.Bearer)
	image := up.Push(t, "team/private:1", testkit.Index(t, true, "amd64"))
	there := oneProcess(t, common(t, []string{up.Host}, settings{"operator_accounts_file": operatorsFile(t)}))
	// What the first one sees of it can go away.
	var gone atomic.Bool
	target, err := url.Parse(there.platform)
	if err != nil {
		t.Fatal(err)
	}
	proxy := httputil.NewSingleHostReverseProxy(target)
	var asked atomic.Int32
	door := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		if gone.Load() {
			panic(http.ErrAbortHandler)
		}
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(door.Close)
	user := []string{"Authorization", "Bearer " + there.token}
	keep := map[string]any{"credentials": map[string]any{
		"name": "team", "keys": map[string]any{"userName": testkit.User, "password": testkit.Password, "registry": up.Host},
	}}
	if r := request(t, http.MethodPost, there.platform+"/credentials", keep, user...); r.status != http.StatusOK {
		t.Fatalf("keeping credentials: %d %s", r.status, r.body)
	}
	more := settings{"platform_endpoints": door.URL, "platform_auth_file": loginAt(t, door.URL), "master_key_file": newMasterKey(t)}
	eachShape(t, []string{up.Host}, more, func(t *testing.T, p *program) {
		ask := func(token, endpoint string, more ...any) reply {
			body := map[string]any{"containerImage": image, "towerAccessToken": token, "towerEndpoint": endpoint}
			for i := 0; i < len(more); i += 2 {
				body[more[i].(string)] = more[i+1]
			}
			return p.call(http.MethodPost, "/v1alpha2/container", body)
		}
		r := ask(there.token, door.URL)
		if r.status != http.StatusOK {
			t.Fatalf("with a token of the other: %d %s", r.status, r.body)
		}
		pulled := text(r.json(t), "targetImage")
		pull(t, pulled, "amd64")
		for name, c := range map[string]struct {
			r      reply
			status int
			says   string
		}{
			"the same token here":        {ask(there.token, ""), http.StatusBadRequest, image}, // the first user here has the same token and no login
			"nobody":                     {p.call(http.MethodPost, "/v1alpha2/container", map[string]any{"containerImage": image}), http.StatusBadRequest, image},
			"a wrong token":              {ask("nonsense", door.URL), http.StatusUnauthorized, "refuse"},
			"a workspace that is not":    {ask(there.token, door.URL, "towerWorkspaceId", 5), http.StatusUnauthorized, "workspace"},
			"a platform nobody believes": {ask(there.token, there.platform), http.StatusBadRequest, "trusts"},
		} {
			if c.r.status != c.status || !strings.Contains(string(c.r.body), c.says) {
				t.Errorf("%s: %d %s", name, c.r.status, c.r.body)
			}
		}

		access, refresh := signIn(t, there)
		before := asked.Load()
		if r := ask(access, door.URL, "towerRefreshToken", refresh); r.status != http.StatusOK || asked.Load() == before {
			t.Errorf("with tokens of a sign-in: %d %s", r.status, r.body)
		}

		gone.Store(true)
		defer gone.Store(false)
		down := ask("another token", door.URL)
		if down.status != http.StatusServiceUnavailable || down.header.Get("Retry-After") == "" || !strings.Contains(string(down.body), door.URL) {
			t.Errorf("while it is away: %d %v %s", down.status, down.header, down.body)
		}
		pull(t, pulled, "amd64") // what is remembered still holds
	})
	t.Run("at an address that may not be reached", func(t *testing.T) {
		walled := maps.Clone(more)
		walled["egress_allow"] = "10.9.9.9"
		p := oneProcess(t, common(t, []string{up.Host}, walled))
		r := p.call(http.MethodPost, "/v1alpha2/container", map[string]any{"containerImage": image, "towerAccessToken": there.token, "towerEndpoint": door.URL})
		if r.status != http.StatusBadRequest || !strings.Contains(string(r.body), "egress_allow") {
			t.Errorf("answered %d %s", r.status, r.body)
		}
	})
}

func operatorsFile(t testing.TB) string {
	t.Helper()
	hash, err := bcrypt.GenerateFromPassword([]byte("an operator's password"), bcrypt.MinCost)
	if err != nil {
		t.Fatal(err)
	}
	return writeFile(t, "operators", "ops:"+string(hash)+"\n")
}

// loginAt is a file with the operator's account at an address.
func loginAt(t testing.TB, address string) string {
	t.Helper()
	_, host, _ := strings.Cut(address, "://")
	auth := base64.StdEncoding.EncodeToString([]byte("ops:an operator's password"))
	return writeFile(t, "platforms.json", fmt.Sprintf(`{"auths":{%q:{"auth":%q}}}`, host, auth))
}

// signIn answers the tokens of a sign-in.
func signIn(t testing.TB, p *program) (access, refresh string) {
	t.Helper()
	const verifier, challenge = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk", "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM"
	form := url.Values{
		"access_token": {p.token}, "client_id": {"test"}, "redirect_uri": {"http://127.0.0.1:1/back"},
		"code_challenge": {challenge}, "code_challenge_method": {"S256"},
	}
	const kind = "application/x-www-form-urlencoded"
	back := request(t, http.MethodPost, p.platform+"/oauth/authorize", form.Encode(), "Content-Type", kind)
	to, err := url.Parse(back.header.Get("Location"))
	if err != nil || to.Query().Get("code") == "" {
		t.Fatalf("signing in: %d %s", back.status, back.body)
	}
	form = url.Values{
		"grant_type": {"authorization_code"}, "code": {to.Query().Get("code")}, "code_verifier": {verifier},
		"client_id": {"test"}, "redirect_uri": {"http://127.0.0.1:1/back"},
	}
	issued := request(t, http.MethodPost, p.platform+"/oauth/access_token", form.Encode(), "Content-Type", kind).json(t)
	return text(issued, "access_token"), text(issued, "refresh_token")
}

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

// TestForeignPlatform uses a second Slipway as the platform of the first one's users. Their
// credentials are only stored there, and are transferred encrypted.
func TestForeignPlatform(t *testing.T) {
	t.Parallel()
	up := testkit.NewRegistry(t, testkit.Bearer)
	image := up.Push(t, "team/private:1", testkit.Index(t, true, "amd64"))
	there := oneProcess(t, common(t, []string{up.Host}, settings{"operator_accounts_file": operatorsFile(t)}))
	// The test can make the second server unreachable for the first one.
	var gone atomic.Bool
	target, err := url.Parse(there.platform)
	if err != nil {
		t.Fatal(err)
	}
	proxy := httputil.NewSingleHostReverseProxy(target)
	var asked atomic.Int32
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		if gone.Load() {
			panic(http.ErrAbortHandler)
		}
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(front.Close)
	user := []string{"Authorization", "Bearer " + there.token}
	keep := map[string]any{"credentials": map[string]any{
		"name": "team", "keys": map[string]any{"userName": testkit.User, "password": testkit.Password, "registry": up.Host},
	}}
	if r := request(t, http.MethodPost, there.platform+"/credentials", keep, user...); r.status != http.StatusOK {
		t.Fatalf("storing credentials: %d %s", r.status, r.body)
	}
	more := settings{"platform_endpoints": front.URL, "platform_auth_file": loginAt(t, front.URL), "master_key_file": newMasterKey(t)}
	eachShape(t, []string{up.Host}, more, func(t *testing.T, p *program) {
		ask := func(token, endpoint string, more ...any) reply {
			body := map[string]any{"containerImage": image, "towerAccessToken": token, "towerEndpoint": endpoint}
			for i := 0; i < len(more); i += 2 {
				body[more[i].(string)] = more[i+1]
			}
			return p.call(http.MethodPost, "/v1alpha2/container", body)
		}
		r := ask(there.token, front.URL)
		if r.status != http.StatusOK {
			t.Fatalf("with a token of the other server: %d %s", r.status, r.body)
		}
		pulled := text(r.json(t), "targetImage")
		pull(t, pulled, "amd64")
		for name, c := range map[string]struct {
			r      reply
			status int
			says   string
		}{
			"the same token here":   {ask(there.token, ""), http.StatusBadRequest, image}, // the first user of this server has the same token and no login
			"an anonymous caller":   {p.call(http.MethodPost, "/v1alpha2/container", map[string]any{"containerImage": image}), http.StatusBadRequest, image},
			"a wrong token":         {ask("nonsense", front.URL), http.StatusUnauthorized, "refuse"},
			"a missing workspace":   {ask(there.token, front.URL, "towerWorkspaceId", 5), http.StatusUnauthorized, "workspace"},
			"an untrusted platform": {ask(there.token, there.platform), http.StatusBadRequest, "trusts"},
		} {
			if c.r.status != c.status || !strings.Contains(string(c.r.body), c.says) {
				t.Errorf("%s: %d %s", name, c.r.status, c.r.body)
			}
		}

		access, refresh := signIn(t, there)
		before := asked.Load()
		if r := ask(access, front.URL, "towerRefreshToken", refresh); r.status != http.StatusOK || asked.Load() == before {
			t.Errorf("with tokens of a sign-in: %d %s", r.status, r.body)
		}

		gone.Store(true)
		defer gone.Store(false)
		down := ask("another token", front.URL)
		if down.status != http.StatusServiceUnavailable || down.header.Get("Retry-After") == "" || !strings.Contains(string(down.body), front.URL) {
			t.Errorf("while the platform is unreachable: %d %v %s", down.status, down.header, down.body)
		}
		pull(t, pulled, "amd64") // cached permissions are still valid
	})
	t.Run("at an address that may not be reached", func(t *testing.T) {
		walled := maps.Clone(more)
		walled["egress_allow"] = "10.9.9.9"
		p := oneProcess(t, common(t, []string{up.Host}, walled))
		r := p.call(http.MethodPost, "/v1alpha2/container", map[string]any{"containerImage": image, "towerAccessToken": there.token, "towerEndpoint": front.URL})
		if r.status != http.StatusBadRequest || !strings.Contains(string(r.body), "egress_allow") {
			t.Errorf("returned %d %s", r.status, r.body)
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

// loginAt returns a file with the operator's account for a URL.
func loginAt(t testing.TB, address string) string {
	t.Helper()
	_, host, _ := strings.Cut(address, "://")
	auth := base64.StdEncoding.EncodeToString([]byte("ops:an operator's password"))
	return writeFile(t, "platforms.json", fmt.Sprintf(`{"auths":{%q:{"auth":%q}}}`, host, auth))
}

// signIn returns the tokens of a sign-in.
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

package e2e

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
)

// privateLab returns a channel server that requires a login with a password: a bearer token below
// /bearer, a token in the path below /path, and the user ada with HTTP basic authentication below
// /basic. While outage is a status, it is the response to each request.
func privateLab(t *testing.T, password string) (channel *lab, outage *atomic.Int32) {
	t.Helper()
	channel, outage = newLab(t), new(atomic.Int32)
	isAllowed := func(r *http.Request) bool {
		user, given, isBasic := r.BasicAuth()
		switch {
		case strings.HasPrefix(r.URL.Path, "/bearer/"):
			return r.Header.Get("Authorization") == "Bearer "+password
		case strings.HasPrefix(r.URL.Path, "/t/"):
			return strings.HasPrefix(r.URL.Path, "/t/"+password+"/path/")
		}
		return strings.HasPrefix(r.URL.Path, "/basic/") && isBasic && user == "ada" && given == password
	}
	channel.answers(func(w http.ResponseWriter, r *http.Request) {
		switch status := int(outage.Load()); {
		case status != 0:
			w.WriteHeader(status)
		case !isAllowed(r):
			w.WriteHeader(http.StatusUnauthorized)
		default:
			_, _ = w.Write([]byte(labPackages))
		}
	})
	return channel, outage
}

// TestChannelCredentials stores a login for a private channel with each authentication method.
// The server must test the login, reject a wrong one, and read the channel with a valid one. A
// login that cannot be tested because of an outage is kept.
func TestChannelCredentials(t *testing.T) {
	t.Parallel()
	const secret = "s3cret-of-a-channel"
	channel, outage := privateLab(t, secret)
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	right, wrong := file("right", secret), file("wrong", "another")
	p := oneProcess(t, common(t, nil, settings{"conda_channel_alias": channel.URL, "conda_solve_wait": "20s"}))
	for name, way := range map[string][]string{"bearer": {"--bearer"}, "path": {"--token-in-path"}, "basic": {"--username", "ada"}} {
		address := channel.URL + "/" + name
		if out, errs, err := p.slipway("lock", "samtools", "--channel", address); err == nil {
			t.Errorf("%s: without a login the lock is %s %s", name, out, errs)
		}
		add := append([]string{"credentials", "add", name, "--channel", address}, way...)
		if _, errs, err := p.slipway(append(add, "--password-file", wrong)...); err == nil || !strings.Contains(errs, "the login was removed") || strings.Contains(errs, "another") {
			t.Errorf("%s: a wrong login got %s, %v", name, errs, err)
		}
		if list, _, err := p.slipway("credentials", "list"); err != nil || strings.Contains(list, name) {
			t.Errorf("%s: a wrong login is stored: %s, %v", name, list, err)
		}
		if _, errs, err := p.slipway(append(add, "--password-file", right)...); err != nil || !strings.Contains(errs, "has read "+address) {
			t.Errorf("%s: a right login got %s, %v", name, errs, err)
			continue
		}
		if out, errs, err := p.slipway("lock", "samtools", "--channel", address); err != nil || !strings.Contains(out, "samtools-1.20") || strings.Contains(out+errs, secret) {
			t.Errorf("%s: with a login the lock is %s %s, %v", name, out, errs, err)
		}
	}
	for _, status := range []int{http.StatusTooManyRequests, http.StatusServiceUnavailable} {
		outage.Store(int32(status))
		name := fmt.Sprintf("outage-%d", status)
		_, errs, err := p.slipway("credentials", "add", name, "--channel", channel.URL+"/bearer/"+name, "--bearer", "--password-file", right)
		if err != nil || !strings.Contains(errs, "could not be tested") || !strings.Contains(errs, "slipway credentials delete "+name) || strings.Contains(errs, secret) {
			t.Errorf("with %d of the channel: %s, %v", status, errs, err)
		}
		if list, _, err := p.slipway("credentials", "list"); err != nil || !strings.Contains(list, name) {
			t.Errorf("with %d of the channel the login is not stored: %s, %v", status, list, err)
		}
	}
	for _, args := range [][]string{
		{"--bearer"}, {"--channel", channel.URL + "/x"}, {"--channel", channel.URL + "/x", "--bearer", "--token-in-path"}, {"--channel", "lab", "--bearer"},
		{"--channel", channel.URL, "--bearer", "--registry", "quay.io"}, {"--channel", channel.URL, "--username", "token"},
	} {
		if _, errs, err := p.slipway(append([]string{"credentials", "add", "bad", "--password-file", right}, args...)...); err == nil || strings.Contains(errs, "The server has read") {
			t.Errorf("%q is accepted: %s", args, errs)
		}
	}
}

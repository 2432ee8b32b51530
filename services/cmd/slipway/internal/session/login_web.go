package session

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"time"

	"github.com/spf13/cobra"

	platformv1 "slipway.dev/proto/gen/slipway/platform/v1"
)

// webPatience is how long the user may take to sign in.
const webPatience = 5 * time.Minute

// clientID is this program's name on the server's page.
const clientID = "slipway"

// signInOnTheWeb returns a new access token for this machine. The browser is redirected to a
// loopback address with a code (gateway/contract/platform.md#sign-in, PKCE). The code is
// exchanged for a token that is valid for one hour, with which the access token is created.
func (s *Settings) signInOnTheWeb(cmd *cobra.Command, base *url.URL) (string, error) {
	ctx, cancel := context.WithTimeout(cmd.Context(), webPatience)
	defer cancel()
	verifier, state := rand.Text()+rand.Text(), rand.Text()
	back, err := listenForCode(ctx, state)
	if err != nil {
		return "", fmt.Errorf("listening for the browser: %w", err)
	}
	defer back.close()
	sum := sha256.Sum256([]byte(verifier))
	page := base.JoinPath("/api/oauth/authorize")
	page.RawQuery = url.Values{
		"response_type": {"code"}, "client_id": {clientID}, "redirect_uri": {back.uri}, "state": {state},
		"code_challenge": {base64.RawURLEncoding.EncodeToString(sum[:])}, "code_challenge_method": {"S256"},
	}.Encode()
	cmd.PrintErrf("Open this page in a browser on this machine:\n  %s\n", page)
	if s.remote {
		cmd.PrintErrln("slipway: you are here over SSH; without a browser on this machine, use `slipway login --device`")
	}
	code, err := back.wait(ctx)
	if err != nil {
		return "", fmt.Errorf("waiting for the browser: %w", err)
	}
	jwt, err := s.clientOf(base, "").redeem(ctx, url.Values{
		"grant_type": {"authorization_code"}, "code": {code}, "code_verifier": {verifier}, "redirect_uri": {back.uri}, "client_id": {clientID},
	})
	if err != nil {
		return "", fmt.Errorf("signing in: %w", err)
	}
	return s.clientOf(base, jwt).tokenOfMachine(ctx)
}

// redeem returns the access token for a code.
func (c *Client) redeem(ctx context.Context, form url.Values) (string, error) {
	res, raw, err := c.PostForm(ctx, "/api/oauth/access_token", form)
	if err != nil {
		return "", err
	}
	if res.StatusCode != http.StatusOK {
		return "", c.Refusal(res, raw)
	}
	var pair struct {
		Token string `json:"access_token"`
	}
	if err := json.Unmarshal(raw, &pair); err != nil || pair.Token == "" {
		return "", errors.New("the answer holds no token; check --server")
	}
	return pair.Token, nil
}

// tokenOfMachine creates an access token that is named after this machine.
func (c *Client) tokenOfMachine(ctx context.Context) (string, error) {
	host, err := os.Hostname()
	if err != nil {
		host = "somewhere"
	}
	name := fmt.Sprintf("%.20s %s", host, time.Now().UTC().Format("2006-01-02 15:04:05.000"))
	var res platformv1.CreateTokenResponse
	what := Call{Method: http.MethodPost, Path: "/api/tokens", Signed: true, Body: &platformv1.TokenSpec{Name: name}}
	if _, err := c.Do(ctx, what, &res); err != nil {
		return "", fmt.Errorf("making an access token: %w", err)
	}
	return res.GetAccessKey(), nil
}

// landing is the address that the browser returns to.
type landing struct {
	uri    string
	codes  chan string
	server *http.Server
}

func listenForCode(ctx context.Context, state string) (*landing, error) {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	b := &landing{uri: "http://" + l.Addr().String() + "/", codes: make(chan string, 1)}
	b.server = &http.Server{ReadHeaderTimeout: 10 * time.Second, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		code := r.URL.Query().Get("code")
		if r.URL.Path != "/" || code == "" || r.URL.Query().Get("state") != state {
			http.Error(w, "This is not the answer that slipway waits for.", http.StatusBadRequest)
			return
		}
		select {
		case b.codes <- code:
		default: // already received
		}
		_, _ = io.WriteString(w, "You are signed in. This page can be closed.\n") // the browser may have disconnected
	})}
	go func() { _ = b.server.Serve(l) }() // close ends it
	return b, nil
}

func (b *landing) wait(ctx context.Context) (string, error) {
	select {
	case code := <-b.codes:
		return code, nil
	case <-ctx.Done():
		return "", ctx.Err()
	}
}

// close lets the browser read its response.
func (b *landing) close() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = b.server.Shutdown(ctx) // or it ends with the process
}

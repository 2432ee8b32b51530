package main

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/proto"
)

// settings are what every command needs to know: which server, and who asks.
type settings struct {
	server    string
	token     string // from the environment
	tokenFile string // wins over token
	timeout   time.Duration
	dumb      bool // whether the terminal cannot go back in a line
}

func (s *settings) add(root *cobra.Command, env func(string) string) {
	flags := root.PersistentFlags()
	s.token = strings.TrimSpace(env("SLIPWAY_TOKEN"))
	s.dumb = env("TERM") == "" || env("TERM") == "dumb"
	flags.StringVar(&s.server, "server", cmp.Or(env("SLIPWAY_SERVER"), "http://localhost:9090"), "The server's `URL` (environment: SLIPWAY_SERVER).")
	flags.StringVar(&s.tokenFile, "token-file", "", "A `file` that holds the access token; wins over SLIPWAY_TOKEN.")
	flags.DurationVar(&s.timeout, "timeout", time.Minute, "The most that one call, or the download of a layer, may take; 0 for any time.")
}

// client answers a client of the server that the settings name.
func (s *settings) client() (*client, error) {
	base, err := url.Parse(s.server)
	if err != nil || (base.Scheme != "http" && base.Scheme != "https") || base.Host == "" {
		return nil, usagef("the server must be a URL such as http://localhost:9090, not %q; set --server or SLIPWAY_SERVER", s.server)
	}
	token, err := s.bearer()
	if err != nil {
		return nil, err
	}
	return &client{base: base, token: token, http: http.Client{Timeout: s.timeout, CheckRedirect: stay}}, nil
}

// stay follows no redirect: a POST would become a GET without its body.
func stay(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

// do makes one call to the server that the settings name.
func (s *settings) do(ctx context.Context, what call, out proto.Message) ([]byte, error) {
	c, err := s.client()
	if err != nil {
		return nil, err
	}
	return c.do(ctx, what, out)
}

// bearer answers the access token; empty for none.
func (s *settings) bearer() (string, error) {
	if s.tokenFile == "" {
		return s.token, nil
	}
	raw, err := os.ReadFile(s.tokenFile)
	if err != nil {
		return "", fmt.Errorf("reading the access token: %w", err)
	}
	token := strings.TrimSpace(string(raw))
	if token == "" {
		return "", fmt.Errorf("reading the access token: %s is empty", s.tokenFile)
	}
	return token, nil
}

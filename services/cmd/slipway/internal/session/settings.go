// Package session holds the settings of every command, the stored logins, and the client of
// the server that they name. It only decodes responses about the user.
package session

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/proto"

	"slipway.dev/services/client"
	"slipway.dev/services/cmd/slipway/internal/output"
	"slipway.dev/services/cmd/slipway/internal/usage"
)

// usualServer is the default server.
const usualServer = "http://localhost:9090"

// Settings are the settings of every command: the server and the user.
type Settings struct {
	server     string // the flags, of which one is empty
	context    string
	envServer  string // from the environment
	envContext string
	token      string // from the environment; takes precedence over the stored login
	tokenFile  string // takes precedence over token
	logins     string // path of the stored logins; "" for none
	workspace  string // from the environment
	Timeout    time.Duration
	dumb       bool   // whether the terminal cannot move the cursor
	remote     bool   // whether the user is at another machine
	pager      string // the program that shows long results on a terminal; "" for none
	atOnce     bool   // whether the pager is disabled
	Version    string // of this program
}

// Add adds the flags of the settings to a command and its subcommands.
func (s *Settings) Add(root *cobra.Command, env func(string) string) {
	flags := root.PersistentFlags()
	s.token = strings.TrimSpace(env("SLIPWAY_TOKEN"))
	s.workspace = strings.TrimSpace(env("SLIPWAY_WORKSPACE"))
	s.logins = loginsPath(env)
	s.dumb = env("TERM") == "" || env("TERM") == "dumb"
	s.pager = pagerOf(env)
	s.remote = env("SSH_CONNECTION") != ""
	s.envServer, s.envContext = strings.TrimSpace(env("SLIPWAY_SERVER")), strings.TrimSpace(env("SLIPWAY_CONTEXT"))
	output.AllowColour(root, env)
	flags.StringVar(&s.server, "server", "", "The server's `URL` (environment: SLIPWAY_SERVER; default: the one of the last login or context, else "+usualServer+").")
	flags.StringVar(&s.context, "context", "", "The `name` of the server, of `slipway config` (environment: SLIPWAY_CONTEXT).")
	usage.CompleteFlagFrom(root, "context", func(cmd *cobra.Command, _ []string, begun string) ([]cobra.Completion, cobra.ShellCompDirective) {
		return s.completeContexts(cmd, nil, begun)
	})
	flags.StringVar(&s.tokenFile, "token-file", "", "A `file` that holds the access token; takes precedence over SLIPWAY_TOKEN and the login.")
	flags.BoolVar(&s.atOnce, "no-pager", false, "Do not use SLIPWAY_PAGER or PAGER for long results on a terminal.")
	flags.DurationVar(&s.Timeout, "timeout", time.Minute, "The timeout of one call, or of the download of a layer; 0 for none.")
}

// IsLive reports whether output to w can be replaced in place.
func (s *Settings) IsLive(w io.Writer) bool { return !s.dumb && output.IsTerminal(w) }

// Client returns a client of the server that the settings name.
func (s *Settings) Client() (*Client, error) {
	kept, used, err := s.current()
	if err != nil {
		return nil, err
	}
	token, err := s.bearer(kept.Logins[serverKey(used.base)])
	if err != nil {
		return nil, err
	}
	return s.clientOf(used.base, token), nil
}

// ServerURL returns the URL of the server that the settings name; "" if it is invalid, which Client reports.
func (s *Settings) ServerURL() string {
	_, used, err := s.current()
	if err != nil {
		return ""
	}
	return used.base.String()
}

// WithClient returns a command's function that uses a client.
func (s *Settings) WithClient(run func(cmd *cobra.Command, c *Client, args []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		c, err := s.Client()
		if err != nil {
			return err
		}
		return run(cmd, c, args)
	}
}

func (s *Settings) clientOf(base *url.URL, token string) *Client {
	return &Client{&client.Client{Base: base, Token: token, UserAgent: "slipway/" + s.Version, Timeout: s.Timeout, Explain: s.explain}}
}

func parseServer(server string) (*url.URL, error) {
	base, err := client.ParseServer(server)
	if err != nil {
		return nil, usage.Errorf("the server must be a URL such as %s, not %q; set --server or SLIPWAY_SERVER", usualServer, server)
	}
	return base, nil
}

// Do makes one call to the server that the settings name.
func (s *Settings) Do(ctx context.Context, what Call, out proto.Message) ([]byte, error) {
	c, err := s.Client()
	if err != nil {
		return nil, err
	}
	return c.Do(ctx, what, out)
}

// bearer returns the access token; "" for none.
func (s *Settings) bearer(kept login) (string, error) {
	switch {
	case s.tokenFile == "" && s.context != "": // SLIPWAY_TOKEN may be that of another server
		return cmp.Or(kept.Token, s.token), nil
	case s.tokenFile == "":
		return cmp.Or(s.token, kept.Token), nil
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

// Package session is who asks which server: the settings of every command, the logins that
// are kept between two of them, and the client that speaks the REST contract
// (gateway/contract). It knows no answers but those about its user.
package session

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/proto"

	"slipway.dev/services/cmd/slipway/internal/usage"
)

// usualServer is the one that nobody has to name.
const usualServer = "http://localhost:9090"

// Settings are what every command needs to know: which server, and who asks.
type Settings struct {
	server    string // empty: the one that was signed in to last
	token     string // from the environment; wins over the login that is kept
	tokenFile string // wins over token
	logins    string // the file of logins; empty for none
	workspace string // from the environment
	Timeout   time.Duration
	dumb      bool   // whether the terminal cannot go back in a line
	remote    bool   // whether the person is at another machine
	pager     string // the program that shows long answers on a terminal; empty for none
	atOnce    bool   // whether it is left out
	Version   string // of this program
}

// Add has a command and all below it ask for the settings.
func (s *Settings) Add(root *cobra.Command, env func(string) string) {
	flags := root.PersistentFlags()
	s.token = strings.TrimSpace(env("SLIPWAY_TOKEN"))
	s.workspace = strings.TrimSpace(env("SLIPWAY_WORKSPACE"))
	s.logins = loginsPath(env)
	s.dumb = env("TERM") == "" || env("TERM") == "dumb"
	s.pager = pagerOf(env)
	s.remote = env("SSH_CONNECTION") != ""
	flags.StringVar(&s.server, "server", env("SLIPWAY_SERVER"), "The server's `URL` (environment: SLIPWAY_SERVER; default: the one of the last login, else "+usualServer+").")
	flags.Lookup("server").DefValue = ""
	flags.StringVar(&s.tokenFile, "token-file", "", "A `file` that holds the access token; wins over SLIPWAY_TOKEN and over the login.")
	flags.BoolVar(&s.atOnce, "no-pager", false, "Show long answers on a terminal at once, instead of in SLIPWAY_PAGER or PAGER.")
	flags.DurationVar(&s.Timeout, "timeout", time.Minute, "The most that one call, or the download of a layer, may take; 0 for any time.")
}

// IsLive says whether what is shown there can be shown anew in its place.
func (s *Settings) IsLive(w io.Writer) bool {
	if s.dumb {
		return false
	}
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

// Client returns a client of the server that the settings name.
func (s *Settings) Client() (*Client, error) {
	kept, err := readLogins(s.logins)
	if err != nil {
		return nil, err
	}
	base, err := parseServer(cmp.Or(s.server, kept.Server, usualServer))
	if err != nil {
		return nil, err
	}
	token, err := s.bearer(kept.Logins[serverKey(base)])
	if err != nil {
		return nil, err
	}
	return s.clientOf(base, token), nil
}

// WithClient is a command that asks the server.
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
	return &Client{Base: base, Token: token, agent: "slipway/" + s.Version, http: http.Client{Timeout: s.Timeout, CheckRedirect: stay}}
}

func parseServer(server string) (*url.URL, error) {
	base, err := url.Parse(server)
	if err != nil || (base.Scheme != "http" && base.Scheme != "https") || base.Host == "" {
		return nil, usage.Errorf("the server must be a URL such as %s, not %q; set --server or SLIPWAY_SERVER", usualServer, server)
	}
	return base, nil
}

// stay follows no redirect: a POST would become a GET without its body.
func stay(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

// Do makes one call to the server that the settings name.
func (s *Settings) Do(ctx context.Context, what Call, out proto.Message) ([]byte, error) {
	c, err := s.Client()
	if err != nil {
		return nil, err
	}
	return c.Do(ctx, what, out)
}

// bearer returns the access token; empty for none.
func (s *Settings) bearer(kept login) (string, error) {
	if s.tokenFile == "" {
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

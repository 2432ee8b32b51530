package account

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/spf13/cobra"

	inspectv1 "slipway.dev/proto/gen/slipway/inspect/v1"
	platformv1 "slipway.dev/proto/gen/slipway/platform/v1"
	"slipway.dev/services/cmd/slipway/internal/output"
	"slipway.dev/services/cmd/slipway/internal/session"
)

// usualRegistry is the one that a login is for where none is named.
const usualRegistry = "docker.io"

// try has the server log in at a registry, as it will when it pulls, so that a login
// that does not work is not kept. was is what is kept already; nil for nothing. Where no
// password was given, or none that the server uses itself, there is nothing to try.
func (f *credentialsFlags) try(ctx context.Context, c *session.Client, spec *platformv1.CredentialsSpec, was *platformv1.CredentialsRecord) (*inspectv1.Login, error) {
	if f.keysFile != "" || f.unseen {
		return nil, nil
	}
	given := func(name string) string { return spec.GetKeys().GetFields()[name].GetStringValue() }
	login := &inspectv1.Login{
		UserName: cmp.Or(given("userName"), shownKey(was, "userName")), Password: given("password"),
		Registry: cmp.Or(given("registry"), shownKey(was, "registry"), usualRegistry),
	}
	if login.GetPassword() == "" || login.GetUserName() == "" {
		return nil, nil
	}
	raw, err := c.Do(ctx, session.Call{Method: http.MethodPost, Path: "/v1alpha2/validate-creds", Signed: true, Body: login}, nil)
	if err == nil && strings.TrimSpace(string(raw)) != "true" {
		err = errors.New("the registry refuses the user name or the password")
	}
	if err != nil {
		return nil, fmt.Errorf("trying the login at %s: %w; nothing was kept: mend it, or give --no-verify to keep it all the same", login.GetRegistry(), err)
	}
	return login, nil
}

// sayTried says what a login that works is good for, and what is not known of it.
func sayTried(cmd *cobra.Command, login *inspectv1.Login) {
	if login == nil {
		return
	}
	cmd.PrintErrf("%s accepts the login. From now on images below %s are read and pushed with it, on your behalf alone; "+
		"whether it may read or push one of them is for the registry to say: `slipway inspect` tries that.\n",
		output.Printable(login.GetRegistry()), output.Printable(login.GetRegistry()))
}

package account

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/spf13/cobra"

	inspectv1 "slipway.dev/proto/gen/slipway/inspect/v1"
	platformv1 "slipway.dev/proto/gen/slipway/platform/v1"
	"slipway.dev/services/cmd/slipway/internal/output"
	"slipway.dev/services/cmd/slipway/internal/session"
)

// usualRegistry is the default registry of a login.
const usualRegistry = "docker.io"

// try makes the server log in at a registry, as it does when it pulls, so that an invalid
// login is not stored. It tries nothing and returns nil without a password, with --no-verify,
// for a channel (see tryChannel), and for a provider that the server does not use itself. The
// stored record of a login that is changed is passed as was; nil for a new login.
func (f *credentialsFlags) try(ctx context.Context, c *session.Client, spec *platformv1.CredentialsSpec, was *platformv1.CredentialsRecord) (*inspectv1.Login, error) {
	if f.keysFile != "" || f.unseen || f.channel.address != "" || was != nil && was.GetProvider() != registryProvider {
		return nil, nil
	}
	given := func(name string) string { return spec.GetKeys().GetFields()[name].GetStringValue() }
	login := &inspectv1.Login{
		UserName: cmp.Or(given("userName"), keyField(was, "userName")), Password: given("password"),
		Registry: cmp.Or(given("registry"), keyField(was, "registry"), usualRegistry),
	}
	if login.GetPassword() == "" || login.GetUserName() == "" {
		return nil, nil
	}
	raw, err := c.Do(ctx, session.Call{Method: http.MethodPost, Path: "/v1alpha2/validate-creds", Signed: true, Body: login}, nil)
	if err == nil && strings.TrimSpace(string(raw)) != "true" {
		err = errors.New("the registry refuses the user name or the password")
	}
	if err != nil {
		return nil, fmt.Errorf("trying the login at %s: %w; nothing was stored: correct the login, or store it anyway with --no-verify", login.GetRegistry(), err)
	}
	return login, nil
}

// printTested prints what a valid login is used for, and what was not tested. query is that with
// which it was stored.
func printTested(cmd *cobra.Command, login *inspectv1.Login, query url.Values) {
	if login == nil {
		return
	}
	cmd.PrintErrf("%s accepts the login. From now on images below %s are read and pushed with it, %s; "+
		"whether it may read or push a certain image was not tested: `slipway inspect` tests that.\n",
		output.Printable(login.GetRegistry()), output.Printable(login.GetRegistry()), audience(query))
}

package session

import (
	"fmt"
	"net/http"

	"github.com/spf13/cobra"

	"slipway.dev/services/client"
	"slipway.dev/services/cmd/slipway/internal/output"
)

// Client is a client of one server, whose errors name the options that help.
type Client struct{ *client.Client }

// Call is one call of the contract.
type Call = client.Call

// Remove makes a DELETE call and prints the name of the deleted object.
func (c *Client) Remove(cmd *cobra.Command, what Call, name string) error {
	what.Method, what.Signed = http.MethodDelete, true
	if _, err := c.Do(cmd.Context(), what, nil); err != nil {
		return fmt.Errorf("deleting %s: %w", name, err)
	}
	_, err := fmt.Fprintf(cmd.OutOrStdout(), "Deleted %s.\n", output.Printable(name))
	return err
}

package main

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/spf13/cobra"
)

func revokeCommand(s *settings) *cobra.Command {
	return &cobra.Command{
		Use:   "revoke ID",
		Short: "End a request: its name can no longer be pulled",
		Long: `End a request: its name can no longer be pulled. Its build is cancelled unless
another request waits for it. Doing so twice does no harm.

ID is a request's id, or the whole name that was answered for it.`,
		Args: exactly(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			path, err := requestPath(args[0])
			if err != nil {
				return err
			}
			if _, err := s.do(cmd.Context(), call{method: http.MethodDelete, path: path}, nil); err != nil {
				return fmt.Errorf("revoking the request: %w", err)
			}
			_, err = fmt.Fprintln(cmd.OutOrStdout(), "Revoked.")
			return err
		},
	}
}

// requestPath returns the REST path of a request. It is named by its id, or by
// an image name that holds the id: HOST/wt/ID/PATH:TAG.
func requestPath(name string) (string, error) {
	id := name
	if parts := strings.Split(name, "/"); len(parts) > 3 && parts[1] == "wt" {
		id = parts[2]
	}
	if id == "" || strings.Trim(id, "abcdefghijklmnopqrstuvwxyz0123456789") != "" {
		return "", usagef("%q is neither a request's id nor a name HOST/wt/ID/PATH:TAG; a frozen image's name holds no id", name)
	}
	return "/v1alpha2/container/" + id, nil
}

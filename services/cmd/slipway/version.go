package main

import (
	"fmt"
	"runtime"

	"github.com/spf13/cobra"

	"slipway.dev/services/cmd/slipway/internal/usage"
)

func versionCommand() *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "Print this program's version; `slipway info` shows the server's", Args: usage.Exactly(0),
		Run: func(cmd *cobra.Command, _ []string) {
			fmt.Fprintf(cmd.OutOrStdout(), "slipway %s (%s), %s/%s\n", version, commit, runtime.GOOS, runtime.GOARCH)
		},
	}
}

package main

import "github.com/spf13/cobra"

// complete has a shell offer these values for a flag, and no file names.
func complete(cmd *cobra.Command, flag string, values ...cobra.Completion) {
	registerFlag(cmd, flag, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp))
}

func registerFlag(cmd *cobra.Command, flag string, f cobra.CompletionFunc) {
	if err := cmd.RegisterFlagCompletionFunc(flag, f); err != nil {
		panic(err) // the flag is not there: a mistake in this program
	}
}

// completeDir has a shell offer directories, and files that end as told.
func completeDir(cmd *cobra.Command, flag string) {
	if err := cmd.MarkFlagDirname(flag); err != nil {
		panic(err) // the flag is not there: a mistake in this program
	}
}

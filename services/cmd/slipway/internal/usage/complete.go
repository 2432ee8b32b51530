package usage

import "github.com/spf13/cobra"

// CompleteFlag completes a flag with these values, and not with file names.
func CompleteFlag(cmd *cobra.Command, flag string, values ...cobra.Completion) {
	CompleteFlagFrom(cmd, flag, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp))
}

// CompleteFlagFrom completes a flag with the values of f.
func CompleteFlagFrom(cmd *cobra.Command, flag string, f cobra.CompletionFunc) {
	if err := cmd.RegisterFlagCompletionFunc(flag, f); err != nil {
		panic(err) // an unknown flag is an error of this program
	}
}

// CompleteDirs completes a flag with directories.
func CompleteDirs(cmd *cobra.Command, flag string) {
	if err := cmd.MarkFlagDirname(flag); err != nil {
		panic(err) // an unknown flag is an error of this program
	}
}

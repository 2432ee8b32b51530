package usage

import "github.com/spf13/cobra"

// Offer completes a flag with these values, and not with file names.
func Offer(cmd *cobra.Command, flag string, values ...cobra.Completion) {
	OfferFrom(cmd, flag, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp))
}

// OfferFrom completes a flag with the values of f.
func OfferFrom(cmd *cobra.Command, flag string, f cobra.CompletionFunc) {
	if err := cmd.RegisterFlagCompletionFunc(flag, f); err != nil {
		panic(err) // an unknown flag is an error of this program
	}
}

// OfferDirs completes a flag with directories.
func OfferDirs(cmd *cobra.Command, flag string) {
	if err := cmd.MarkFlagDirname(flag); err != nil {
		panic(err) // an unknown flag is an error of this program
	}
}

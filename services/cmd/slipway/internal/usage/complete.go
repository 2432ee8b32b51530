package usage

import "github.com/spf13/cobra"

// Offer has a shell offer these values for a flag, and no file names.
func Offer(cmd *cobra.Command, flag string, values ...cobra.Completion) {
	OfferFrom(cmd, flag, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp))
}

// OfferFrom has a shell offer what f finds for a flag.
func OfferFrom(cmd *cobra.Command, flag string, f cobra.CompletionFunc) {
	if err := cmd.RegisterFlagCompletionFunc(flag, f); err != nil {
		panic(err) // the flag is not there: a mistake in this program
	}
}

// OfferDirs has a shell offer directories, and files that end as told.
func OfferDirs(cmd *cobra.Command, flag string) {
	if err := cmd.MarkFlagDirname(flag); err != nil {
		panic(err) // the flag is not there: a mistake in this program
	}
}

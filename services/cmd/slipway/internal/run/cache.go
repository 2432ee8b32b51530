package run

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"slipway.dev/services/cmd/slipway/internal/output"
	"slipway.dev/services/cmd/slipway/internal/session"
	"slipway.dev/services/cmd/slipway/internal/usage"
	"slipway.dev/services/internal/lifetime"
	"slipway.dev/services/mount/cache"
)

// CacheFlags are the flags that name the folders of the cache.
type CacheFlags struct{ cache, lower string }

// Add adds the flags to a command.
func (f *CacheFlags) Add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.cache, "cache", "", "The `folder` of the cache (environment: SLIPWAY_CACHE; default: ~/.cache/slipway).")
	flags.StringVar(&f.lower, "cache-lower", "", "`Folders` of read-only caches, separated by colons (environment: SLIPWAY_CACHE_LOWER).")
}

// Open returns the cache that the flags and the environment name.
func (f *CacheFlags) Open() (*cache.Cache, error) {
	folder := cmp.Or(f.cache, os.Getenv("SLIPWAY_CACHE"))
	if folder == "" {
		base, err := os.UserCacheDir()
		if home := ownAccount().home; err != nil && home != "" { // programs such as Nextflow do not pass HOME on
			base, err = filepath.Join(home, ".cache"), nil
		}
		if err != nil {
			return nil, fmt.Errorf("there is no folder for the cache: %w; set SLIPWAY_CACHE", err)
		}
		folder = filepath.Join(base, "slipway")
	}
	folder, err := filepath.Abs(folder)
	if err != nil {
		return nil, fmt.Errorf("the folder of the cache: %w", err)
	}
	var lower []string
	for _, one := range filepath.SplitList(cmp.Or(f.lower, os.Getenv("SLIPWAY_CACHE_LOWER"))) {
		if one, err = filepath.Abs(one); err != nil {
			return nil, fmt.Errorf("the folder of a cache: %w", err)
		}
		lower = append(lower, one)
	}
	return cache.Open(folder, lower...), nil
}

// Cache returns `slipway cache`.
func Cache(*session.Settings) *cobra.Command {
	cmd := usage.Group("cache", "List, verify and clean the cache of environments")
	cmd.AddCommand(cacheList(), cacheFirsts(), cacheVerify(), cacheClean())
	return cmd
}

func cacheList() *cobra.Command {
	var f CacheFlags
	cmd := &cobra.Command{
		Use: "ls", Short: "List the environments that were used, the last one first", Args: usage.Exactly(0),
	}
	f.Add(cmd)
	format := output.Flag(cmd, map[string]any{"environments": []cache.Used{}})
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		c, err := f.Open()
		if err != nil {
			return err
		}
		used, err := c.Used()
		if err != nil {
			return err
		}
		raw, err := json.Marshal(map[string]any{"environments": used})
		if err != nil {
			return fmt.Errorf("printing the environments: %w", err)
		}
		t := output.Table{{"LAST USED", "ENVIRONMENT", "NAME"}}
		for _, u := range used {
			t = append(t, []string{u.Time.UTC().Format(time.DateOnly), u.Digest, u.Name.Name})
		}
		return format.Print(cmd.OutOrStdout(), raw, t)
	}
	return cmd
}

func cacheVerify() *cobra.Command {
	var f CacheFlags
	cmd := &cobra.Command{
		Use: "verify", Short: "Verify all files of the cache; the exit code is 1 if one is wrong", Args: usage.Exactly(0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := f.Open()
			if err != nil {
				return err
			}
			wrong := 0
			files, err := c.Verify(cmd.Context(), func(b cache.Bad) {
				wrong++
				fmt.Fprintf(cmd.OutOrStdout(), "%s: %s\n", b.Path, b.Reason)
			})
			if err != nil {
				return fmt.Errorf("verifying the cache: %w", err)
			}
			cmd.PrintErrln("Verified " + strconv.Itoa(files) + " files of " + c.Dir() + ".")
			if wrong > 0 {
				return errors.New(strconv.Itoa(wrong) + " files are wrong; delete them, and they are fetched again")
			}
			return nil
		},
	}
	f.Add(cmd)
	return cmd
}

func cacheClean() *cobra.Command {
	var f CacheFlags
	keep := lifetime.Value(30 * 24 * time.Hour)
	cmd := &cobra.Command{
		Use:   "gc",
		Short: "Delete the packages of environments that were not used for some time",
		Long: `Delete the packages of environments that were not used for some time. Commands that are
running are not affected, also on other machines: the files of packages are first moved to
the folder trash of the cache, and deleted by a later call after a day.

Unpacked images are deleted in the same way if no command has started with them for that
time, and at least for a day, whatever --keep is. A command that runs for longer than both
days needs a longer --keep.`,
		Args: usage.Exactly(0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := f.Open()
			if err != nil {
				return err
			}
			done, err := c.Clean(time.Duration(keep), time.Now())
			if err = errors.Join(err, c.Problem()); err != nil {
				return err
			}
			cmd.PrintErrf("Deleted %s, and %s with %s.\n", output.Count(done.Environments, "environment"), output.Count(done.Files, "file"), output.BytesText(float64(done.Bytes)))
			return nil
		},
	}
	f.Add(cmd)
	cmd.Flags().Var(&keep, "keep", "Keep the environments that were used within this `time`, e.g. 30d or 12h.")
	usage.CompleteFlag(cmd, "keep", "7d", "30d", "90d")
	return cmd
}

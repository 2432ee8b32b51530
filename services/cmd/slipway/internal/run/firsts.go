package run

import (
	"errors"
	"fmt"
	"path"

	"github.com/spf13/cobra"

	"slipway.dev/services/cmd/slipway/internal/output"
	"slipway.dev/services/cmd/slipway/internal/usage"
	"slipway.dev/services/mount/cache"
	"slipway.dev/services/mount/environment"
)

func cacheFirsts() *cobra.Command {
	var f CacheFlags
	cmd := &cobra.Command{
		Use: "firsts NAME", Short: "Print the files of an environment that commands read first",
		Long: `Print the files of an environment that commands read first, in the order of their first
reads, one on each line. The name or the digest is that of ` + "`slipway cache ls`" + `.

` + "`slipway run --trace`" + ` records what a command reads, in chunks of 256 KiB: small files
next to one that was read are printed as well.`,
		Example: `  slipway run --trace registry.example.org/team/tools:2 -- python -c 'import torch'
  slipway cache firsts registry.example.org/team/tools:2 | head -n 2000 > first.txt
  slipway conda pytorch --soci --soci-prefetch first.txt`,
		Args: usage.Exactly(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := f.Open()
			if err != nil {
				return err
			}
			paths, err := firstPaths(c, args[0])
			if err != nil {
				return fmt.Errorf("the first files of %s: %w", args[0], err)
			}
			for _, p := range paths {
				fmt.Fprintln(cmd.OutOrStdout(), output.Printable(p))
			}
			return nil
		},
	}
	f.Add(cmd)
	return cmd
}

// firstPaths returns the files that were read first of the environment with a name or digest that was used last.
func firstPaths(c *cache.Cache, name string) ([]string, error) {
	used, err := c.Used()
	if err != nil {
		return nil, err
	}
	for _, u := range used {
		if name != u.Digest && name != u.Name.Name && name != u.Image {
			continue
		}
		list, err := recordedPaths(c, u.Digest)
		if err == nil && len(list) == 0 {
			err = errors.New("nothing is recorded; run a command with slipway run --trace")
		}
		return list, err
	}
	return nil, errors.New("it is not in the cache, whose environments slipway cache ls lists")
}

// recordedPaths returns the files of the record of an environment.
func recordedPaths(c *cache.Cache, digest string) ([]string, error) {
	manifest, err := c.Document(digest)
	if err != nil {
		return nil, err
	}
	a, err := environment.Parse(manifest)
	if err != nil {
		return nil, err
	}
	raw, err := c.Document(a.Config.Digest.String())
	if err != nil {
		return nil, err
	}
	config, err := environment.ParseConfig(raw)
	if err != nil {
		return nil, err
	}
	index, _, err := c.Index(a.Index.Digest.String(), config.Index.String(), func() ([]byte, error) { return nil, cache.ErrMissing })
	if err != nil {
		return nil, err
	}
	list, err := cache.FirstPaths(index, c.Firsts(a.Index.Digest.String()))
	for i, p := range list {
		list[i] = path.Join(config.Prefix, p)
	}
	return list, err
}

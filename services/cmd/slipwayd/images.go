package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
)

// imagesCommand calls the running process at its admin port, since only that process can
// access the image store.
func imagesCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "images",
		Short: "List the images of the embedded image store, and remove unused ones",
		Long: `List the images of the embedded image store, and remove unused ones.

It calls the running slipwayd at admin_addr of these settings.`,
	}
	cmd.AddCommand(imagesListCommand(), imagesPruneCommand())
	return cmd
}

// storedImage is an image in the admin port's response.
type storedImage struct {
	Repository, Tag, Digest string
	Size                    int64
	Used                    time.Time
}

func imagesListCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "List the images, with their sizes and when each was last used",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var images []storedImage
			if err := askAdmin(cmd, http.MethodGet, "/images", &images); err != nil {
				return err
			}
			return printImages(cmd.OutOrStdout(), images)
		},
	}
}

func imagesPruneCommand() *cobra.Command {
	var dry bool
	var unused time.Duration
	cmd := &cobra.Command{
		Use:   "prune",
		Short: "Remove the images beyond store_keep and store_size now",
		Long: `Remove the images beyond store_keep and store_size now, and unreferenced blobs.
Images that a valid name needs are never removed.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			query := url.Values{}
			if dry {
				query.Set("dry_run", "true")
			}
			if unused > 0 {
				query.Set("unused_for", unused.String())
			}
			var got struct {
				Images      []storedImage
				Freed, Left int64
			}
			if err := askAdmin(cmd, http.MethodPost, "/images/prune?"+query.Encode(), &got); err != nil {
				return err
			}
			if err := printImages(cmd.OutOrStdout(), got.Images); err != nil || dry {
				return err
			}
			_, err := fmt.Fprintf(cmd.OutOrStdout(), "%d images removed, %d bytes freed, %d bytes left\n", len(got.Images), got.Freed, got.Left)
			return err
		},
	}
	cmd.Flags().BoolVar(&dry, "dry-run", false, "Only list what would be removed.")
	cmd.Flags().DurationVar(&unused, "unused-for", 0, "Remove images that were not used for this long, instead of store_keep.")
	return cmd
}

func printImages(out io.Writer, images []storedImage) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "IMAGE\tDIGEST\tBYTES\tLAST USED")
	for _, i := range images {
		fmt.Fprintf(w, "%s:%s\t%s\t%d\t%s\n", i.Repository, i.Tag, i.Digest, i.Size, i.Used.UTC().Format(time.RFC3339))
	}
	return w.Flush()
}

// askAdmin calls the admin port of the process that runs with these settings.
func askAdmin(cmd *cobra.Command, method, path string, into any) error {
	cfg, err := load(cmd)
	if err != nil {
		return err
	}
	addr := cfg.AdminAddr
	if host, port, ok := strings.Cut(addr, ":"); ok && host == "" {
		addr = "127.0.0.1:" + port
	}
	req, err := http.NewRequestWithContext(cmd.Context(), method, "http://"+addr+path, nil)
	if err != nil {
		return fmt.Errorf("admin_addr: %w", err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return fmt.Errorf("slipwayd must be running and reachable at admin_addr: %w", err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		raw, _ := io.ReadAll(io.LimitReader(resp.Body, 4096))
		return errors.New(strings.TrimSpace(string(raw)))
	}
	return json.NewDecoder(resp.Body).Decode(into)
}

package bundle

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"github.com/spf13/cobra"

	"slipway.dev/services/cmd/slipway/internal/output"
	"slipway.dev/services/cmd/slipway/internal/usage"
	"slipway.dev/services/internal/limits"
)

// list returns `slipway bundle list`.
func list() *cobra.Command {
	var verify bool
	cmd := &cobra.Command{
		Use:   "list BUNDLE...",
		Short: "List the images of a bundle, or verify it",
		Long: `List the images of a bundle with their digests, platforms and sizes. The size is that
of all platforms; layers that images share count for each. Singularity images have names
with oras:// and no platforms.

With --verify, the digest of every blob is computed. A blob that was changed, is
truncated or is missing is an error. Blobs that were left out with --have are looked up
in the other bundles. No server is needed.`,
		Example: `  slipway bundle list pipeline --verify
  slipway bundle list pipeline -o json > have.json`,
		Args: usage.AtLeast(1),
	}
	format := output.Flag(cmd, map[string]any{"images": []listed{}, "digests": []string{}})
	cmd.Flags().BoolVar(&verify, "verify", false, "Verify the digests of all blobs.")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		c, err := openContent(args)
		if err != nil {
			return err
		}
		defer c.close()
		if err := c.print(cmd, format); err != nil || !verify {
			return err
		}
		return c.verify(cmd.Context(), cmd.ErrOrStderr())
	}
	return cmd
}

// listed is an image of a bundle in JSON.
type listed struct {
	// Image is the name to pull it by, which begins with oras:// for a Singularity image.
	Image     string        `json:"image"`
	Digest    digest.Digest `json:"digest"`
	MediaType string        `json:"mediaType"`
	Platforms []string      `json:"platforms"`
	Size      int64         `json:"size"` // bytes, with each blob once
	// Names are what the inputs call the container.
	Names []string `json:"names"`
}

func (c *content) print(cmd *cobra.Command, format *output.Format) error {
	names := map[string][]string{}
	seen := map[[2]string]bool{}
	for _, r := range c.records {
		for _, one := range r.Requests {
			if key := [2]string{one.Image, one.Name}; !seen[key] {
				seen[key] = true
				names[one.Image] = append(names[one.Image], one.Name)
			}
		}
	}
	rows, table := make([]listed, 0, len(c.images)), output.Table{{"IMAGE", "DIGEST", "PLATFORMS", "SIZE", "NAMES"}}
	all := sizes{content: c}
	for _, i := range c.images {
		size, err := all.of(i.root.Digest)
		if err != nil {
			return err
		}
		name := i.pullName(c.isSif(i))
		row := listed{Image: name, Digest: i.root.Digest, MediaType: i.root.MediaType, Platforms: append([]string{}, size.platforms...), Size: size.bytes, Names: append([]string{}, names[i.full]...)}
		rows = append(rows, row)
		table = append(table, []string{name, row.Digest.String(), strings.Join(row.Platforms, ","), output.BytesText(float64(size.bytes)), strings.Join(row.Names, ",")})
	}
	digests := slices.Collect(maps.Keys(c.manifests))
	for d := range c.blobs {
		digests = append(digests, d)
	}
	slices.Sort(digests)
	text, err := json.Marshal(map[string]any{"images": rows, "digests": slices.Compact(digests)})
	if err != nil {
		return fmt.Errorf("writing the list: %w", err)
	}
	return format.List(cmd, text, table, "The bundle has no images.")
}

// platform returns the platform of an image; "" for an artifact.
func (c *content) platform(m manifest, of *ocispec.Platform) string {
	if of == nil {
		of = &ocispec.Platform{}
		raw, err := c.document(*m.config)
		if err != nil || json.Unmarshal(raw, of) != nil {
			return ""
		}
	}
	if of.OS == "" || of.Architecture == "" || of.OS == "unknown" {
		return ""
	}
	if of.Variant != "" && (of.Architecture != "arm64" || of.Variant != "v8") {
		return of.OS + "/" + of.Architecture + "/" + of.Variant
	}
	return of.OS + "/" + of.Architecture
}

// verify computes the digests of all blobs. Those of manifests were verified when they were read.
func (c *content) verify(ctx context.Context, w io.Writer) error {
	var mu sync.Mutex
	var problems []error
	bad, left := 0, 0
	var bytes int64
	err := each(ctx, limits.BundleImages, c.blobsOf(), func(_ context.Context, d ocispec.Descriptor) error {
		err := c.verifyBlob(d)
		mu.Lock()
		defer mu.Unlock()
		switch {
		case err == nil:
			bytes += d.Size
		case errors.Is(err, errNoBlob) && c.leftOut[d.Digest]:
			left++
		default:
			if bad++; bad <= maxProblems {
				problems = append(problems, err)
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	if bad > 0 {
		return errors.Join(append(problems, fmt.Errorf("%d of %d blobs are damaged or missing; copy the bundle again, or repeat slipway bundle, after deleting the damaged files if it is a folder", bad, len(c.blobs)))...)
	}
	text := fmt.Sprintf("Verified %s and %s, %s", output.Count(len(c.manifests), "manifest"), output.Count(len(c.blobs)-left, "blob"), output.BytesText(float64(bytes)))
	if left > 0 {
		text += fmt.Sprintf("; %d blobs were left out with --have: give the earlier bundle, too", left)
	}
	_, err = fmt.Fprintln(w, text+".")
	return err
}

func (c *content) verifyBlob(d ocispec.Descriptor) error {
	f, err := c.open(d)
	if err != nil {
		return err
	}
	defer f.Close()
	got, err := digest.SHA256.FromReader(f)
	if err != nil {
		return fmt.Errorf("reading the blob %s: %w", d.Digest, err)
	}
	if got != d.Digest {
		return fmt.Errorf("the blob %s was changed: its digest is %s", d.Digest, got)
	}
	return nil
}

// readHave returns the digests of earlier bundles, each of which is a folder or its list.
func readHave(paths []string) (map[digest.Digest]bool, error) {
	out := map[digest.Digest]bool{}
	for _, path := range paths {
		digests, err := haveOf(path)
		if err != nil {
			return nil, fmt.Errorf("--have %s: %w", path, err)
		}
		for _, d := range digests {
			out[d] = true
		}
	}
	return out, nil
}

func haveOf(path string) ([]digest.Digest, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if info.Mode().IsRegular() && isJSON(path) {
		return haveOfList(path)
	}
	c, err := openContent([]string{path})
	if errors.Is(err, errNoTar) {
		err = fmt.Errorf("%w: %w", errNoList, err)
	}
	if err != nil {
		return nil, err
	}
	defer c.close()
	var out []digest.Digest
	for _, d := range c.blobsOf() {
		switch f, err := c.open(d); {
		case err == nil:
			_ = f.Close()
			out = append(out, d.Digest)
		case errors.Is(err, errNoBlob) && c.leftOut[d.Digest]: // the receiver had it before
			out = append(out, d.Digest)
		case !errors.Is(err, errNoBlob):
			return nil, err
		}
	}
	return out, nil
}

// isJSON reports whether a file begins like a list in JSON.
func isJSON(path string) bool {
	f, err := os.Open(path)
	if err != nil {
		return false // an error is that of the next read
	}
	defer f.Close()
	head := make([]byte, 512)
	n, err := io.ReadFull(f, head)
	return (err == nil || errors.Is(err, io.ErrUnexpectedEOF)) && bytes.HasPrefix(bytes.TrimSpace(head[:n]), []byte("{"))
}

func haveOfList(path string) ([]digest.Digest, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	raw, err := io.ReadAll(io.LimitReader(f, limits.BundleRecord+1))
	if err != nil {
		return nil, err
	}
	if len(raw) > limits.BundleRecord {
		return nil, fmt.Errorf("it is larger than %d bytes", limits.BundleRecord)
	}
	return parseHave(raw)
}

// errNoList is returned for a file that is neither a bundle nor its list.
var errNoList = errors.New("it is neither a bundle nor the output of slipway bundle list -o json")

// parseHave parses the list or the record of a bundle.
func parseHave(raw []byte) ([]digest.Digest, error) {
	var doc struct {
		Digests digestList `json:"digests"`
	}
	if err := json.Unmarshal(raw, &doc); err != nil || doc.Digests == nil {
		return nil, errNoList
	}
	return doc.Digests, nil
}

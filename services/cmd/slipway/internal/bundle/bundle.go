// Package bundle implements `slipway bundle`, which makes images available on machines without a
// network. It copies images from registries into an OCI image layout (copy.go, layout.go), and
// verifies (list.go), serves (serve.go) or pushes (load.go) what layouts contain. A layout is external
// input: its documents have bounds, and their digests are verified (content.go).
package bundle

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"github.com/spf13/cobra"

	"slipway.dev/services/cmd/slipway/internal/batch"
	"slipway.dev/services/cmd/slipway/internal/output"
	"slipway.dev/services/cmd/slipway/internal/session"
	"slipway.dev/services/cmd/slipway/internal/usage"
	"slipway.dev/services/internal/limits"
)

// flags are the flags of `slipway bundle`.
type flags struct {
	batch.Flags
	to    string
	have  []string
	plain []string
}

// Command returns `slipway bundle` with its subcommands.
func Command(s *session.Settings) *cobra.Command {
	var f flags
	cmd := &cobra.Command{
		Use:   "bundle INPUT... --to BUNDLE",
		Short: "Copy the images of a pipeline into a folder or file, for machines without a network",
		Long: `Copy the images of a pipeline into a folder or file, for machines without a network.

An INPUT is a file or folder as for slipway batch, a slipway.lock, or the name of an
image with a tag or digest. The containers are requested at the server, which builds
what does not exist, and their images are copied with all platforms and everything
that refers to them, such as signatures.

The bundle is an OCI image layout that has each blob once: a folder or, if its name ends
with .tar, one file. If the command is interrupted, the same command continues with the
blobs that are missing. A file is written at the end, from the folder NAME.tar.partial
and, if it exists, the earlier file, all of which need space until then. Images that the
bundle has from earlier runs stay. An image that fails does not affect the others, and
the exit code is 1.

With --sif, the server also makes a Singularity image of each image, for one platform.
That of quay.io/biocontainers/samtools:1.20 has the name
oras://quay.io/biocontainers/samtools:1.20.sif in the bundle.

With --have, blobs of an earlier bundle are left out: carry only the new bundle, and
give both to the commands on the other machine. --have takes the earlier bundle, or a file
with the output of slipway bundle list BUNDLE -o json.

The images are read with the logins of docker. Registries on this machine are read with
plain HTTP.`,
		Example: `  nextflow inspect -concretize -format json . | slipway bundle - --to pipeline
  slipway bundle slipway.lock --to pipeline
  slipway bundle envs/*.yml quay.io/biocontainers/samtools:1.20--h50ea8bc_0 --to pipeline
  slipway bundle slipway.lock --to update.tar --have pipeline.tar
  slipway bundle serve pipeline --nextflow-config offline.config`,
		Args: usage.AtLeast(1),
		RunE: s.WithClient(func(cmd *cobra.Command, c *session.Client, args []string) error { return f.run(cmd, s, c, args) }),
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
			return nil, cobra.ShellCompDirectiveDefault // files
		},
	}
	f.Add(cmd, s)
	f.Output.Of(map[string]any{"results": []row{}, "bytesCopied": 0, "bytesPresent": 0, "bytesLeftOut": 0})
	cmd.Flags().StringVar(&f.to, "to", "", "The `folder` or .tar file of the bundle, which is created if it does not exist.")
	cmd.Flags().BoolVar(&f.Sif, "sif", false, "Also copy a Singularity image of each image, which the server makes.")
	cmd.Flags().StringArrayVar(&f.have, "have", nil, "An earlier `bundle`, or its list, whose blobs are left out; may be repeated.")
	cmd.Flags().StringArrayVar(&f.plain, "plain-http", nil, "A `registry` to read with plain HTTP, e.g. registry.example.org:5000; may be repeated.")
	usage.CompleteFlag(cmd, "plain-http")
	cmd.AddCommand(list(), load(s), serve())
	return cmd
}

func (f *flags) run(cmd *cobra.Command, s *session.Settings, c *session.Client, inputs []string) error {
	if f.to == "" {
		return usage.Errorf("--to is missing: the folder or .tar file to write the bundle to")
	}
	have, err := readHave(f.have)
	if err != nil {
		return err
	}
	to, err := createTarget(f.to)
	if err != nil {
		return err
	}
	defer to.close()
	images, err := f.Images(cmd, s, c, inputs)
	if err != nil {
		return errors.Join(err, to.discard())
	}
	all := itemsOf(images)
	client := newClient(s.Version, registriesOf(all), func(name string) bool {
		return isLoopback(name) || slices.Contains(f.plain, name) || c.Base.Scheme == "http" && c.Base.Host == name
	})
	p := newProgress(cmd.ErrOrStderr(), f.IsLive(cmd, s), len(all))
	copies := newCopier(client, to, have, p)
	_ = each(context.WithoutCancel(cmd.Context()), limits.BundleImages, all, func(_ context.Context, i *item) error {
		i.copy(cmd.Context(), copies) // its error is that of one image
		return nil
	})
	failWithoutImage(all)
	choose(all)
	err = errors.Join(p.end(), to.end(cmd, finish(to, all, copies)), to.clean(), printResults(cmd, f.Output, all, p))
	failed := 0
	for _, i := range all {
		if i.err != nil {
			failed++
		}
	}
	if failed > 0 {
		err = errors.Join(err, fmt.Errorf("%d of %d images are not in the bundle; the same command continues", failed, len(all)))
	}
	return err
}

// An item is an image that is bundled.
type item struct {
	batch.Image
	from  name // to pull it by
	names []name
	root  ocispec.Descriptor
	err   error
	// of is the item that a Singularity image is made of; nil for other items, and if it is not known.
	of *item
}

// newItem returns an item with its names: that of the input, and that of the server. Both are without
// the token of a server, which is a secret of the person who makes the bundle.
func newItem(i batch.Image) *item {
	out := &item{Image: i, err: i.Err}
	if out.err != nil {
		return out
	}
	if out.from, out.err = parseName(i.Target); out.err != nil {
		return out
	}
	if i.Source != "" {
		n, err := parseName(i.Source)
		if err != nil {
			out.err = err
			return out
		}
		if i.IsSif && !strings.HasPrefix(i.Source, orasScheme) {
			n = n.sif()
		}
		if public := n.withoutToken(); public.full != n.full {
			out.Name = strings.ReplaceAll(out.Name, i.Source, public.full)
			n = public
		}
		out.names = append(out.names, n)
	}
	issued := out.from.withoutToken()
	if i.Source == "" || issued.full == out.from.full && issued.full != out.names[0].full {
		out.names = append(out.names, issued)
	}
	return out
}

// itemsOf returns the items of images and of their Singularity images.
func itemsOf(images []batch.Image) []*item {
	all := make([]*item, 0, len(images))
	for _, i := range images {
		one := newItem(i)
		all = append(all, one)
		if i.Sif != nil {
			all = append(all, newSif(*i.Sif, one))
		}
	}
	return all
}

// newSif returns the item of the Singularity image of another item. It has the names of that item with
// .sif, and also its own: that of the lock file, or the one that the server issued.
func newSif(i batch.Image, of *item) *item {
	i.IsSif = true
	if !strings.HasPrefix(i.Source, orasScheme) { // that of the image that it was made of
		i.Source = ""
	}
	out := newItem(i)
	out.of = of
	issued := out.names
	if out.Name, out.names = of.Name, nil; out.err != nil {
		return out
	}
	for _, n := range of.names {
		if n = n.sif(); n.tag != "" {
			out.names = append(out.names, n)
		}
	}
	out.names = append(out.names, issued...)
	return out
}

// failWithoutImage fails Singularity images whose images failed: those of an earlier run may be others.
func failWithoutImage(all []*item) {
	for _, i := range all {
		if i.err == nil && i.of != nil && i.of.err != nil {
			i.err = errors.New("the image that it is made of was not copied")
		}
	}
}

// request returns the request of an item for the record.
func (i *item) request() request {
	out := request{Name: i.Name, Process: i.IsProcess, Request: i.Request, Image: i.names[0].full, Digest: i.root.Digest, Lock: i.Lock, Format: i.format()}
	if i.of != nil {
		out.Of = i.of.root.Digest
	}
	return out
}

// format returns the format of an image for the record.
func (i *item) format() string {
	if i.IsSif {
		return formatSif
	}
	return ""
}

func registriesOf(all []*item) []string {
	var out []string
	for _, i := range all {
		if r := i.from.registry; r != "" && !slices.Contains(out, r) {
			out = append(out, r)
		}
	}
	return out
}

func (i *item) copy(ctx context.Context, c *copier) {
	if i.err == nil && ctx.Err() != nil {
		i.err = errors.New("interrupted")
	}
	if i.err == nil {
		if i.root, i.err = c.image(ctx, i.from); i.err != nil {
			i.err = fmt.Errorf("copying %s: %w", i.from.withoutToken().full, i.err)
		} else {
			i.err = i.Check(i.root.Digest.String())
		}
	}
	c.progress.count(func(p *progress) {
		if i.err != nil {
			p.failed++
		} else {
			p.images++
		}
	})
}

// choose gives images that share a name, e.g. because only one of them has added layers, names with
// their digests. The first image keeps the name.
func choose(all []*item) {
	owner := map[string]digest.Digest{}
	for _, i := range all {
		if i.err != nil {
			continue
		}
		for n, one := range i.names {
			if d, taken := owner[one.full]; taken && d != i.root.Digest || one.tag == "" {
				i.names[n] = one.byDigest(i.root.Digest.String())
			}
			owner[i.names[n].full] = i.root.Digest
		}
	}
}

// finish writes the record and the index, with what the folder had before.
func finish(to *layout, all []*item, c *copier) error {
	before, err := to.index()
	if err != nil {
		return err
	}
	referrers, leftOut := c.known()
	r := record{Created: time.Now().UTC().Format(time.RFC3339), Requests: []request{}, Names: map[string]digest.Digest{}, Locks: map[string]string{}}
	named := map[string]ocispec.Descriptor{}
	var stale []ocispec.Descriptor
	for _, d := range before.Manifests {
		switch full := d.Annotations[ocispec.AnnotationRefName]; {
		case d.ArtifactType == recordType:
			stale = append(stale, d)
		case full != "":
			named[full] = d
		default:
			referrers[d.Digest] = d
		}
	}
	problems := r.mergeAll(to, stale, all, leftOut)
	for _, i := range all {
		if i.err != nil {
			continue
		}
		for _, n := range i.names {
			if old, ok := named[n.full]; ok && old.Digest != i.root.Digest {
				r.keep(named, n, old)
			}
			named[n.full] = entryOf(i.root, n)
		}
		r.Requests = append(r.Requests, i.request())
		if i.Lock != "" {
			r.Locks[i.Lock] = i.LockText
		}
	}
	var entries []ocispec.Descriptor
	for full, d := range named {
		entries, r.Names[full] = append(entries, d), d.Digest
	}
	for _, d := range referrers {
		entries = append(entries, d)
	}
	slices.SortFunc(entries, func(a, b ocispec.Descriptor) int {
		return cmp.Or(cmp.Compare(a.Annotations[ocispec.AnnotationRefName], b.Annotations[ocispec.AnnotationRefName]), cmp.Compare(a.Digest, b.Digest))
	})
	if len(entries) == 0 {
		return errors.Join(problems...) // nothing was copied, and there was nothing before
	}
	return errors.Join(append(problems, r.finish(to, entries, stale, leftOut))...)
}

// entryOf returns the entry of the index for a name of an image.
func entryOf(root ocispec.Descriptor, n name) ocispec.Descriptor {
	root.Annotations = map[string]string{ocispec.AnnotationRefName: n.full}
	return root
}

// keep gives an image of an earlier run, whose name is now that of another image, the name with its
// digest.
func (r *record) keep(named map[string]ocispec.Descriptor, n name, old ocispec.Descriptor) {
	kept := n.byDigest(old.Digest.String())
	named[kept.full] = entryOf(old, kept)
	for i, one := range r.Requests {
		if one.Image == n.full && one.Digest == old.Digest {
			r.Requests[i].Image = kept.full
		}
	}
}

// mergeAll adds what earlier runs requested, and what they left out to leftOut.
func (r *record) mergeAll(to *layout, records []ocispec.Descriptor, all []*item, leftOut map[digest.Digest]bool) (problems []error) {
	for _, d := range records {
		old, err := readRecord(to, d)
		if err != nil {
			problems = append(problems, fmt.Errorf("what earlier runs requested is lost: %w", err))
			continue
		}
		r.merge(old, all)
		r.previous = &old
		for _, h := range old.Have {
			leftOut[h] = true
		}
	}
	return problems
}

// merge adds the requests of an earlier run that were not repeated, or failed now.
func (r *record) merge(old record, all []*item) {
	for _, one := range old.Requests {
		if !one.isReplaced(all) {
			r.Requests = append(r.Requests, one)
			if one.Lock != "" {
				r.Locks[one.Lock] = old.Locks[one.Lock]
			}
		}
	}
}

// isReplaced reports whether an item replaces a request of an earlier run. A process has one container, and other
// names, such as paths of files, may be those of another pipeline. The Singularity image of a process stays
// while its image stays.
func (r request) isReplaced(all []*item) bool {
	return slices.ContainsFunc(all, func(i *item) bool {
		switch {
		case i.err != nil || i.Name != r.Name:
			return false
		case i.format() == r.Format:
			return i.IsProcess || i.Request == r.Request
		}
		return i.IsProcess && r.Process && i.of == nil && (r.Of == "" || r.Of != i.root.Digest)
	})
}

// finish writes the record and the index, and deletes the records that they replace.
func (r record) finish(to *layout, entries, stale []ocispec.Descriptor, leftOut map[digest.Digest]bool) error {
	c := &content{folders: []*layout{to}, manifests: map[digest.Digest]manifest{}, blobs: map[digest.Digest]ocispec.Descriptor{}}
	var problems []error
	for _, d := range entries {
		if err := c.reach(d, 0); err != nil { // of an image of an earlier run
			problems = append(problems, fmt.Errorf("%s cannot be used; request it again: %w", cmp.Or(d.Annotations[ocispec.AnnotationRefName], d.Digest.String()), err))
		}
	}
	for d := range c.manifests {
		r.Digests = append(r.Digests, d)
	}
	for d, b := range c.blobs {
		r.Digests = append(r.Digests, d)
		if leftOut[d] && !to.has(b) {
			r.Have = append(r.Have, d)
		}
	}
	slices.Sort(r.Digests)
	slices.Sort(r.Have)
	r.keepTime()
	d, err := r.write(to)
	if err != nil {
		return fmt.Errorf("writing the record of the bundle: %w", err)
	}
	if err := to.writeIndex(append(entries, d)); err != nil {
		return err
	}
	if len(problems) > 0 {
		return errors.Join(problems...) // what the records that are replaced share with them is unknown
	}
	for _, s := range stale {
		if err := to.forget(s, d, c); err != nil {
			return fmt.Errorf("deleting the record of an earlier run: %w", err)
		}
	}
	return nil
}

// row is an image in JSON.
type row struct {
	Name string `json:"name"`
	// Images are the names of the image in the bundle.
	Images []string      `json:"images,omitempty"`
	Digest digest.Digest `json:"digest,omitempty"`
	// Status is "ready" or "failed".
	Status  string `json:"status"`
	Message string `json:"message,omitempty"`
}

// printResults prints the results, in the order of the inputs.
func printResults(cmd *cobra.Command, format *output.Format, all []*item, p *progress) error {
	rows, table := make([]row, 0, len(all)), output.Table{{"IMAGE", "STATUS", "NAME"}}
	var problems strings.Builder
	for _, i := range all {
		one := row{Name: i.Name, Digest: i.root.Digest, Status: "ready"}
		shown := "-"
		if i.err == nil {
			for _, n := range i.names {
				one.Images = append(one.Images, n.pullName(i.IsSif))
			}
			shown = one.Images[0]
		} else {
			one.Status, one.Message, one.Digest = "failed", i.err.Error(), ""
			fmt.Fprintf(&problems, "%s: %s\n", output.Printable(i.Name), output.PrintableLines(one.Message))
		}
		if i.err == nil && i.Note != "" {
			one.Message = i.Note
			fmt.Fprintf(&problems, "%s: %s\n", output.Printable(i.Name), output.Printable(i.Note))
		}
		rows, table = append(rows, one), append(table, []string{shown, one.Status, i.Name})
	}
	text, err := json.Marshal(map[string]any{"results": rows, "bytesCopied": p.copied, "bytesPresent": p.present, "bytesLeftOut": p.left})
	if err != nil {
		return fmt.Errorf("writing the results: %w", err)
	}
	if !format.IsDocument() {
		cmd.PrintErr(problems.String())
	}
	return format.Print(cmd.OutOrStdout(), text, table)
}

package bundle

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"github.com/regclient/regclient"
	"github.com/regclient/regclient/types/blob"
	regmanifest "github.com/regclient/regclient/types/manifest"
	"github.com/regclient/regclient/types/ref"
	"github.com/spf13/cobra"

	"slipway.dev/services/cmd/slipway/internal/output"
	"slipway.dev/services/cmd/slipway/internal/session"
	"slipway.dev/services/cmd/slipway/internal/usage"
	"slipway.dev/services/internal/limits"
)

// loadFlags are the flags of `slipway bundle load`.
type loadFlags struct {
	to, config string
	engine     engine
	plain      bool
	output     *output.Format
}

// load returns `slipway bundle load`.
func load(s *session.Settings) *cobra.Command {
	var f loadFlags
	cmd := &cobra.Command{
		Use:   "load BUNDLE... --to REPOSITORY",
		Short: "Push the images of a bundle to a registry",
		Long: `Push the images of a bundle to a registry, with all platforms and everything that
refers to them. The digests stay the same. The name of the copy of
quay.io/biocontainers/samtools:1.20 in registry.example.org/mirror is
registry.example.org/mirror/biocontainers/samtools:1.20. The names of the copies are
printed, in the order of slipway bundle list.

The logins of docker are used. What the registry has is not sent again, so that an
interrupted load continues. Registries on this machine are used with plain HTTP.`,
		Example: `  slipway bundle load pipeline --to registry.example.org/mirror
  slipway bundle load pipeline --to registry.example.org/mirror --nextflow-config mirror.config`,
		Args: usage.AtLeast(1),
		RunE: func(cmd *cobra.Command, args []string) error { return f.run(cmd, s, args) },
	}
	flags := cmd.Flags()
	flags.StringVar(&f.to, "to", "", "The `repository` to push to; the path of each image is added to it.")
	flags.StringVar(&f.config, "nextflow-config", "", "The `file` to write a configuration of Nextflow with the new names to; - for standard output, and the names to standard error.")
	flags.BoolVar(&f.plain, "plain-http", false, "Use plain HTTP for the registry (default: for registries on this machine).")
	f.engine.add(cmd)
	f.output = output.Flag(cmd, map[string]any{"images": []pushed{}})
	usage.CompleteFlag(cmd, "to")
	return cmd
}

// A push is the push of one image.
type push struct {
	image
	to  name
	err error
}

func (f *loadFlags) run(cmd *cobra.Command, s *session.Settings, folders []string) error {
	if f.to == "" {
		return usage.Errorf("--to is missing: the registry or repository to push to, e.g. --to registry.example.org/mirror")
	}
	to, err := repositoryOf(f.to)
	if err != nil {
		return err
	}
	if err := f.engine.check(f.config); err != nil {
		return err
	}
	if f.config == "-" && f.output.IsDocument() {
		return usage.Errorf("the names and the configuration of Nextflow would both be written to standard output; give --nextflow-config a file, or omit -o")
	}
	c, err := openContent(folders)
	if err != nil {
		return err
	}
	defer c.close()
	if err := c.complete(); err != nil {
		return fmt.Errorf("the bundle is not complete: %w", err)
	}
	all, err := c.pushes(to)
	if err != nil {
		return err
	}
	if len(all) == 0 {
		return errors.New("the bundle has no images")
	}
	registry := all[0].to.registry
	if !cmd.Flags().Changed("plain-http") {
		f.plain = isLoopback(registry)
	}
	if err := checkScheme(cmd.Context(), registry, f.plain); err != nil {
		return err
	}
	l := &loader{content: c, client: newClient(s.Version, []string{registry}, func(string) bool { return f.plain }), at: map[digest.Digest][]string{}}
	p := newProgress(cmd.ErrOrStderr(), s.IsLive(cmd.ErrOrStderr()), len(all))
	l.progress = p
	_ = each(context.WithoutCancel(cmd.Context()), limits.BundleImages, all, func(_ context.Context, one *push) error {
		one.err = l.image(cmd.Context(), one)
		p.count(func(p *progress) {
			if one.err != nil {
				p.failed++
			} else {
				p.images++
			}
		})
		return nil
	})
	return errors.Join(p.end(), f.print(cmd, c, all))
}

// repositoryOf checks a repository to push to. It begins with a registry: without one, the images
// would be pushed to Docker Hub.
func repositoryOf(to string) (string, error) {
	out := strings.TrimRight(strings.TrimPrefix(to, "docker://"), "/")
	registry, _, _ := strings.Cut(out, "/")
	if _, err := parseName(out + "/name:tag"); err != nil || registry != "localhost" && !strings.ContainsAny(registry, ".:") {
		return "", usage.Errorf("--to must be a registry and a path, e.g. registry.example.org/mirror, not %q", to)
	}
	return out, nil
}

// pushes returns the images with their new names.
func (c *content) pushes(to string) ([]*push, error) {
	_, at := c.repositories()
	var out []*push
	for _, i := range c.images {
		n, err := parseName(to + "/" + at[i.full])
		if err != nil {
			return nil, err
		}
		out = append(out, &push{image: i, to: n})
	}
	return out, nil
}

// pushed is an image that was pushed, in JSON.
type pushed struct {
	Image   string        `json:"image"`
	Target  string        `json:"target"`
	Digest  digest.Digest `json:"digest"`
	Message string        `json:"message,omitempty"`
}

// print prints the new names, and writes the configuration of Nextflow.
func (f *loadFlags) print(cmd *cobra.Command, c *content, all []*push) error {
	rows, table := make([]pushed, 0, len(all)), output.Table{}
	names := map[string]string{}
	var failed []error
	for _, one := range all {
		isSif := c.isSif(one.image)
		r := pushed{Image: one.pullName(isSif), Target: one.to.pullName(isSif), Digest: one.root.Digest}
		if one.err != nil {
			r.Message = one.err.Error()
			failed = append(failed, fmt.Errorf("pushing %s: %w", one.to.full, one.err))
		} else {
			names[one.full] = one.to.full
			table = append(table, []string{r.Target})
		}
		rows = append(rows, r)
	}
	text, err := json.Marshal(map[string]any{"images": rows})
	if err != nil {
		return fmt.Errorf("writing the results: %w", err)
	}
	w := cmd.OutOrStdout()
	if f.config == "-" {
		w = cmd.ErrOrStderr() // the configuration is written to standard output
	}
	errs := []error{f.output.Print(w, text, table)}
	switch {
	case f.config != "" && len(failed) > 0:
		errs = append(errs, errors.New("the configuration of Nextflow was not written, because it would not have all images"))
	case f.config != "":
		errs = append(errs, c.writeConfig(cmd, f.config, names, f.engine, f.plain))
	}
	if n := len(failed); n > maxProblems {
		failed = append(failed[:maxProblems], fmt.Errorf("%d images failed; the same command continues", n))
	}
	return errors.Join(append(errs, failed...)...)
}

// A loader pushes the images of a bundle to a registry. It is safe for concurrent use.
type loader struct {
	*content
	client   *regclient.RegClient
	progress *progress
	once     once

	mu   sync.Mutex
	at   map[digest.Digest][]string        // repositories that are known to have a blob
	done map[string]map[digest.Digest]bool // by repository: the manifests that are complete
}

// image pushes an image with all its platforms and what refers to any of its manifests.
func (l *loader) image(ctx context.Context, one *push) error {
	to, err := one.to.ref()
	if err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return errors.New("interrupted")
	}
	if err := l.push(ctx, to, l.manifests[one.root.Digest], true); err != nil { // each tag is pushed
		return err
	}
	seen := map[digest.Digest]bool{}
	for todo := []digest.Digest{one.root.Digest}; len(todo) > 0; {
		d := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		if seen[d] || l.complete(to.Repository, d) {
			continue
		}
		seen[d] = true
		if d != one.root.Digest {
			if err := l.manifest(ctx, to, d); err != nil {
				return err
			}
		}
		for _, child := range l.manifests[d].children {
			todo = append(todo, child.Digest)
		}
		for _, r := range l.referrers[d] {
			todo = append(todo, r.Digest)
		}
	}
	l.finished(to.Repository, seen)
	return nil
}

// manifest pushes a manifest without its tag, once to each repository. It waits for other calls that
// push the same manifest or its children. These calls cannot wait for each other, because a manifest
// has the digests of its children: none of them refers to it. What refers to a manifest is pushed
// later, because it can have that manifest as a child.
func (l *loader) manifest(ctx context.Context, to ref.Ref, d digest.Digest) error {
	m, ok := l.manifests[d]
	if !ok {
		return fmt.Errorf("the manifest %s is missing", d)
	}
	return l.once.do(ctx, to.Repository+"@"+d.String(), func() error { return l.push(ctx, to, m, false) })
}

// push pushes a manifest after its children and blobs. named states whether it gets the tag of to.
func (l *loader) push(ctx context.Context, to ref.Ref, m manifest, named bool) error {
	for _, child := range m.children {
		if err := l.manifest(ctx, to, child.Digest); err != nil {
			return err
		}
	}
	err := each(ctx, limits.BundleBlobs, m.blobs, func(ctx context.Context, b ocispec.Descriptor) error {
		return l.once.do(ctx, to.Repository+"/"+b.Digest.String(), func() error { return l.blob(ctx, to, b) })
	})
	if err != nil {
		return err
	}
	raw, err := l.document(m.Descriptor)
	if err != nil {
		return err
	}
	doc, err := regmanifest.New(regmanifest.WithRaw(raw), regmanifest.WithDesc(toClient(m.Descriptor)))
	if err != nil {
		return fmt.Errorf("the manifest %s: %w", m.Digest, err)
	}
	at, opts := to, []regclient.ManifestOpts(nil)
	if !named {
		at, opts = to.SetDigest(m.Digest.String()), []regclient.ManifestOpts{regclient.WithManifestChild()}
	}
	return l.client.ManifestPut(ctx, at, doc, opts...)
}

// complete reports whether a manifest was pushed to a repository with what refers to it.
func (l *loader) complete(repo string, d digest.Digest) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.done[repo][d]
}

// finished records manifests that are complete.
func (l *loader) finished(repo string, all map[digest.Digest]bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.done == nil {
		l.done = map[string]map[digest.Digest]bool{}
	}
	if l.done[repo] == nil {
		l.done[repo] = map[digest.Digest]bool{}
	}
	maps.Copy(l.done[repo], all)
}

// blob pushes a blob, unless the repository has it or the registry can mount it from another one.
func (l *loader) blob(ctx context.Context, to ref.Ref, d ocispec.Descriptor) error {
	if _, err := l.client.BlobHead(ctx, to, toClient(d)); err == nil {
		l.progress.count(func(p *progress) { p.present += d.Size })
		l.found(d.Digest, to.Repository)
		return nil
	}
	for _, repo := range l.repositoriesOf(d.Digest) {
		from := to
		from.Repository = repo
		if err := l.client.BlobMount(ctx, from, to, toClient(d)); err == nil {
			l.progress.count(func(p *progress) { p.present += d.Size })
			l.found(d.Digest, to.Repository)
			return nil
		}
	}
	f, err := l.open(d)
	if err != nil {
		return err
	}
	defer f.Close()
	sent := &sending{blobFile: f, progress: l.progress}
	// The reader fails if the digest of what was sent differs.
	if _, err := l.client.BlobPut(ctx, to, toClient(d), blob.NewReader(blob.WithReader(sent), blob.WithDesc(toClient(d)))); err != nil {
		l.progress.count(func(p *progress) { p.copied -= sent.at })
		return fmt.Errorf("the blob %s: %w", d.Digest, err)
	}
	l.found(d.Digest, to.Repository)
	return nil
}

// A sending is a blob that is pushed. It counts the bytes that are read; a retry reads them again.
type sending struct {
	blobFile
	progress *progress
	at       int64
}

// Read reads from the blob.
func (s *sending) Read(b []byte) (int, error) {
	n, err := s.blobFile.Read(b)
	s.moved(s.at + int64(n))
	return n, err //nolint:wrapcheck // it may be io.EOF
}

// Seek sets the offset of the next Read.
func (s *sending) Seek(offset int64, whence int) (int64, error) {
	at, err := s.blobFile.Seek(offset, whence)
	if err != nil {
		return at, fmt.Errorf("reading the blob again: %w", err)
	}
	s.moved(at)
	return at, nil
}

func (s *sending) moved(to int64) {
	s.progress.count(func(p *progress) { p.copied += to - s.at })
	s.at = to
}

func (l *loader) found(d digest.Digest, repo string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !slices.Contains(l.at[d], repo) && len(l.at[d]) < 3 {
		l.at[d] = append(l.at[d], repo)
	}
}

func (l *loader) repositoriesOf(d digest.Digest) []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.at[d])
}

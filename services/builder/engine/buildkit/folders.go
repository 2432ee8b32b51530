package buildkit

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"

	buildv1 "slipway.dev/proto/gen/slipway/build/v1"
	"slipway.dev/services/builder/jobs"
	"slipway.dev/services/builder/remote"
	"slipway.dev/services/internal/fault"
)

// folders are a build's folders on this machine while it runs.
type folders struct{ root, dockerfile, context, cache string }

func (f *folders) remove() { _ = os.RemoveAll(f.root) }

// prepare writes the Dockerfile and the context. The caller removes the folders.
func (b *Engine) prepare(ctx context.Context, job jobs.Job) (*folders, error) {
	if b.o.Dir != "" {
		if err := os.MkdirAll(b.o.Dir, 0o700); err != nil {
			return nil, err
		}
	}
	root, err := os.MkdirTemp(b.o.Dir, "build-")
	if err != nil {
		return nil, fmt.Errorf("making a folder for the build: %w", err)
	}
	f := &folders{root: root, dockerfile: filepath.Join(root, "dockerfile"), context: filepath.Join(root, "context"), cache: filepath.Join(root, "cache")}
	if err := b.fill(ctx, job, f); err != nil {
		f.remove()
		return nil, err
	}
	return f, nil
}

func (b *Engine) fill(ctx context.Context, job jobs.Job, f *folders) error {
	for _, dir := range []string{f.dockerfile, f.context, f.cache} {
		if err := os.Mkdir(dir, 0o700); err != nil {
			return err
		}
	}
	// The Dockerfile has its own folder, since a context may contain another one.
	if err := os.WriteFile(filepath.Join(f.dockerfile, "Dockerfile"), []byte(job.Recipe.GetContainerFile()), 0o600); err != nil {
		return err
	}
	if job.Recipe.GetContext() != nil {
		if err := b.unpackContext(ctx, job, f.context); err != nil {
			return err
		}
	}
	return writeFiles(f.context, job.Recipe.GetFiles())
}

// writeFiles writes the recipe's own files over those of the context.
func writeFiles(dir string, files []*buildv1.File) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }()
	for _, file := range files {
		path, err := inside(file.GetPath())
		if err == nil {
			err = root.MkdirAll(filepath.Dir(path), 0o755)
		}
		if err == nil {
			err = root.WriteFile(path, file.GetContent(), 0o644)
		}
		if err != nil {
			return jobs.Build.Failure(fmt.Sprintf("The file %q cannot be put into the build context", fault.Clip(file.GetPath(), jobs.TextBytes)), err)
		}
	}
	return nil
}

// unpackContext fetches the context, verifies it and unpacks it.
func (b *Engine) unpackContext(ctx context.Context, job jobs.Job, dir string) error {
	l := job.Recipe.GetContext()
	var body io.ReadCloser
	var err error
	if remote.IsURL(l.GetLocation()) {
		body, err = b.o.Download(ctx, "The build context", l.GetLocation())
	} else {
		body, err = b.received(ctx, job)
	}
	if err != nil {
		return fmt.Errorf("getting the build context: %w", err)
	}
	defer body.Close()
	in, err := remote.NewVerifier(body, l.GetGzipDigest(), l.GetGzipSize())
	if err != nil {
		return jobs.Build.Failure("The build context's digest is malformed", err)
	}
	if err = unpack(in, dir, contextLimits()); err == nil {
		err = in.Verify()
	}
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return err
	default:
		return jobs.Build.Failure("The build context cannot be used: "+fault.Clip(err.Error(), jobs.TextBytes), err)
	}
}

// received streams a context that came with the request.
func (b *Engine) received(ctx context.Context, job jobs.Job) (io.ReadCloser, error) {
	ctx, cancel := context.WithCancel(ctx)
	stream, err := b.o.Work.GetContext(ctx, &buildv1.GetContextRequest{Ticket: job.Ticket})
	if err != nil {
		cancel()
		return nil, err
	}
	return remote.Chunked(stream.Recv, cancel), nil
}

package buildkit

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/containerd/containerd/v2/core/content"
	"github.com/moby/buildkit/client"
	"github.com/moby/buildkit/exporter/containerimage/exptypes"
	"github.com/moby/buildkit/session"
	sessioncontent "github.com/moby/buildkit/session/content"
	"github.com/moby/buildkit/sourcepolicy/policysession"
	"github.com/tonistiigi/fsutil"
	"github.com/tonistiigi/fsutil/types"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"slipway.dev/services/builder/daemon/step"
	"slipway.dev/services/builder/jobs"
	bounds "slipway.dev/services/internal/limits"
	"slipway.dev/services/internal/retry"
)

// Build builds a job's Dockerfile and pushes the image.
func (b *Engine) Build(ctx context.Context, job jobs.Job, out jobs.Output) (string, error) {
	if err := b.canComplete(job.Recipe); err != nil {
		return "", err
	}
	dirs, err := b.prepare(ctx, job)
	if err != nil {
		return "", err
	}
	defer dirs.remove()
	digest, err := b.try(ctx, job, dirs, out)
	for n := 2; n <= bounds.BuildLosses && isDaemonLost(err) && ctx.Err() == nil; n++ {
		b.o.Log.Warn("The connection to the BuildKit daemon was lost during a build; trying again", "build_id", job.ID, "try", n, "err", err)
		out.Print("", "The connection to the build service's daemon was lost; starting over")
		if n == bounds.BuildLosses {
			// One of several concurrent builds may have caused the daemon's end, so each is
			// retried alone.
			select {
			case b.exclusive <- struct{}{}:
				defer func() { <-b.exclusive }()
			case <-ctx.Done():
				return "", err
			}
		}
		if !b.back(ctx, architecture(job.Recipe.GetPlatform())) {
			return "", err
		}
		digest, err = b.try(ctx, job, dirs, out)
	}
	return digest, err
}

// isDaemonLost reports whether the daemon ended during the build.
func isDaemonLost(err error) bool {
	var f *jobs.Failure
	return errors.As(err, &f) && f.Reason == jobs.Internal && status.Code(errors.Unwrap(f)) == codes.Unavailable
}

// back waits until a daemon responds again.
func (b *Engine) back(ctx context.Context, arch string) bool {
	for range 60 {
		if !retry.Sleep(ctx, 500*time.Millisecond) {
			return false
		}
		if _, c, err := b.choose("", arch); err == nil {
			if _, err := listWorkers(ctx, c); err == nil {
				return true
			}
		}
	}
	return false
}

// try runs the build once.
func (b *Engine) try(ctx context.Context, job jobs.Job, dirs *folders, out jobs.Output) (string, error) {
	name, c, err := b.choose(job.CacheScope, architecture(job.Recipe.GetPlatform()))
	if err != nil {
		return "", jobs.Internal.Failure("The build service's daemon is unavailable", status.Error(codes.Unavailable, err.Error()))
	}
	share := b.share(name, short(job.CacheScope))
	defer share.Release()
	ctx, end := b.withinDisk(ctx, name, c)
	defer end()
	l := b.o.Logins(job)
	from := newSources(b.o.Registries, l, job)
	if from.policy, err = b.o.Policy.ForImages(job.Rules); err != nil {
		return "", jobs.Internal.Failure("The rules of the operator cannot be applied on this worker: update slipwayd there", err)
	}
	keys, err := newKeyring(job, l, b.o.Registries, from)
	if err != nil {
		return "", err
	}
	opt, err := b.options(job, dirs, keys, share)
	if err != nil {
		return "", err
	}
	stores := map[string]content.Store{} // read by the daemon through the session, which accepts only one set
	if err := keys.addCache(ctx, &opt, stores, job, dirs.cache, out); err != nil {
		return "", err
	}
	if err := b.addSifBases(ctx, &opt, stores, job, from, dirs.root, out); err != nil {
		return "", err
	}
	if len(stores) > 0 {
		opt.Session = append(opt.Session, sessioncontent.NewAttachable(stores))
	}
	p := newProgress(out, l.Redact)
	updates := make(chan *client.SolveStatus)
	printed := make(chan struct{})
	go func() { p.follow(updates); close(printed) }()
	r, err := solve(ctx, c, opt, updates, share.Kill)
	if errors.Is(err, errStuck) {
		return "", err // its output is still being read
	}
	<-printed
	if err != nil {
		return "", from.explainFailure(p.failure(ctx, err, share.OutOfMemory), p.redact)
	}
	digest := r.ExporterResponse[exptypes.ExporterImageDigestKey]
	if digest == "" {
		return "", jobs.Internal.Failure("The build service's daemon did not return the image's digest", nil)
	}
	reportCache(job, r.ExporterResponse, len(opt.CacheExports) > 0, out)
	job.HasRead(from.inputs(ctx, b.o.Deps))
	if !isIncomplete(job) {
		return digest, nil
	}
	return b.complete(ctx, job, l, digest, out)
}

// errStuck is returned if the daemon does not end a cancelled build.
var errStuck = errors.New("the BuildKit daemon does not end a cancelled build")

// killDelay is how long a daemon may take to end a cancelled build before its steps are killed,
// and then again before solve returns anyway.
const killDelay = 15 * time.Second

// solve runs a build on a daemon. It returns soon after ctx has ended, whatever the daemon
// does.
func solve(ctx context.Context, c *client.Client, opt client.SolveOpt, updates chan *client.SolveStatus, kill func()) (*client.SolveResponse, error) {
	type solved struct {
		response *client.SolveResponse
		err      error
	}
	done := make(chan solved, 1) // it may end when there is no receiver any more
	go func() {
		r, err := c.Solve(ctx, nil, opt, updates)
		done <- solved{r, err}
	}()
	select {
	case s := <-done:
		return s.response, s.err
	case <-ctx.Done():
	}
	for range 2 {
		select {
		case s := <-done:
			return s.response, s.err
		case <-time.After(killDelay):
			if kill != nil {
				kill()
			}
		}
	}
	return nil, errStuck
}

// options returns the options of a build, without entitlements and external frontends.
func (b *Engine) options(job jobs.Job, dirs *folders, keys *keyring, share step.Share) (client.SolveOpt, error) {
	dockerfile, err := stamped(dirs.dockerfile)
	if err != nil {
		return client.SolveOpt{}, err
	}
	files, err := rootOwned(dirs.context)
	if err != nil {
		return client.SolveOpt{}, err
	}
	return client.SolveOpt{
		Frontend:             "dockerfile.v0",
		FrontendAttrs:        attributes(job, share),
		LocalMounts:          map[string]fsutil.FS{"dockerfile": dockerfile, "context": files},
		SharedKey:            sharedKey(job),
		Session:              []session.Attachable{keys},
		SourcePolicyProvider: policysession.NewPolicyProvider(keys.sources.decide),
		Exports:              []client.ExportEntry{{Type: client.ExporterImage, Attrs: exported(job)}},
	}, nil
}

// sharedKey identifies the builds that share uploaded folders. The daemon reuses files of
// the same name, size and time from the last folder with the same key, so folders must
// never be shared with another user's builds. Without a context only the Dockerfile is
// uploaded. Its time is derived from its content, so its folder can be shared within the
// cache scope. Files of a context may have the same name, size and time as other files, so
// each attempt of such a build has its own key.
func sharedKey(job jobs.Job) string {
	if job.Recipe.GetContext() == nil && len(job.Recipe.GetFiles()) == 0 {
		return job.CacheScope
	}
	return fmt.Sprintf("%s.%d", job.ID, job.Delivery)
}

// exported returns the attributes of the push: by name, or by digest if the image is not
// complete yet.
func exported(job jobs.Job) map[string]string {
	a := map[string]string{
		"name":                                  job.Image(),
		"push":                                  "true",
		"oci-mediatypes":                        "true",
		"annotation.dev.slipway.build-id":       job.ID,
		"annotation.dev.slipway.content-digest": job.ContentDigest,
		"annotation-index.dev.slipway.build-id": job.ID,
		"annotation-index.dev.slipway.content-digest": job.ContentDigest,
	}
	if isIncomplete(job) {
		a["name"], a["push-by-digest"] = job.RepositoryName(), "true"
	}
	return compress(a, job.Recipe.GetCompression())
}

// rootOwned returns a folder whose files belong to root, whatever this process's user is.
func rootOwned(dir string) (fsutil.FS, error) {
	fs, err := fsutil.NewFS(dir)
	if err != nil {
		return nil, err
	}
	return fsutil.NewFilterFS(fs, &fsutil.FilterOpt{Map: func(_ string, st *types.Stat) fsutil.MapResult {
		st.Uid, st.Gid = 0, 0
		return fsutil.MapResultKeep
	}})
}

// stamped is rootOwned with times derived from the files' contents, so that files of
// different content never look the same.
func stamped(dir string) (fsutil.FS, error) {
	fs, err := rootOwned(dir)
	if err != nil {
		return nil, err
	}
	return fsutil.NewFilterFS(fs, &fsutil.FilterOpt{Map: func(path string, st *types.Stat) fsutil.MapResult {
		content, err := os.ReadFile(filepath.Join(dir, path))
		if err != nil {
			return fsutil.MapResultKeep // a folder
		}
		sum := sha256.Sum256(content)
		st.ModTime = int64(binary.BigEndian.Uint64(sum[:]) >> 2)
		return fsutil.MapResultKeep
	}})
}

func attributes(job jobs.Job, share step.Share) map[string]string {
	a := map[string]string{
		"filename": "Dockerfile",
		"platform": job.Recipe.GetPlatform(),
		// Always an index: the daemon omits the provenance of an empty image, and with it
		// the index that has our annotations.
		"multi-platform": "true",
		// A `# syntax=` line would make the daemon run an arbitrary image.
		"cmdline":                           "builtin",
		"attest:provenance":                 "mode=max",
		"build-arg:BUILDKIT_CACHE_MOUNT_NS": short(job.CacheScope), // hashed, since the provenance contains it
	}
	if isIncomplete(job) {
		delete(a, "attest:provenance") // it would describe another image than the pushed one
	}
	if share.Token == "" {
		return a
	}
	a["cgroup-parent"], a["build-arg:ALL_PROXY"] = share.Scope, share.Token
	for _, k := range []string{"http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"} {
		a["build-arg:"+k] = "http://" + step.Proxy
	}
	for _, k := range []string{"no_proxy", "NO_PROXY"} {
		a["build-arg:"+k] = "localhost,127.0.0.1,::1"
	}
	return a
}

// short returns a hash of a text, 16 hex digits.
func short(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:8])
}

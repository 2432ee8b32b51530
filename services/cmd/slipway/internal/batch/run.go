package batch

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	buildv1 "slipway.dev/proto/gen/slipway/build/v1"
	containerv1 "slipway.dev/proto/gen/slipway/container/v1"
	"slipway.dev/services/client"
	"slipway.dev/services/cmd/slipway/internal/session"
)

const (
	// callBytes is the maximum size of the requests of one call: less than that of a body.
	callBytes = 24_000_000
	// maxRounds is how often requests that the server did not get to are repeated.
	maxRounds = 20
	// concurrency is how many containers are followed or described concurrently.
	concurrency = 16
	// outOfTime is the code of a request that the server did not get to.
	outOfTime = "server.timeout"
)

// A container is one requested container with its result.
type container struct {
	name      string
	isProcess bool                          // whether the name is that of a process of Nextflow
	fromLock  bool                          // whether a lock file records it
	request   *containerv1.ContainerRequest // as the inputs and flags describe it
	sent      *containerv1.ContainerRequest // with what the lock file records
	locked    locked                        // of the lock file
	record    locked                        // of the lock file, and then of this run
	text      string                        // the lock of its packages
	result    *containerv1.ContainerResult
	isInput   bool   // whether an input is that lock file itself
	note      string // what differs from the lock file, or could not be read
	pending   bool   // whether its build has not ended
	waited    bool   // whether --await ended before its build
}

// fail records the error of a container. The code is "" for an error that no server responded with.
func (c *container) fail(code string, err error) {
	c.result = &containerv1.ContainerResult{Response: c.result.GetResponse(), Message: proto.String(err.Error()), Code: proto.String(code)}
}

// isSif reports whether the container is a Singularity image.
func (c *container) isSif() bool { return isSif(c.request) }

func (c *container) failed() bool { return c.result.GetMessage() != "" }

// A run requests containers.
type run struct {
	c        *session.Client
	progress *progress
	all      []*container
	// direct is set if existing Singularity images are not requested, but read from their registries.
	direct bool
}

func newRun(c *session.Client, p *progress) *run { return &run{c: c, progress: p} }

// request adds the containers of all entries and requests them.
func (r *run) request(ctx context.Context, entries []entry, defaults *containerv1.ContainerRequest, used lockFile) {
	for _, e := range entries {
		r.add(e, withDefaults(e.request, defaults), used)
	}
	r.submit(ctx)
}

// add adds a container, with what the lock file records if its request has not changed.
func (r *run) add(e entry, request *containerv1.ContainerRequest, old lockFile) {
	one := &container{name: e.name, isProcess: e.isProcess, request: request, sent: request}
	if e.record != nil {
		one.record, one.text, one.fromLock = *e.record, e.text, true
		one.isInput = true
		if e.err == nil && hasPackages(request) && optionsDigest(request) != e.record.Options {
			e.err = errOptions
		}
	} else if c, ok := old.find(e.name, request); ok {
		c.Process = e.isProcess
		one.record, one.sent, one.text, one.fromLock = c, old.apply(c, request), old.Locks[c.Lock], true
	}
	one.locked = one.record
	if e.err == nil && r.direct {
		if e.err = one.direct(); one.result != nil {
			r.progress.count(func(p *progress) { p.requested++ })
		}
	}
	if e.err != nil {
		one.fail("", e.err)
		r.progress.count(func(p *progress) { p.failed++ })
	}
	r.all = append(r.all, one)
}

// submit makes all requests. If a call fails, the containers without a result fail.
func (r *run) submit(ctx context.Context) {
	todo := withoutResult(r.all)
	for round := 0; len(todo) > 0; round++ {
		for rest := todo; len(rest) > 0; {
			n := callLength(rest)
			if err := r.call(ctx, rest[:n], round+1 < maxRounds); err != nil {
				r.giveUp(fmt.Errorf("requesting the containers: %w", err))
				return
			}
			rest = rest[n:]
		}
		todo = withoutResult(todo)
	}
}

func withoutResult(list []*container) []*container {
	return slices.DeleteFunc(slices.Clone(list), func(c *container) bool { return c.result != nil })
}

// giveUp records the error of a call. The results of earlier calls stay.
func (r *run) giveUp(err error) {
	code := ""
	if no, ok := errors.AsType[*client.Error](err); ok && no != nil {
		code = no.Code
	}
	for _, c := range withoutResult(r.all) {
		c.fail(code, err)
		r.progress.count(func(p *progress) { p.failed++ })
	}
}

// callLength returns how many containers are requested in the next call.
func callLength(rest []*container) int {
	size := 0
	for n, c := range rest {
		size += proto.Size(c.sent)
		if n > 0 && size > callBytes || n == client.MaxRequests {
			return n
		}
	}
	return len(rest)
}

// call makes the requests of some containers. If again is set, the results of requests that the
// server did not get to are left out.
func (r *run) call(ctx context.Context, some []*container, again bool) error {
	requests := make([]*containerv1.ContainerRequest, 0, len(some))
	for _, c := range some {
		requests = append(requests, c.sent)
	}
	return r.c.SubmitMany(ctx, requests, func(result *containerv1.ContainerResult) error {
		if result.GetCode() == outOfTime && again {
			return nil
		}
		some[result.GetIndex()].result = result
		r.progress.count(func(p *progress) {
			p.requested++
			if result.GetMessage() != "" {
				p.failed++
			}
		})
		return nil
	})
}

// finish waits for the builds if await is set, and calls look for each container that has not failed,
// unless it is nil. Errors are those of single containers.
func (r *run) finish(ctx context.Context, await bool, look func(context.Context, *container)) {
	todo := make(chan *container, len(r.all))
	for _, c := range r.all {
		if c.failed() {
			continue
		}
		if c.record.Request == "" {
			c.record = r.known(c)
		}
		if c.pending = !c.result.GetResponse().GetSucceeded(); c.pending && await {
			r.progress.count(func(p *progress) { p.wait++ })
		}
		todo <- c
	}
	close(todo)
	var running sync.WaitGroup
	for range concurrency {
		running.Go(func() {
			for c := range todo {
				r.finishOne(ctx, c, await, look)
			}
		})
	}
	running.Wait()
}

func (r *run) finishOne(ctx context.Context, c *container, await bool, look func(context.Context, *container)) {
	if await && c.pending {
		r.await(ctx, c)
	}
	if look != nil && !c.failed() && ctx.Err() == nil {
		look(ctx, c)
	}
}

// await waits for the build of a container.
func (r *run) await(ctx context.Context, c *container) {
	res := c.result.GetResponse()
	err := r.c.Wait(ctx, res.GetRequestId(), res.GetBuildId(), client.Watch{})
	if failed, ok := errors.AsType[*client.BuildError](err); ok && failed != nil {
		c.pending = false
		c.fail("build.failed", err)
		r.progress.count(func(p *progress) { p.made, p.failed = p.made+1, p.failed+1 })
		return
	}
	if err != nil { // interrupted: the build continues
		c.waited, c.note = true, "the wait ended before the build: "+err.Error()
		return
	}
	c.pending = false
	r.progress.count(func(p *progress) { p.made++ })
}

// describe looks up the digest and the lock of a container, and compares its image with that of the
// lock file. An image of a lock has the same packages even if another version of the server
// describes them differently in it.
func (r *run) describe(ctx context.Context, c *container) {
	now, text, err := r.recordOf(ctx, c)
	differs := err == nil && c.record.Digest != "" && now.Digest != "" && now.Digest != c.record.Digest
	switch {
	case err != nil: // the name can be used
		c.note = "what the lock file records could not be read: " + err.Error()
	case differs && c.request.GetContainerImage() != "":
		c.fail("lock.differs", fmt.Errorf("the image is %s, and the lock file has %s; --update accepts the new one", now.Digest, c.record.Digest))
		r.progress.count(func(p *progress) { p.failed++ })
	default:
		if differs {
			c.note = differing(now.Digest, c.record)
		}
		if c.isUnlockable() {
			c.note = strings.TrimPrefix(c.note+"; "+unlockableNote, "; ")
			now.Lock, text = "", ""
		}
		// The record of the lock file is kept: its image was requested by digest.
		now.Digest, now.Image = cmp.Or(now.Digest, c.record.Digest), cmp.Or(c.record.Image, now.Image)
		if now.Lock == "" || c.record.Lock != "" { // an image of a lock keeps the lock that it was made from
			now.Lock, text = c.record.Lock, c.text
		}
		c.record, c.text = now, text
	}
}

// lockOf looks up the lock of the packages of a container, unless the lock file has it.
func (r *run) lockOf(ctx context.Context, c *container) {
	if c.record.Lock != "" || c.pending {
		return
	}
	if c.isUnlockable() {
		c.note = unlockableNote
		return
	}
	text, err := r.packagesOf(ctx, c.result.GetResponse().GetBuildId())
	if err != nil {
		c.note = "the lock of its packages could not be read, and the record of the bundle lacks it: " + err.Error()
		return
	}
	if text != "" {
		c.record.Lock, c.text = digestOf([]byte(text)), text
	}
}

// unlockableNote is the note of a container whose packages are not all in a lock.
const unlockableNote = "its packages of PyPI or CRAN, or its variables, cannot be in the lock file and are solved again in each run"

func (c *container) isUnlockable() bool { return hasPackages(c.request) && !isLockable(c.request) }

// differing returns the note of a container whose image is not the recorded one.
func differing(digest string, record locked) string {
	note := fmt.Sprintf("the image is %s instead of %s", digest, record.Digest)
	if record.Lock != "" {
		note += ", with the packages of the lock file"
	}
	return note
}

// adds reports whether a request adds something to its image when the image is pulled. Images with a
// permanent name contain what was added.
func (c *container) adds() bool {
	res := c.result.GetResponse()
	return (proto.Size(c.request.GetContainerConfig()) > 0 || len(c.request.GetContainerIncludes()) > 0) && !res.GetFreeze() && !res.GetMirror()
}

// known returns what is known of a container from the response to its request.
func (r *run) known(c *container) locked {
	return locked{
		Name: c.name, Request: requestDigest(c.request), Image: c.result.GetResponse().GetContainerImage(),
		Process: c.isProcess, Options: optionsDigest(c.request), Added: c.adds(), Format: c.format(),
	}
}

// recordOf returns the record of a container and the lock of its packages, as far as both are
// known.
func (r *run) recordOf(ctx context.Context, c *container) (now locked, text string, err error) {
	res := c.result.GetResponse()
	now = r.known(c)
	if res.GetBuildId() == "" {
		var about containerv1.DescribeContainerResponse
		if _, err := r.c.Do(ctx, session.Call{Method: http.MethodGet, Path: "/v1alpha2/container/" + cmp.Or(res.GetContainerToken(), res.GetRequestId()), Signed: true}, &about); err != nil {
			return now, "", err
		}
		if len(about.GetDigests()) > 0 {
			now.Digest = about.GetDigests()[0]
		}
		return now, "", nil
	}
	var build buildv1.Build
	if _, err := r.c.Do(ctx, session.Call{Method: http.MethodGet, Path: "/v1alpha1/builds/" + res.GetBuildId(), Signed: true}, &build); err != nil {
		return now, "", err
	}
	now.Digest = build.GetDigest()
	if text, err = r.packagesOf(ctx, res.GetBuildId()); err == nil && text != "" {
		now.Lock = digestOf([]byte(text))
	}
	return now, text, err
}

// packagesOf returns the lock of the packages of a build. It is "" if the build has no Conda packages,
// or is not solved yet.
func (r *run) packagesOf(ctx context.Context, build string) (string, error) {
	if build == "" {
		return "", nil
	}
	raw, err := r.c.BuildLockFile(ctx, build, "pixi")
	if no, ok := errors.AsType[*session.Refused](err); ok && no.Status == http.StatusNotFound {
		return "", nil
	}
	return string(raw), err
}

// lock returns the lock file of the run. Containers that failed, and those of other runs, keep their
// record.
func (r *run) lock(old lockFile) lockFile {
	out := lockFile{Version: lockVersion, Containers: []locked{}, Locks: map[string]string{}}
	type key struct {
		name  string
		isSif bool
	}
	names, requests := map[key]bool{}, map[[2]string]bool{}
	for _, c := range r.all {
		names[key{c.name, c.isSif()}] = true
		requests[[2]string{c.name, requestDigest(c.request)}] = true
	}
	for _, c := range old.Containers {
		// Earlier versions did not record the format.
		if !names[key{c.Name, c.isSif()}] && !requests[[2]string{c.Name, c.Request}] {
			out.Containers = append(out.Containers, c)
			if c.Lock != "" {
				out.Locks[c.Lock] = old.Locks[c.Lock]
			}
		}
	}
	for _, c := range r.all {
		record, text := c.record, c.text
		if c.failed() {
			var ok bool
			if record, ok = old.find(c.name, c.request); !ok {
				continue
			}
			record.Process, text = c.isProcess, old.Locks[record.Lock]
		}
		if record.Lock != "" {
			out.Locks[record.Lock] = text
		}
		out.Containers = append(out.Containers, record)
	}
	slices.SortFunc(out.Containers, locked.compare)
	return out
}

// incomplete returns how many containers failed, and for how many the wait ended before the build.
func (r *run) incomplete() (failed, building int) {
	for _, c := range r.all {
		switch {
		case c.failed():
			failed++
		case c.waited:
			building++
		}
	}
	return failed, building
}

// raw returns a message as JSON.
func raw(m proto.Message) (json.RawMessage, error) {
	text, err := protojson.Marshal(m)
	if err != nil {
		return nil, fmt.Errorf("writing the result: %w", err)
	}
	return text, nil
}

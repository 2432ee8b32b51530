package layering

import (
	"context"
	"crypto/md5" //nolint:gosec // old channels have nothing better
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"slipway.dev/services/conda/spec"
	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/limits"
)

// Fetcher fetches artifacts from channels. It is safe for concurrent use.
type Fetcher struct {
	// Client restricts the addresses that are reached, and follows redirects.
	Client *http.Client
	// Authorize adds the login of a channel; nil if no channel requires one.
	Authorize func(*http.Request)
	// Stored opens a copy of an artifact with a SHA-256 that is stored elsewhere, which is used before the
	// channel; an error means that there is none. nil for none at all.
	Stored func(ctx context.Context, rec spec.Record) (io.ReadCloser, error)
	// Wait pauses between attempts until ctx ends; nil waits for the given time.
	Wait func(ctx context.Context, d time.Duration) error
	// Dir is the folder for open artifacts; "" is the system's.
	Dir string
	// Hosts limits the requests of all fetchers that share it; nil means no limit. Each
	// fetcher can always send one request to a host, so that long downloads of others do
	// not block it.
	Hosts *Hosts
	// Progress, if not nil, is called with the number of received bytes, and with negative
	// numbers for discarded ones.
	Progress func(n int64)

	own sync.Map // by host: chan struct{}, for one request
}

// fetchTries is the maximum number of consecutive attempts to download an artifact that
// receive nothing.
const fetchTries = 5

// ErrOutdated is the cause of the fault.Invalid that Fetch returns if the channel has deleted
// or changed the artifact, so that the lock cannot be used.
var ErrOutdated = errors.New("the lock is outdated")

// Fetch downloads an artifact to an unnamed file, which the caller closes. If the artifact
// does not have the digest of the record, Fetch returns fault.Invalid with the cause
// ErrOutdated. If the channel is unavailable, Fetch retries, and finally returns
// fault.Unavailable. A retry only requests the missing part if the channel supports that.
func (f *Fetcher) Fetch(ctx context.Context, rec spec.Record) (*os.File, int64, error) {
	want, sum, err := digestOf(rec)
	if err != nil {
		return nil, 0, err
	}
	file, err := os.CreateTemp(f.Dir, "artifact-")
	if err != nil {
		return nil, 0, err
	}
	d := &download{Fetcher: f, rec: rec, file: file, sum: sum}
	err = os.Remove(file.Name())
	if err == nil {
		err = d.fetch(ctx)
	}
	if got := hex.EncodeToString(sum.Sum(nil)); err == nil && got != want {
		err = fault.Invalid.New(fmt.Sprintf("The artifact %.200s does not match the lock: its digest is %s instead of %s; the channel has changed it, or sent another file", rec.FileName, got, want), ErrOutdated)
	}
	if err != nil {
		_ = file.Close()
		return nil, 0, err
	}
	return file, d.have, nil
}

// fetch copies the artifact from where it is stored or, if that fails, downloads it.
func (d *download) fetch(ctx context.Context) error {
	if d.Stored == nil || d.rec.SHA256 == "" {
		return d.run(ctx)
	}
	body, err := d.Stored(ctx, d.rec)
	if err != nil {
		return d.run(ctx)
	}
	_, err = d.read("the registry", body)
	err = errors.Join(err, body.Close())
	if err == nil && hex.EncodeToString(d.sum.Sum(nil)) == strings.ToLower(d.rec.SHA256) {
		return nil
	}
	if err := d.restart(); err != nil { // the copy is damaged
		return err
	}
	return d.run(ctx)
}

// digestOf returns the digest to verify an artifact with.
func digestOf(rec spec.Record) (want string, sum hash.Hash, err error) {
	want, sum = strings.ToLower(rec.SHA256), sha256.New()
	if want == "" {
		want, sum = strings.ToLower(rec.MD5), md5.New() //nolint:gosec // as above
	}
	if raw, err := hex.DecodeString(want); err != nil || len(raw) != sum.Size() {
		return "", nil, fault.Invalid.Newf("The lock has no valid digest of %.200s; lock the environment again", rec.FileName)
	}
	return want, sum, nil
}

// download is a download in progress.
type download struct {
	*Fetcher
	rec  spec.Record
	file *os.File
	sum  hash.Hash
	have int64
	etag string
}

// run retries until the download is complete. It gives up after fetchTries attempts without
// progress, or after ten times as many in total.
func (d *download) run(ctx context.Context) error {
	for all, vain := 1, 1; ; all, vain = all+1, vain+1 {
		before := d.have
		again, err := d.once(ctx)
		if err == nil || !again || ctx.Err() != nil {
			return err
		}
		if d.have > before {
			vain = 1
		}
		pause, later := d.pause(time.Second<<(vain-1), err)
		if vain == fetchTries || all == 10*fetchTries || later {
			return fault.Unavailable.New(fmt.Sprintf("The artifact %.200s could not be fetched: %v", d.rec.FileName, err), err).After(max(pause, time.Minute))
		}
		if err := d.wait(ctx, pause); err != nil {
			return err
		}
	}
}

// pause returns how long to wait after an error: at least the given time, and as long as
// the host requests. The result later is true if that is too long to wait for.
func (d *download) pause(least time.Duration, err error) (pause time.Duration, later bool) {
	b := new(overloaded)
	if !errors.As(err, &b) {
		return least, false
	}
	pause = max(least, b.after)
	if pause > limits.ArtifactRest {
		return pause, true
	}
	if d.Hosts != nil {
		d.Hosts.pause(b.host, b.after)
	}
	return pause, false
}

func (d *download) wait(ctx context.Context, t time.Duration) error {
	if d.Wait != nil {
		return d.Wait(ctx, t)
	}
	timer := time.NewTimer(t)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// once requests the missing part. The result again reports whether another attempt may
// succeed.
func (d *download) once(ctx context.Context) (again bool, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, d.rec.URL, nil)
	if err != nil {
		return false, fault.Invalid.New(fmt.Sprintf("The address of %.200s is malformed", d.rec.FileName), err)
	}
	req.Header.Set("User-Agent", "slipway")
	if d.have > 0 && d.etag != "" {
		req.Header.Set("Range", "bytes="+strconv.FormatInt(d.have, 10)+"-")
		req.Header.Set("If-Range", d.etag)
	}
	if d.Authorize != nil {
		d.Authorize(req)
	}
	if d.Hosts != nil {
		leave, err := d.turn(ctx, req.URL.Host)
		if err != nil {
			return false, err
		}
		defer leave()
		if rests := d.Hosts.pausedFor(req.URL.Host); rests > 0 { // the host requested a pause from another build
			if err := d.wait(ctx, rests); err != nil {
				return false, err
			}
		}
	}
	return d.do(ctx, req)
}

// turn waits for a slot at a host: the fetcher's own, or a shared one.
func (f *Fetcher) turn(ctx context.Context, host string) (leave func(), err error) {
	c, _ := f.own.LoadOrStore(host, make(chan struct{}, 1))
	own, _ := c.(chan struct{})
	select {
	case own <- struct{}{}:
		return func() { <-own }, nil
	default:
		return f.Hosts.enter(ctx, host)
	}
}

// do sends the request, and cancels it if no data arrives.
func (d *download) do(ctx context.Context, req *http.Request) (again bool, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stall := time.AfterFunc(limits.ArtifactStall, cancel)
	defer stall.Stop()
	resp, err := d.Client.Do(req.WithContext(ctx))
	if err != nil {
		f, refused := fault.As(err)
		if refused {
			return false, f
		}
		return true, fmt.Errorf("%s cannot be reached", req.URL.Host)
	}
	defer func() { _ = resp.Body.Close() }()
	if again, err := d.checkResponse(resp); err != nil {
		return again, err
	}
	return d.read(resp.Request.URL.Host, &stallReader{resp.Body, stall})
}

// checkResponse checks the status and headers of a response.
func (d *download) checkResponse(resp *http.Response) (again bool, err error) {
	host := resp.Request.URL.Host
	switch code := resp.StatusCode; {
	case code == http.StatusPartialContent && strings.HasPrefix(resp.Header.Get("Content-Range"), fmt.Sprintf("bytes %d-", d.have)):
		return false, nil
	case code == http.StatusOK:
		d.etag = resp.Header.Get("ETag")
		if strings.HasPrefix(d.etag, "W/") {
			d.etag = ""
		}
		return false, d.restart()
	case code == http.StatusNotFound || code == http.StatusGone:
		return false, fault.Invalid.New(fmt.Sprintf("%s does not have %.200s any more; lock the environment again", host, d.rec.FileName), ErrOutdated)
	case code == http.StatusUnauthorized || code == http.StatusForbidden:
		return false, fault.Denied.Newf("%s denies access to %.200s; add credentials for the channel, or check the existing ones", host, d.rec.FileName)
	case tooBusy(resp) != nil:
		return true, tooBusy(resp)
	case code >= 500 || code == http.StatusPartialContent || code == http.StatusRequestedRangeNotSatisfiable:
		d.etag = ""
		return true, fmt.Errorf("%s answered %d", host, code)
	default:
		return false, fault.Invalid.Newf("%s answered %d instead of %.200s", host, code, d.rec.FileName)
	}
}

// restart discards the received bytes.
func (d *download) restart() error {
	d.progress(-d.have)
	d.have = 0
	d.sum.Reset()
	_, err := d.file.Seek(0, io.SeekStart)
	return errors.Join(err, d.file.Truncate(0))
}

func (d *download) progress(n int64) {
	if d.Progress != nil {
		d.Progress(n)
	}
}

// read reads the missing bytes up to the expected length.
func (d *download) read(host string, body io.Reader) (again bool, err error) {
	most := d.rec.Size
	if most <= 0 {
		most = limits.ArtifactPacked
	}
	n, err := io.Copy(io.MultiWriter(d.file, d.sum, progressWriter(d.progress)), io.LimitReader(body, most-d.have+1))
	d.have += n
	switch {
	case d.have > most:
		return false, fault.Invalid.New(fmt.Sprintf("The artifact %.200s is longer than the %d bytes that it may have", d.rec.FileName, most), ErrOutdated)
	case errors.As(err, new(*os.PathError)):
		return false, err
	case err != nil || d.rec.Size > 0 && d.have < d.rec.Size:
		return true, fmt.Errorf("the download from %s was interrupted", host)
	}
	return false, nil
}

// progressWriter calls a function with the number of bytes written.
type progressWriter func(n int64)

func (t progressWriter) Write(p []byte) (int, error) {
	t(int64(len(p)))
	return len(p), nil
}

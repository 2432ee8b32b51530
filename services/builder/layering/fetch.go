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

	"slipway.dev/services/internal/conda"
	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/limits"
)

// Fetcher gets artifacts from channels. Safe for concurrent use.
type Fetcher struct {
	// Client decides which addresses are reached, and follows redirects.
	Client *http.Client
	// Authorize adds the login that a channel wants; nil where none does.
	Authorize func(*http.Request)
	// Wait pauses between tries until ctx ends; nil is for as long as it is told.
	Wait func(ctx context.Context, d time.Duration) error
	// Dir is where artifacts lie until they are closed; "" is the system's.
	Dir string
	// Hosts paces the requests, over all that have the same; nil is no pace. One request
	// at each host is this fetcher's own: the long ones of others do not hold it up.
	Hosts *Hosts
	// Progress is told of bytes as they come, negative ones when they were of no use;
	// may be nil.
	Progress func(n int64)

	own sync.Map // of hosts: chan struct{}, for one request
}

// fetchTries is how often a channel is asked for an artifact that it breaks off.
const fetchTries = 5

// Fetch gets an artifact to a file without a name, which the caller closes. It has
// the digest of the record, or else the error is fault.Invalid. A channel that is
// away is asked again, for the rest where it can give that; then it is
// fault.Unavailable.
func (f *Fetcher) Fetch(ctx context.Context, rec conda.Record) (*os.File, int64, error) {
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
		err = d.run(ctx)
	}
	if got := hex.EncodeToString(sum.Sum(nil)); err == nil && got != want {
		err = fault.Invalid.Newf("The artifact %.200s is not the one that the lock names: its digest is %s instead of %s; the channel has changed it, or sent something else", rec.FileName, got, want)
	}
	if err != nil {
		_ = file.Close()
		return nil, 0, err
	}
	return file, d.have, nil
}

// digestOf is what an artifact is checked against.
func digestOf(rec conda.Record) (want string, sum hash.Hash, err error) {
	want, sum = strings.ToLower(rec.SHA256), sha256.New()
	if want == "" {
		want, sum = strings.ToLower(rec.MD5), md5.New() //nolint:gosec // as above
	}
	if raw, err := hex.DecodeString(want); err != nil || len(raw) != sum.Size() {
		return "", nil, fault.Invalid.Newf("The lock says no proper digest of %.200s; lock the environment again", rec.FileName)
	}
	return want, sum, nil
}

// download is one artifact on its way.
type download struct {
	*Fetcher
	rec  conda.Record
	file *os.File
	sum  hash.Hash
	have int64
	etag string
}

// run tries until all is there: fetchTries times in a row without a byte more, and
// no more than ten times as often.
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

// pause is how long to wait after an error: at least so long, and as long as the host
// says, where it is worth waiting for that.
func (d *download) pause(least time.Duration, err error) (pause time.Duration, later bool) {
	b := new(busy)
	if !errors.As(err, &b) {
		return least, false
	}
	pause = max(least, b.after)
	if pause > limits.ArtifactRest {
		return pause, true
	}
	if d.Hosts != nil {
		d.Hosts.rest(b.host, b.after)
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

// once asks for what is missing. again says whether another try may do better.
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
		if rests := d.Hosts.rests(req.URL.Host); rests > 0 { // another build was told so
			if err := d.wait(ctx, rests); err != nil {
				return false, err
			}
		}
	}
	return d.do(ctx, req)
}

// turn waits for a turn at a host: the fetcher's own, or one of all.
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

// do sends the request, which ends where nothing comes of it any more.
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
	if again, err := d.answered(resp); err != nil {
		return again, err
	}
	return d.read(resp, &steady{resp.Body, stall})
}

// answered judges the beginning of an answer.
func (d *download) answered(resp *http.Response) (again bool, err error) {
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
		return false, fault.Invalid.Newf("%s does not have %.200s any more; lock the environment again", host, d.rec.FileName)
	case code == http.StatusUnauthorized || code == http.StatusForbidden:
		return false, fault.Denied.Newf("%s does not give out %.200s; add credentials for the channel, or check those there are", host, d.rec.FileName)
	case tooBusy(resp) != nil:
		return true, tooBusy(resp)
	case code >= 500 || code == http.StatusPartialContent || code == http.StatusRequestedRangeNotSatisfiable:
		d.etag = ""
		return true, fmt.Errorf("%s answered %d", host, code)
	default:
		return false, fault.Invalid.Newf("%s answered %d instead of %.200s", host, code, d.rec.FileName)
	}
}

// restart forgets what came so far.
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

// read takes what an answer holds; more than was said is not taken.
func (d *download) read(resp *http.Response, body io.Reader) (again bool, err error) {
	most := d.rec.Size
	if most <= 0 {
		most = limits.ArtifactPacked
	}
	n, err := io.Copy(io.MultiWriter(d.file, d.sum, told(d.progress)), io.LimitReader(body, most-d.have+1))
	d.have += n
	switch {
	case d.have > most:
		return false, fault.Invalid.Newf("The artifact %.200s is longer than the %d bytes that it may have", d.rec.FileName, most)
	case errors.As(err, new(*os.PathError)):
		return false, err
	case err != nil || d.rec.Size > 0 && d.have < d.rec.Size:
		return true, fmt.Errorf("%s broke off", resp.Request.URL.Host)
	}
	return false, nil
}

// told passes on how many bytes are written.
type told func(n int64)

func (t told) Write(p []byte) (int, error) {
	t(int64(len(p)))
	return len(p), nil
}

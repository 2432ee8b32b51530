package registry

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"net/textproto"
	"slices"
	"strconv"
	"time"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/limits"
	"slipway.dev/services/internal/retry"
	"slipway.dev/services/internal/upstream"
	"slipway.dev/services/registry/blob"
)

// A span is the list of the ranges that are fetched with one request. They are in ascending order.
type span []byteRange

// whole returns the range from the first to the last byte of a span.
func (s span) whole() byteRange {
	first, last := s[0], s[len(s)-1]
	return byteRange{first.start, last.end() - first.start}
}

// spansOf returns the spans of ranges in ascending order. Most object stores return one range for each
// request, so that ranges with small gaps are fetched together. If that leaves more than
// limits.BlobSpans requests, only the largest gaps are left out. The bytes of other gaps are read and
// discarded.
func spansOf(parts []byteRange) []span {
	gap := func(i int) int64 { return parts[i].start - parts[i-1].end() } // the one before a range
	var begins []int
	for i := 1; i < len(parts); i++ {
		if gap(i) > limits.BlobGap {
			begins = append(begins, i)
		}
	}
	slices.SortStableFunc(begins, func(a, b int) int { return cmp.Compare(gap(b), gap(a)) })
	begins = begins[:min(len(begins), limits.BlobSpans-1)]
	slices.Sort(begins)
	out := make([]span, 0, len(begins)+1)
	from := 0
	for _, i := range append(begins, len(parts)) {
		out = append(out, parts[from:i])
		from = i
	}
	return out
}

// upstreamParts serves several ranges of an upstream blob as multipart/byteranges. A client is not
// redirected, because most targets of redirects return the whole blob for several ranges.
func (s *Registry) upstreamParts(w http.ResponseWriter, r *http.Request, src reader, d ocispec.Descriptor, parts []byteRange) error {
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	spans := spansOf(parts)
	first := spans[0].whole()
	b, err := src.from.Open(ctx, http.MethodGet, src.repo, d.Digest, src.access, rangeHeader([]byteRange{first}))
	if upstream.IsRange(err) {
		rejectRange(w, d.Size)
		return nil
	}
	if err != nil {
		return err
	}
	open := func(of byteRange) (io.ReadCloser, error) {
		return s.deps.Upstream.ReadBlob(ctx, src.repo, d.Digest, src.access, of.start, of.length)
	}
	patient := func(of byteRange) (io.ReadCloser, error) {
		return openAgain(ctx, func() (io.ReadCloser, error) { return open(of) })
	}
	body := b.Body
	switch {
	case b.Redirect != nil:
		if s.isOwn(b.Redirect.Host) {
			return fault.Denied.Newf("The registry %s redirects to this service itself", src.repo.Host)
		}
		if body, err = open(first); err != nil { // clients may reach hosts that this service may not
			redirect(w, b.Redirect.String())
			return nil
		}
	case b.Status != http.StatusPartialContent: // the registry supports no ranges
		defer body.Close()
		key := blob.Key{Repo: src.repo, Digest: d.Digest, Size: d.Size, Rights: src.from.Own(src.access)}
		return s.forward(w, r, key, b)
	case b.ContentRange != first.contentRange(d.Size):
		return errors.Join(fault.Unavailable.Newf("The registry %s does not return the requested range of a blob", src.repo.Host), body.Close())
	}
	bodies := newAhead(spans, body, patient)
	defer func() {
		cancel()
		bodies.close()
	}()
	return s.writeParts(w, r, d.Size, spans, bodies)
}

// openAgain opens a body, and tries again if the registry is unavailable: the response to the client has begun, as
// when the connection of a body breaks.
func openAgain(ctx context.Context, open func() (io.ReadCloser, error)) (io.ReadCloser, error) {
	for pause := spanPause; ; pause *= 2 {
		body, err := open()
		e, ok := fault.As(err)
		if !ok || !upstream.IsOutage(e) || pause > spanPause<<(limits.BlobResumptions-1) || !retry.Sleep(ctx, pause) {
			return body, err
		}
	}
}

// spanPause is the first pause before another request for a span.
const spanPause = 50 * time.Millisecond

// writeParts writes ranges of a blob of size bytes as multipart/byteranges.
func (s *Registry) writeParts(w http.ResponseWriter, r *http.Request, size int64, spans []span, bodies *ahead) error {
	h := w.Header()
	out := partsWriter{multipart.NewWriter(w), h.Get("Content-Type"), size}
	length, err := out.length(spans)
	if err != nil {
		return err
	}
	h.Set("Accept-Ranges", "bytes")
	h.Set("Content-Length", strconv.FormatInt(length, 10))
	h.Set("Content-Type", "multipart/byteranges; boundary="+out.Boundary())
	w.WriteHeader(http.StatusPartialContent)
	for _, of := range spans {
		body, err := bodies.next()
		if err != nil {
			return err
		}
		err = out.span(of, body, func(part io.Reader) error { return s.streams.copy(w, part, r.TLS == nil) })
		if err := errors.Join(err, body.Close()); err != nil {
			return err
		}
	}
	return out.Close()
}

// A partsWriter writes ranges of a blob of size bytes, with the media type of the blob.
type partsWriter struct {
	*multipart.Writer
	mediaType string
	size      int64
}

// begin writes the headers of a part. The caller writes its content to the writer below.
func (w partsWriter) begin(part byteRange) error {
	_, err := w.CreatePart(textproto.MIMEHeader{"Content-Range": {part.contentRange(w.size)}, "Content-Type": {w.mediaType}})
	return err
}

// span writes the parts of a span, whose content is body: copy copies that of each part.
func (w partsWriter) span(of span, body io.Reader, copy func(io.Reader) error) error {
	at := of[0].start
	for _, part := range of {
		if _, err := io.CopyN(io.Discard, body, part.start-at); err != nil {
			return fmt.Errorf("reading between the ranges of a blob: %w", err)
		}
		if err := w.begin(part); err != nil {
			return fmt.Errorf("writing a blob: %w", err)
		}
		content := &io.LimitedReader{R: body, N: part.length}
		if err := copy(content); err != nil {
			return err
		}
		if content.N > 0 {
			return fmt.Errorf("reading a range of a blob: %w", io.ErrUnexpectedEOF)
		}
		at = part.end()
	}
	return nil
}

// length returns the length of the response with all parts.
func (w partsWriter) length(spans []span) (n int64, err error) {
	var overhead counted
	same := partsWriter{multipart.NewWriter(&overhead), w.mediaType, w.size}
	if err := same.SetBoundary(w.Boundary()); err != nil {
		return 0, err
	}
	for _, part := range slices.Concat(spans...) {
		n += part.length
		if err := same.begin(part); err != nil {
			return 0, err
		}
	}
	err = same.Close()
	return n + int64(overhead), err
}

// counted is the number of bytes that were written to it.
type counted int64

func (c *counted) Write(p []byte) (int, error) {
	*c += counted(len(p))
	return len(p), nil
}

// ahead opens the content of spans before it is read, because each request may take as long as a whole blob of
// moderate size: limits.BlobSpansAhead, including the one that is being read. It is not safe for concurrent use.
type ahead struct {
	open   func(byteRange) (io.ReadCloser, error)
	rest   []span
	opened []chan opened
}

type opened struct {
	body io.ReadCloser
	err  error
}

// newAhead returns the contents of spans. That of the first is already open.
func newAhead(spans []span, first io.ReadCloser, open func(byteRange) (io.ReadCloser, error)) *ahead {
	a := &ahead{open: open, rest: spans[1:], opened: []chan opened{make(chan opened, 1)}}
	a.opened[0] <- opened{body: first}
	return a
}

// begin opens the next content.
func (a *ahead) begin() {
	of, result := a.rest[0].whole(), make(chan opened, 1)
	a.rest, a.opened = a.rest[1:], append(a.opened, result)
	go func() {
		body, err := a.open(of)
		result <- opened{body, err}
	}()
}

// next returns the next content, which the caller must close. It must be called once for each span.
func (a *ahead) next() (io.ReadCloser, error) {
	next := a.opened[0]
	a.opened = a.opened[1:]
	for len(a.rest) > 0 && len(a.opened) < limits.BlobSpansAhead-1 {
		a.begin()
	}
	o := <-next
	return o.body, o.err
}

// close closes the contents that were not read. The context of open must have ended.
func (a *ahead) close() {
	for _, result := range a.opened {
		if o := <-result; o.err == nil {
			_ = o.body.Close() // it was only read
		}
	}
}

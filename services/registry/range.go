package registry

import (
	"fmt"
	"net/http"
	"regexp"
	"strconv"

	"github.com/opencontainers/go-digest"
)

// byteRange matches a Range with one part. A server may respond to other ranges with the
// whole content.
var byteRange = regexp.MustCompile(`^bytes=(\d{0,18})-(\d{0,18})$`)

// withRange returns the request to serve for a blob of size bytes: with one range, or with
// none for the whole blob (RFC 9110, sections 13.1.5 and 14.2). It returns false for a
// range outside the blob.
func withRange(r *http.Request, d digest.Digest, size int64) (_ *http.Request, ok bool) {
	part := byteRange.FindStringSubmatch(r.Header.Get("Range"))
	condition := r.Header.Get("If-Range")
	r = r.Clone(r.Context())
	r.Header.Del("If-Range")
	if part == nil || condition != "" && condition != etag(d) {
		r.Header.Del("Range")
		return r, true
	}
	first, err1 := strconv.ParseInt(part[1], 10, 64)
	last, err2 := strconv.ParseInt(part[2], 10, 64)
	switch {
	case err1 != nil && err2 != nil || err1 == nil && err2 == nil && last < first:
		r.Header.Del("Range") // not a range
	case err1 != nil:
		return r, last > 0
	default:
		return r, first < size
	}
	return r, true
}

// rejectRange responds that the blob does not have the requested range.
func rejectRange(w http.ResponseWriter, size int64) {
	h := w.Header()
	h.Set("Content-Range", fmt.Sprintf("bytes */%d", size))
	h.Del("Docker-Content-Digest")
	h.Del("Content-Type")
	h.Set("Content-Length", "0")
	w.WriteHeader(http.StatusRequestedRangeNotSatisfiable)
}

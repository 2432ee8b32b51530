package registry

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/opencontainers/go-digest"

	"slipway.dev/services/internal/limits"
)

// A byteRange is a part of a blob.
type byteRange struct {
	start, length int64 // in bytes
}

func (b byteRange) end() int64 { return b.start + b.length }

// String returns the first and the last byte, as in the headers Range and Content-Range.
func (b byteRange) String() string { return fmt.Sprintf("%d-%d", b.start, b.end()-1) }

// contentRange returns the Content-Range of the part of a blob of size bytes.
func (b byteRange) contentRange(size int64) string { return fmt.Sprintf("bytes %s/%d", b, size) }

// parseRanges returns the parts of a blob of size bytes that a Range header requests, in ascending
// order and without overlaps. It returns none if the header must or may be ignored, so that the
// whole blob is served: it is malformed, or has more than limits.BlobRanges ranges, or ranges that
// overlap or descend (RFC 9110, section 14.2). Ranges outside the blob are left out; if no other
// range remains, ok is false.
func parseRanges(header string, size int64) (parts []byteRange, ok bool) {
	list, isBytes := strings.CutPrefix(header, "bytes=")
	if !isBytes {
		return nil, true
	}
	n, end := 0, int64(0)
	for spec := range strings.SplitSeq(list, ",") {
		spec = strings.Trim(spec, " \t")
		if spec == "" { // a list may have empty elements
			continue
		}
		if n++; n > limits.BlobRanges {
			return nil, true
		}
		part, valid := parseRange(spec, size)
		if !valid {
			return nil, true
		}
		if part.length == 0 {
			continue
		}
		if part.start < end {
			return nil, true
		}
		end = part.end()
		parts = append(parts, part)
	}
	return parts, n == 0 || len(parts) > 0
}

// parseRange returns the part of a blob of size bytes that a single range requests; one of length 0
// if it is outside the blob.
func parseRange(spec string, size int64) (part byteRange, valid bool) {
	from, to, found := strings.Cut(spec, "-")
	first, hasFirst := parsePosition(from)
	last, hasLast := parsePosition(to)
	switch {
	case !found || from != "" && !hasFirst || to != "" && !hasLast || !hasFirst && !hasLast || hasFirst && hasLast && last < first:
		return byteRange{}, false
	case !hasFirst && last > 0 && size == 0: // Content-Range cannot express the last bytes of an empty blob
		return byteRange{}, false
	case !hasFirst:
		length := min(last, size)
		return byteRange{size - length, length}, true
	case first >= size:
		return byteRange{}, true
	case !hasLast || last >= size:
		last = size - 1
	}
	return byteRange{first, last - first + 1}, true
}

// parsePosition parses a number of a range. Numbers of more than 18 digits are refused.
func parsePosition(s string) (n int64, ok bool) {
	if s == "" || len(s) > 18 || strings.Trim(s, "0123456789") != "" {
		return 0, false
	}
	n, err := strconv.ParseInt(s, 10, 64)
	return n, err == nil
}

// withRange returns the request to serve for a blob of size bytes: with ranges as parseRanges returns
// them, or with none for the whole blob (RFC 9110, sections 13.1.5 and 14.2). Several ranges are only
// served for GET. It returns false if the blob has none of the ranges.
func withRange(r *http.Request, d digest.Digest, size int64) (_ *http.Request, ok bool) {
	header, condition := r.Header.Get("Range"), r.Header.Get("If-Range")
	r = r.Clone(r.Context())
	r.Header.Del("If-Range")
	r.Header.Del("Range")
	if condition != "" && condition != etag(d) {
		return r, true
	}
	parts, ok := parseRanges(header, size)
	if len(parts) == 1 || r.Method == http.MethodGet && len(parts) > 1 {
		r.Header.Set("Range", rangeHeader(parts))
	}
	return r, ok
}

func rangeHeader(parts []byteRange) string {
	all := make([]string, len(parts))
	for i, p := range parts {
		all[i] = p.String()
	}
	return "bytes=" + strings.Join(all, ",")
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

package gateway

import (
	"bytes"
	"cmp"
	"encoding/json"
	"io"
	"net/http"
	"strconv"

	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// workspaceID is the name of the parameter, which clients send in the query or in the body.
const workspaceID = "workspaceId"

// located takes the workspace of a call from its body if the query does not have it
// (gateway/contract/platform.md#conventions). A request with two different workspaces is
// rejected.
func (q requests) located(refuse func(w http.ResponseWriter, message string)) runtime.Middleware {
	return func(next runtime.HandlerFunc) runtime.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request, path map[string]string) {
			desc := q.of(r)
			if r.Method == http.MethodGet || r.Body == nil || desc == nil || desc.Fields().ByJSONName(workspaceID) == nil {
				next(w, r, path)
				return
			}
			body, ok := r.Body.(*readBody)
			if !ok {
				body = &readBody{}
				body.rest, body.err = io.ReadAll(r.Body)
				r.Body = body
			}
			if problem := takeWorkspace(r, body.rest, acceptsAnyBody(desc)); problem != "" {
				refuse(w, problem)
				return
			}
			next(w, r, path)
		}
	}
}

// acceptsAnyBody reports whether a call accepts any body, as reports of runs do: a member of
// a wrong type counts as absent there.
func acceptsAnyBody(desc protoreflect.MessageDescriptor) bool {
	body := desc.Fields().ByName("body")
	return body != nil && body.Kind() == protoreflect.BytesKind
}

// takeWorkspace copies a body's workspace into the query, or returns an error message. The
// decoder reports malformed JSON.
func takeWorkspace(r *http.Request, raw []byte, isReport bool) (problem string) {
	if !bytes.Contains(raw, []byte(`"`+workspaceID+`"`)) { // avoids decoding large bodies
		return ""
	}
	var body struct {
		WorkspaceID json.RawMessage `json:"workspaceId"`
	}
	if json.Unmarshal(raw, &body) != nil || len(body.WorkspaceID) == 0 || string(body.WorkspaceID) == "null" {
		return ""
	}
	text := string(bytes.Trim(body.WorkspaceID, `"`))
	id, err := strconv.ParseInt(text, 10, 64)
	if err != nil && isReport {
		return ""
	}
	if err != nil {
		return workspaceID + " must be a whole number"
	}
	query := r.URL.Query()
	if there := cmp.Or(query.Get(workspaceID), query.Get("workspace_id")); there != "" { // grpc-gateway accepts both
		if other, err := strconv.ParseInt(there, 10, 64); err == nil && other != id {
			return workspaceID + " is " + there + " in the query and " + text + " in the body: leave one of them out"
		}
		return ""
	}
	query.Set(workspaceID, text)
	u := *r.URL
	u.RawQuery = query.Encode()
	r.URL = &u
	return ""
}

// readBody is a body that was already read, with the error at its end.
type readBody struct {
	rest []byte
	err  error
	// turn ends the turn in which the body is decoded; nil if decoding takes no turn.
	turn func()
}

// decoded ends the turn to decode the body.
func (b *readBody) decoded() {
	if b.turn != nil {
		b.turn()
	}
}

// take returns the rest of the body without a copy.
func (b *readBody) take() ([]byte, error) {
	raw := b.rest
	b.rest = nil
	return raw, b.err
}

// Read implements io.Reader.
func (b *readBody) Read(p []byte) (int, error) {
	n := copy(p, b.rest)
	if b.rest = b.rest[n:]; n > 0 || len(p) == 0 {
		return n, nil
	}
	b.decoded() // generated code discards the body of a call that has no body field
	return 0, cmp.Or(b.err, io.EOF)
}

// Close does nothing: the server closes the original body.
func (b *readBody) Close() error { return nil }

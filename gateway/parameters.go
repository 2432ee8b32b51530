package gateway

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	"google.golang.org/genproto/googleapis/api/annotations"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// An endpoint is a method and a route.
type endpoint struct{ method, route string }

// requests holds the request type of each endpoint of some services.
type requests map[endpoint]protoreflect.MessageDescriptor

func requestsOf(files ...protoreflect.FileDescriptor) requests {
	out := requests{}
	for _, file := range files {
		for i := range file.Services().Len() {
			methods := file.Services().Get(i).Methods()
			for j := range methods.Len() {
				out.add(methods.Get(j))
			}
		}
	}
	return out
}

func (q requests) add(m protoreflect.MethodDescriptor) {
	rule, ok := proto.GetExtension(m.Options(), annotations.E_Http).(*annotations.HttpRule)
	if !ok {
		return
	}
	for _, r := range append(slices.Clip(rule.GetAdditionalBindings()), rule) {
		for method, path := range map[string]string{
			http.MethodGet: r.GetGet(), http.MethodPost: r.GetPost(), http.MethodPut: r.GetPut(), http.MethodPatch: r.GetPatch(), http.MethodDelete: r.GetDelete(),
		} {
			if path != "" {
				q[endpoint{method, wildcards(path)}] = m.Input()
			}
		}
	}
}

// ofUsers returns routes that check the access token before the parameters.
func ofUsers() []string {
	return []string{"/v1alpha1/builds", "/v1alpha1/containers", "/v1alpha1/images/outdated"}
}

// of returns the request type of a request; nil for a path without a call.
func (q requests) of(r *http.Request) protoreflect.MessageDescriptor {
	return q[endpoint{r.Method, routeOf(r.Context())}]
}

// checked rejects malformed parameters with clear messages; the library's messages contain
// Go terms. refuse writes a 400.
func (q requests) checked(refuse func(w http.ResponseWriter, message string)) runtime.Middleware {
	return func(next runtime.HandlerFunc) runtime.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request, path map[string]string) {
			if problem := unreadable(q.of(r), r, path); problem != "" {
				if slices.Contains(ofUsers(), routeOf(r.Context())) && r.Header.Get("Authorization") == "" {
					WriteMessage(w, http.StatusUnauthorized, "This list shows your own entries: send your access token as Authorization: Bearer")
					return
				}
				refuse(w, problem)
				return
			}
			next(w, r, path)
		}
	}
}

// maxIgnoredBody is the maximum size of an ignored body in bytes.
const maxIgnoredBody = 64 << 10

// wholeBody rejects a DELETE whose body is not JSON. The body of a DELETE is ignored, but a
// malformed one shows that the client has made a mistake.
func wholeBody(refuse func(w http.ResponseWriter, message string)) runtime.Middleware {
	return func(next runtime.HandlerFunc) runtime.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request, path map[string]string) {
			if r.Method != http.MethodDelete || r.Body == nil || r.ContentLength == 0 {
				next(w, r, path)
				return
			}
			raw, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxIgnoredBody))
			switch large := (*http.MaxBytesError)(nil); {
			case errors.As(err, &large):
				WriteMessage(w, http.StatusRequestEntityTooLarge, fmt.Sprintf("The body of a DELETE is ignored, and may have %d bytes", maxIgnoredBody))
			case err != nil, len(bytes.TrimSpace(raw)) > 0 && !json.Valid(raw):
				refuse(w, notJSON)
			default:
				r.Body = io.NopCloser(bytes.NewReader(raw))
				next(w, r, path)
			}
		}
	}
}

// unreadable returns a message about the first malformed parameter, or "".
func unreadable(desc protoreflect.MessageDescriptor, r *http.Request, path map[string]string) string {
	if desc == nil {
		return ""
	}
	for name, value := range path {
		if problem := misread(field(desc, name), value); problem != "" {
			return problem
		}
	}
	if r.URL.RawQuery == "" {
		return ""
	}
	given := map[protoreflect.FieldNumber]int{} // occurrences under either name
	for name, values := range r.URL.Query() {
		fd := field(desc, name)
		if fd != nil && !fd.IsList() {
			if given[fd.Number()] += len(values); given[fd.Number()] > 1 {
				return fd.JSONName() + " occurs more than once"
			}
		}
		for _, v := range values {
			if problem := misread(fd, v); problem != "" {
				return problem
			}
		}
	}
	return ""
}

// field finds a parameter under either of its names; nil if it is unknown.
func field(desc protoreflect.MessageDescriptor, name string) protoreflect.FieldDescriptor {
	if fd := desc.Fields().ByTextName(name); fd != nil {
		return fd
	}
	return desc.Fields().ByJSONName(name)
}

// misread returns a message about a malformed parameter; "" if it is valid.
func misread(fd protoreflect.FieldDescriptor, value string) string {
	if fd == nil {
		return ""
	}
	var err error
	want := "a whole number"
	switch fd.Kind() {
	case protoreflect.Int32Kind:
		_, err = strconv.ParseInt(value, 10, 32)
	case protoreflect.Int64Kind:
		_, err = strconv.ParseInt(value, 10, 64)
	case protoreflect.BoolKind:
		_, err = strconv.ParseBool(value)
		want = "true or false"
	default: // any string is valid
	}
	if err == nil {
		return ""
	}
	return fmt.Sprintf("%s must be %s, not %q", fd.JSONName(), want, strings.ToValidUTF8(value[:min(len(value), 40)], ""))
}

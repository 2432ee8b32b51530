package gateway

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	"google.golang.org/genproto/googleapis/api/annotations"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// door is a method and a route: where a call comes in.
type door struct{ method, route string }

// requests are what comes in at each door of some services.
type requests map[door]protoreflect.MessageDescriptor

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
				q[door{method, wildcards(path)}] = m.Input()
			}
		}
	}
}

// of is what a request is to become; nil for a path that no call has.
func (q requests) of(r *http.Request) protoreflect.MessageDescriptor {
	return q[door{r.Method, routeOf(r.Context())}]
}

// checked refuses parameters that cannot be read, in words: the library's are those of
// Go. refuse writes a 400.
func (q requests) checked(refuse func(w http.ResponseWriter, message string)) runtime.Middleware {
	return func(next runtime.HandlerFunc) runtime.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request, path map[string]string) {
			if problem := unreadable(q.of(r), r, path); problem != "" {
				refuse(w, problem)
				return
			}
			next(w, r, path)
		}
	}
}

// unreadable says what is wrong with the first parameter that cannot be read; "" when
// all can be.
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
	given := map[protoreflect.FieldNumber]int{} // by either of its names
	for name, values := range r.URL.Query() {
		fd := field(desc, name)
		if fd != nil && !fd.IsList() {
			if given[fd.Number()] += len(values); given[fd.Number()] > 1 {
				return fd.JSONName() + " is given more than once"
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

// field finds a parameter by either of its names; nil for one that is not known.
func field(desc protoreflect.MessageDescriptor, name string) protoreflect.FieldDescriptor {
	if fd := desc.Fields().ByTextName(name); fd != nil {
		return fd
	}
	return desc.Fields().ByJSONName(name)
}

// misread says what a parameter must be; "" for one that can be read as it is.
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
	default: // a text is what it is
	}
	if err == nil {
		return ""
	}
	return fmt.Sprintf("%s must be %s, not %q", fd.JSONName(), want, strings.ToValidUTF8(value[:min(len(value), 40)], ""))
}

package contracttest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"mime"
	"net/http"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
	"github.com/getkin/kin-openapi/routers/gorillamux"
)

// ErrUndocumented is returned for a call that a document does not have.
var ErrUndocumented = errors.New("the document has no such call")

// Document is an OpenAPI document to compare responses with. It is safe for concurrent use.
type Document struct {
	*openapi3.T
	router routers.Router
}

// ReadDocument parses a document as it is served.
func ReadDocument(text []byte) (*Document, error) {
	doc, err := openapi3.NewLoader().LoadFromData(text)
	if err != nil {
		return nil, fmt.Errorf("reading the document: %w", err)
	}
	doc.Servers = nil // paths match at any address
	router, err := gorillamux.NewRouter(doc)
	if err != nil {
		return nil, fmt.Errorf("reading the document's paths: %w", err)
	}
	return &Document{T: doc, router: router}, nil
}

// Check returns how a response differs from the document: its status, its type, and each
// member of its body. It returns ErrUndocumented if the document does not have the call.
// The path must not have a prefix such as /api.
func (d *Document) Check(method, path string, status int, header http.Header, body []byte) error {
	req, err := http.NewRequestWithContext(context.Background(), method, "http://localhost"+path, nil)
	if err != nil {
		return err
	}
	route, values, err := d.router.FindRoute(req)
	if err != nil {
		return fmt.Errorf("%w: %s %s: %w", ErrUndocumented, method, path, err)
	}
	in := &openapi3filter.ResponseValidationInput{
		RequestValidationInput: &openapi3filter.RequestValidationInput{Request: req, Route: route, PathParams: values},
		Status:                 status, Header: header,
		Options: &openapi3filter.Options{IncludeResponseStatus: true},
	}
	in.SetBodyBytes(bytes.Clone(body))
	kind, _, _ := mime.ParseMediaType(header.Get("Content-Type"))
	in.Options.ExcludeResponseBody = kind != "application/json" || len(body) == 0 // any string is valid
	promised := route.Operation.Responses.Status(status)
	if promised != nil && len(body) > 0 && promised.Value.Content.Get(kind) == nil {
		return fmt.Errorf("%s %s is answered %d in %s, which the document does not promise", method, path, status, kind)
	}
	if err := openapi3filter.ValidateResponse(req.Context(), in); err != nil {
		return fmt.Errorf("%s %s is answered %d, which the document does not promise: %w", method, path, status, err)
	}
	return nil
}

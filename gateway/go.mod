module slipway.dev/gateway

go 1.26.0

require (
	github.com/getkin/kin-openapi v0.152.0
	github.com/grpc-ecosystem/grpc-gateway/v2 v2.31.0
	github.com/oasdiff/yaml v0.1.1
	github.com/speakeasy-api/openapi v1.25.6
	github.com/swaggest/swgui v1.8.5
	github.com/yuin/goldmark v1.8.7
	golang.org/x/tools v0.52.0
	google.golang.org/genproto/googleapis/api v0.0.0-20261005182115-fad411399dd8
	google.golang.org/genproto/googleapis/rpc v0.0.0-20261005182115-fad411399dd8
	google.golang.org/grpc v1.84.0
	google.golang.org/protobuf v1.36.12
	slipway.dev/docs v0.0.0-00010101000000-000000000000
	slipway.dev/proto v0.0.0
)

require (
	github.com/go-openapi/jsonpointer v1.0.1 // indirect
	github.com/gorilla/mux v1.8.0 // indirect
	github.com/oasdiff/yaml3 v0.0.14 // indirect
	github.com/santhosh-tekuri/jsonschema/v6 v6.0.3 // indirect
	golang.org/x/net v0.61.0 // indirect
	golang.org/x/sync v0.24.0 // indirect
	golang.org/x/sys v0.49.0 // indirect
	golang.org/x/text v0.43.0 // indirect
	gopkg.in/yaml.v3 v3.0.1 // indirect
)

replace slipway.dev/docs => ../docs

replace slipway.dev/proto => ../proto

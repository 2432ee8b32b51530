{{/*
The needs of each role: stores, roles that it calls, access to registries, a Secret of its own, and the port that it
offers. The source is services/app/roles.go.
*/}}
{{- define "slipway.roles" -}}
platform: {sql: true, redis: true, nats: true, port: grpc, calls: []}
container: {sql: true, redis: true, nats: true, port: grpc, registries: true, calls: [platform, build, conda, inspect]}
build: {sql: true, redis: true, nats: true, port: grpc, registries: true, calls: [platform]}
builder: {nats: true, registries: true, calls: [build, container]}
conda: {redis: true, nats: true, port: grpc, registries: true, calls: [platform, build]}
inspect: {redis: true, nats: true, port: grpc, registries: true, calls: [platform, container]}
metrics: {sql: true, nats: true, port: grpc, calls: [platform]}
registry: {redis: true, nats: true, port: http, registries: true, calls: [platform, container, build]}
gateway: {port: http, calls: [platform, container, build, conda, inspect, metrics]}
{{- end }}

{{/* The roles that have a key of the table, as a list: (list "sql") */}}
{{- define "slipway.rolesWith" -}}
{{- $key := index . 0 -}}
{{- $out := list -}}
{{- range $name, $role := fromYaml (include "slipway.roles" nil) -}}
{{- if index $role $key }}{{ $out = append $out $name }}{{ end -}}
{{- end -}}
[{{ join ", " $out }}]
{{- end }}

{{/* The roles that call a role: (list "platform") */}}
{{- define "slipway.callers" -}}
{{- $called := index . 0 -}}
{{- $out := list -}}
{{- range $name, $role := fromYaml (include "slipway.roles" nil) -}}
{{- if has $called $role.calls }}{{ $out = append $out $name }}{{ end -}}
{{- end -}}
[{{ join ", " $out }}]
{{- end }}

{{/* Labels that identify the chart. */}}
{{- define "slipway.labels" -}}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end }}

{{/* The reference of an image: (list "slipwayd" .) */}}
{{- define "slipway.image" -}}
{{- $name := index . 0 }}{{ $image := (index . 1).Values.image -}}
{{- with index $image.digest $name -}}
{{ $image.repository }}/{{ $name }}@{{ . }}
{{- else -}}
{{ $image.repository }}/{{ $name }}:{{ $image.tag | default (index . 1).Chart.AppVersion }}
{{- end -}}
{{- end }}

{{/* The security context of a container. */}}
{{- define "slipway.confined" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end }}

{{/* Migrates the tables to this release before the role starts. */}}
{{- define "slipway.migrate" -}}
# Replicas may migrate concurrently; the previous release can run on the new tables.
- name: migrate
  image: {{ include "slipway.image" (list "slipwayd" .) }}
  args: [migrate]
  env:
    - name: SLIPWAY_DATABASE_URL
      valueFrom: {secretKeyRef: {name: slipway-stores, key: database-url}}
    - {name: SLIPWAY_DATA_DIR, value: /data}
  resources:
    requests: {cpu: 50m, memory: 64Mi, ephemeral-storage: 16Mi}
    limits: {memory: 256Mi, ephemeral-storage: 64Mi}
  securityContext:
    {{- include "slipway.confined" . | nindent 4 }}
  volumeMounts:
    - {name: data, mountPath: /data}
{{- end }}

{{/* The environment variables of a role: (dict "name" … "role" … "own" … "root" $) */}}
{{- define "slipway.env" -}}
{{- range $key, $store := dict "sql" "database" "redis" "redis" "nats" "nats" }}
{{- if index $.role $key }}
- name: SLIPWAY_{{ upper $store }}_URL
  valueFrom: {secretKeyRef: {name: slipway-stores, key: {{ $store }}-url}}
{{- end }}
{{- end }}
{{- range .role.calls }}
- {name: SLIPWAY_{{ upper . }}_ADDR, value: "dns:///{{ . }}:9095"}
{{- end }}
{{- if eq .name "platform" }}
- {name: SLIPWAY_ADMIN_TOKEN_FILE, value: /etc/slipway/platform/admin-token}
- {name: SLIPWAY_MASTER_KEY_FILE, value: /etc/slipway/platform/master-key}
{{- end }}
{{- if eq .name "builder" }}
- {name: SLIPWAY_BUILDKIT_ADDR, value: {{ include "slipway.buildkits" .root | quote }}}
- {name: SLIPWAY_BUILDKIT_CERT_FILE, value: /etc/slipway/buildkit/tls.crt}
- {name: SLIPWAY_BUILDKIT_KEY_FILE, value: /etc/slipway/buildkit/tls.key}
- {name: SLIPWAY_BUILDKIT_CA_FILE, value: /etc/slipway/buildkit/ca.crt}
{{- end }}
{{- if and (eq .name "registry") .root.Values.blobCache.bucket }}
- {name: SLIPWAY_BLOB_CACHE, value: {{ .root.Values.blobCache.bucket | quote }}}
- {name: SLIPWAY_BLOB_CACHE_SIZE, value: {{ .root.Values.blobCache.size | quote }}}
{{- if .root.Values.blobCache.secret }}
- {name: SLIPWAY_BLOB_CACHE_CREDENTIALS_FILE, value: /etc/slipway/bucket/credentials}
{{- end }}
{{- end }}
{{- if and (or (eq .name "container") (and (eq .name "build") .root.Values.signing.sif)) .root.Values.signing.secret }}
- {name: SLIPWAY_SIGNING_KEY_FILE, value: /etc/slipway/signing/signing-key}
{{- with .root.Values.signing.retired }}
- {name: SLIPWAY_SIGNING_RETIRED_KEYS, value: "/etc/slipway/signing/{{ join ",/etc/slipway/signing/" . }}"}
{{- end }}
{{- if .root.Values.signing.sif }}
- {name: SLIPWAY_SIGN_SIF, value: "true"}
{{- end }}
{{- end }}
{{- if and (eq .name "build") .root.Values.autoscaling.builders }}
- {name: SLIPWAY_BUILDERS_ON_DEMAND, value: "true"}
{{- end }}
{{- range $key, $value := .own.settings }}
- {name: SLIPWAY_{{ upper $key }}, value: {{ $value | quote }}}
{{- end }}
{{- end }}

{{/* All daemons by name, so that builds that share a cache use the same daemon. */}}
{{- define "slipway.buildkits" -}}
{{- $out := list -}}
{{- range $i := until (int .Values.buildkit.replicas) -}}
{{- $out = append $out (printf "tcp://buildkit-%d.buildkit.%s.svc.cluster.local:1234" $i $.Values.buildkit.namespace) -}}
{{- end -}}
{{- join "," $out -}}
{{- end }}

{{/* Reports whether an autoscaler sets the number of pods. */}}
{{- define "slipway.isScaled" -}}
{{- $a := .root.Values.autoscaling -}}
{{- if or (and $a.cpu.enabled (hasKey $a.cpu.maxReplicas .name)) (and $a.builders (eq .name "builder")) }}yes{{ end -}}
{{- end }}

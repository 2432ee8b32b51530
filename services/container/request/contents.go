package request

import (
	"encoding/base64"
	"strings"

	containerv1 "slipway.dev/proto/gen/slipway/container/v1"

	"slipway.dev/services/internal/oci"
)

// withoutContents returns a configuration without contents, as it is stored with a request;
// nil if nothing else is set.
func withoutContents(c *containerv1.ContainerConfig) *containerv1.ContainerConfig {
	if c == nil || oci.NewAugmentation(c).IsZero() {
		return nil
	}
	out := &containerv1.ContainerConfig{
		Entrypoint: c.GetEntrypoint(), Cmd: c.GetCmd(), Env: c.GetEnv(), WorkingDir: c.GetWorkingDir(),
	}
	for _, l := range c.GetLayers() {
		out.Layers = append(out.Layers, layerWithoutContent(l))
	}
	return out
}

func layerWithoutContent(l *containerv1.Layer) *containerv1.Layer {
	location := l.GetLocation()
	if IsData(location) {
		location = DataPrefix
	}
	return &containerv1.Layer{
		Location: location, GzipDigest: l.GetGzipDigest(), GzipSize: l.GzipSize, TarDigest: l.GetTarDigest(),
	}
}

// Decode decodes base64 in the standard or the URL alphabet, with or without padding and
// line breaks (gateway/contract/container-service.md#base64).
func Decode(s string) ([]byte, error) {
	if strings.ContainsAny(s, " \t\r\n-_") {
		s = strings.Map(func(r rune) rune {
			switch r {
			case ' ', '\t', '\r', '\n':
				return -1
			case '-':
				return '+'
			case '_':
				return '/'
			}
			return r
		}, s)
	}
	return base64.RawStdEncoding.DecodeString(strings.TrimRight(s, "="))
}

// Decoded returns the decoded text of base64 that has been validated.
func Decoded(s string) string {
	raw, err := Decode(s)
	if err != nil {
		return ""
	}
	return string(raw)
}

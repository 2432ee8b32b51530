package main

import (
	"encoding/base64"
	"os"
	"strings"
)

func encode(text string) string { return base64.StdEncoding.EncodeToString([]byte(text)) }

// secretValues reads the output of secrets.sh and returns the secret values. A key is
// represented by a line from its middle.
func secretValues(path string) (map[string]string, error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	out := map[string]string{}
	secret := ""
	for line := range strings.Lines(string(raw)) {
		if _, name, ok := strings.Cut(line, "metadata: {name: "); ok {
			secret, _, _ = strings.Cut(name, ",")
			continue
		}
		key, encoded, ok := strings.Cut(strings.TrimSpace(line), ": ")
		if !ok || !strings.HasPrefix(line, "  ") || strings.HasSuffix(key, ".crt") || key == "config.json" {
			continue
		}
		value, err := base64.StdEncoding.DecodeString(encoded)
		if err != nil {
			return nil, err
		}
		text := strings.TrimSpace(string(value))
		if lines := strings.Split(text, "\n"); len(lines) > 2 {
			text = lines[len(lines)/2]
		}
		out[secret+"/"+key] = text
	}
	return out, nil
}

package config

import (
	"fmt"
	"strings"

	"slipway.dev/services/internal/limits"
)

// Page is the reference of all settings in Markdown; deploy/config.md holds it.
func Page() string {
	var b strings.Builder
	b.WriteString(`# Settings of slipwayd

Made by ` + "`slipwayd config --markdown`" + ` from services/internal/config; not edited by hand.

A value comes from a flag, else from the environment, else from the file that ` + "`--config`" + ` or ` + "`SLIPWAY_CONFIG`" + `
names (YAML), else it is the default. The flag of ` + "`data_dir`" + ` is ` + "`--data-dir`" + `, its variable ` + "`SLIPWAY_DATA_DIR`" + `.
Lists are written with commas, in the file also as YAML lists. ` + "`slipwayd config`" + ` prints the values in effect.
`)
	group := ""
	for _, f := range Fields(&Config{}) {
		if f.Group != group {
			group = f.Group
			fmt.Fprintf(&b, "\n## %s\n\n| key | default | meaning |\n|---|---|---|\n", group)
		}
		def := ""
		if f.Default != "" {
			def = "`" + f.Default + "`"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s |\n", f.Key, def, f.Help)
	}
	b.WriteString("\n" + Limits())
	b.WriteString(`
Traces go where the standard OpenTelemetry variables say (` + "`OTEL_EXPORTER_OTLP_ENDPOINT`" + ` and its relatives); without
one of them nothing is sent.
`)
	return b.String()
}

// File is the settings of c as a file that --config reads, in groups; secret values are
// left out. With explain each has its meaning above it.
func File(c *Config, explain bool) string {
	var b strings.Builder
	group := ""
	for _, f := range Fields(c) {
		if f.Group != group {
			if group != "" {
				b.WriteString("\n")
			}
			group = f.Group
			fmt.Fprintf(&b, "# %s\n", group)
		}
		if explain {
			fmt.Fprintf(&b, "\n# %s\n", f.Help)
		}
		switch text := f.String(); {
		case f.Secret && text != "":
			fmt.Fprintf(&b, "#%s: %s\n", f.Key, text)
		case text == "":
			fmt.Fprintf(&b, "%s: \"\"\n", f.Key)
		case strings.ContainsAny(text, "#*&!|>'\"%@`{}[]?") || strings.Contains(text, ": "):
			fmt.Fprintf(&b, "%s: %q\n", f.Key, text)
		default:
			fmt.Fprintf(&b, "%s: %s\n", f.Key, text)
		}
	}
	return b.String()
}

// Limits is the table of every bound in Markdown.
func Limits() string {
	defaults := map[string]string{}
	for _, f := range Fields(&Config{}) {
		defaults[f.Key] = f.Default
	}
	var b strings.Builder
	b.WriteString(`## Limits

What a stranger can send, store, or make the service fetch is bounded. Where a setting is named, it changes the bound;
the others are fixed (services/internal/limits).

| what | bound | setting | why |
|---|---|---|---|
`)
	for _, r := range limits.Rows() {
		bound, key := r.Bound, ""
		if r.Key != "" {
			bound, key = defaults[r.Key], "`"+r.Key+"`"
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", r.What, bound, key, r.Why)
	}
	return b.String()
}

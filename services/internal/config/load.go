package config

import (
	"cmp"
	"encoding"
	"errors"
	"fmt"
	"math"
	"net"
	"net/netip"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/spf13/pflag"
)

// A Field is one setting of a Config.
type Field struct {
	Key, Default, Help string
	// Group is the heading of the setting, e.g. "Builds".
	Group string
	// Common settings are set by most installations.
	Common bool
	// Secret values are redacted.
	Secret bool
	// Reload marks settings that a running process applies when it reads them again.
	Reload bool
	value  reflect.Value
}

// Flag returns the setting's name on the command line, without the dashes.
func (f Field) Flag() string { return strings.ReplaceAll(f.Key, "_", "-") }

// Env returns the setting's name in the environment.
func (f Field) Env() string { return "SLIPWAY_" + strings.ToUpper(f.Key) }

// Fields lists the settings of c in the order of the struct.
func Fields(c *Config) []Field {
	v := reflect.ValueOf(c).Elem()
	fields := make([]Field, 0, v.NumField())
	group := ""
	for i := range v.NumField() {
		tag := v.Type().Field(i).Tag
		if tag.Get("key") == "" { // not a setting
			continue
		}
		group = cmp.Or(tag.Get("group"), group)
		fields = append(fields, Field{
			Key: tag.Get("key"), Default: tag.Get("default"), Help: tag.Get("help"), Group: group, Common: tag.Get("common") == "true",
			Secret: tag.Get("secret") == "true", Reload: tag.Get("reload") == "true", value: v.Field(i),
		})
	}
	return fields
}

// AddFlags declares a flag for every setting, and --config for the file. A command's help
// only shows the flags of common settings.
func AddFlags(fs *pflag.FlagSet) {
	fs.String("config", "", "A YAML `file` with settings, one `key: value` a line. Also SLIPWAY_CONFIG.")
	for _, f := range Fields(&Config{}) {
		fs.String(f.Flag(), f.Default, f.Help)
		fs.Lookup(f.Flag()).Hidden = !f.Common
	}
}

// Load reads the settings from the flags that were set, then the environment, then the
// file, then the defaults. Its error lists all invalid values.
func Load(fs *pflag.FlagSet, env func(string) (string, bool)) (Config, error) {
	var c Config
	path, _ := fs.GetString("config")
	if path == "" {
		path, _ = env("SLIPWAY_CONFIG")
	}
	file, err := readFile(path)
	if err != nil {
		return c, err
	}
	var problems []error
	fields := Fields(&c)
	for _, f := range fields {
		text, from := f.Default, "the default"
		if v, ok := file[f.Key]; ok {
			text, from = v, path
		}
		if v, ok := env(f.Env()); ok {
			text, from = v, f.Env()
		}
		if flag := fs.Lookup(f.Flag()); flag != nil && flag.Changed {
			text, from = flag.Value.String(), "--"+f.Flag()
		}
		if err := f.set(text); err != nil {
			problems = append(problems, fmt.Errorf("%s (from %s): %w", f.Key, from, err))
		}
		if from != "the default" {
			c.Given = append(c.Given, f.Key)
		}
	}
	for key := range file {
		if !slices.ContainsFunc(fields, func(f Field) bool { return f.Key == key }) {
			problems = append(problems, fmt.Errorf("%s: there is no setting %q%s", path, key, suggestion(key, keys(fields))))
		}
	}
	c.followListeners()
	return c, errors.Join(problems...)
}

// followListeners derives unset client addresses from the addresses that this process
// listens on.
func (c *Config) followListeners() {
	if c.PublicURL == "" {
		c.PublicURL = c.addressOf(c.HTTPAddr)
	}
	switch {
	case c.PlatformURL != "":
	case c.PlatformHTTPAddr == "":
		c.PlatformURL = strings.TrimRight(c.PublicURL, "/") + "/api"
	default:
		c.PlatformURL = c.addressOf(c.PlatformHTTPAddr)
	}
}

// addressOf returns the URL of a listener for clients on this machine, or "" if it is
// unknown, as for port 0.
func (c *Config) addressOf(listener string) string {
	host, port, err := net.SplitHostPort(listener)
	if err != nil || port == "0" {
		return ""
	}
	if ip, err := netip.ParseAddr(host); host == "" || err == nil && (ip.IsUnspecified() || ip.IsLoopback()) {
		host = "localhost"
	}
	scheme := "http"
	if c.TLSCertFile != "" {
		scheme = "https"
	}
	return scheme + "://" + net.JoinHostPort(host, port)
}

// readFile reads a YAML mapping. A list becomes the comma-separated form of flags and
// environment.
func readFile(path string) (map[string]string, error) {
	if path == "" {
		return nil, nil
	}
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("reading the configuration: %w", err)
	}
	var values map[string]any
	if err := yaml.Unmarshal(raw, &values); err != nil {
		return nil, fmt.Errorf("%s is not a YAML map of settings: %w", path, err)
	}
	out := make(map[string]string, len(values))
	for k, v := range values {
		switch v := v.(type) {
		case nil:
			out[k] = ""
		case []any:
			parts := make([]string, len(v))
			for i, p := range v {
				parts[i] = fmt.Sprint(p)
			}
			out[k] = strings.Join(parts, ",")
		default:
			out[k] = fmt.Sprint(v)
		}
	}
	return out, nil
}

func (f Field) set(text string) error {
	switch p := f.value.Addr().Interface().(type) {
	case encoding.TextUnmarshaler:
		return p.UnmarshalText([]byte(text))
	case *string:
		*p = text
	case *bool:
		return parsed(p, text, "true or false", strconv.ParseBool, nil)
	case *int:
		return parsed(p, text, "a whole number", strconv.Atoi, nil)
	case *float64:
		number := func(text string) (float64, error) { return strconv.ParseFloat(text, 64) }
		return parsed(p, text, "a number such as 2 or 0.5", number, func(x float64) bool { return !math.IsNaN(x) && !math.IsInf(x, 0) })
	case *time.Duration:
		return parsed(p, text, "a duration such as 90s, 15m or 36h", time.ParseDuration, func(d time.Duration) bool { return d >= 0 })
	case *[]string:
		*p = nil
		for part := range strings.SplitSeq(text, ",") {
			if part = strings.TrimSpace(part); part != "" {
				*p = append(*p, part)
			}
		}
	default:
		return fmt.Errorf("settings of type %T are not supported", p)
	}
	return nil
}

// parsed sets a value from text. what is the expected form, for the error. If may is not nil,
// it reports whether the value is allowed.
func parsed[T any](into *T, text, what string, parse func(string) (T, error), may func(T) bool) error {
	v, err := parse(text)
	if err != nil || may != nil && !may(v) {
		return fmt.Errorf("must be %s, not %q", what, text)
	}
	*into = v
	return nil
}

// String returns the value as in the environment. A secret that is set is shown as
// "[redacted]".
func (f Field) String() string {
	if f.Secret && f.value.String() != "" {
		return "[redacted]"
	}
	switch v := f.value.Interface().(type) {
	case encoding.TextMarshaler:
		text, err := v.MarshalText()
		if err != nil {
			return err.Error()
		}
		return string(text)
	case []string:
		return strings.Join(v, ",")
	default:
		return fmt.Sprint(v)
	}
}

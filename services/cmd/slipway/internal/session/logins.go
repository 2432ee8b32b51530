package session

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"
)

// login is the stored login of a server.
type login struct {
	Token string `json:"token"`
	User  string `json:"user,omitempty"`
}

// logins is the content of the file of logins. A token is only sent to its own server.
type logins struct {
	// Server is the server of the last login, or of the context that was chosen since.
	Server string           `json:"server,omitempty"`
	Logins map[string]login `json:"logins,omitempty"` // by serverKey
	// Contexts are the names of servers, whose values are serverKeys.
	Contexts map[string]string `json:"contexts,omitempty"`
}

// errNoHome is returned if the environment does not determine where settings are stored.
var errNoHome = errors.New("neither XDG_CONFIG_HOME nor HOME is set, so there is no place for logins")

// loginsPath returns the path of the file according to the XDG base directory
// specification; "" if the environment does not determine it.
func loginsPath(env func(string) string) string {
	if dir := env("XDG_CONFIG_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "slipway", "logins.json")
	}
	if home := cmp.Or(env("HOME"), env("USERPROFILE")); home != "" {
		return filepath.Join(home, ".config", "slipway", "logins.json")
	}
	return ""
}

// readLogins reads the file. A missing file is an empty one.
func readLogins(path string) (logins, error) {
	var l logins
	if path == "" {
		return l, nil
	}
	raw, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return l, nil
	}
	if err == nil {
		err = json.Unmarshal(raw, &l)
	}
	if err != nil {
		return logins{}, fmt.Errorf("reading the logins; remove %s and run `slipway login` again: %w", path, err)
	}
	return l, nil
}

// write replaces the file, which only its owner can read.
func (l logins) write(path string) (err error) {
	if path == "" {
		return errNoHome
	}
	raw, err := json.MarshalIndent(l, "", "  ")
	if err != nil {
		return fmt.Errorf("storing the login: %w", err)
	}
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("storing the login: %w", err)
	}
	f, err := os.CreateTemp(dir, ".logins-*") // mode 0600
	if err != nil {
		return fmt.Errorf("storing the login: %w", err)
	}
	_, err = f.Write(append(raw, '\n'))
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return fmt.Errorf("storing the login: %w", errors.Join(err, os.Remove(f.Name())))
	}
	return nil
}

// serverKey normalizes the URL of a server.
func serverKey(u *url.URL) string {
	host := strings.ToLower(u.Host)
	for scheme, port := range map[string]string{"http": ":80", "https": ":443"} {
		if u.Scheme == scheme {
			host = strings.TrimSuffix(host, port)
		}
	}
	return u.Scheme + "://" + host + strings.TrimRight(u.EscapedPath(), "/")
}

package index

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strings"

	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/limits"
)

// Build creates an index file from an uncompressed repodata file (CEP 36). It reads the
// stream once and never holds all of it in memory. m describes the source; finish completes
// it when the stream has ended. On an error the existing file at path is unchanged. Build
// returns fault.Unavailable for a stream that is not repodata or is truncated.
func Build(path string, r io.Reader, m Meta, finish func(*Meta) error) (Meta, error) {
	w, err := Create(path)
	if err != nil {
		return Meta{}, err
	}
	in := &io.LimitedReader{R: r, N: limits.ChannelRepodata + 1}
	err = scan(in, found{record: w.add, info: func(raw []byte) error { return info(raw, &m) }})
	if in.N == 0 {
		err = fmt.Errorf("it has more than %d bytes", int64(limits.ChannelRepodata))
	}
	if err != nil {
		return Meta{}, errors.Join(notRepodata(err), w.Discard())
	}
	if err := finish(&m); err != nil {
		return Meta{}, errors.Join(err, w.Discard())
	}
	return w.Commit(m)
}

// notRepodata returns the fault for a malformed repodata file.
func notRepodata(err error) error {
	if errors.Is(err, errShort) || errors.Is(err, errSyntax) {
		return fault.Unavailable.New("The channel's list of packages is damaged: "+err.Error(), err)
	}
	return err
}

// info reads the "info" member of a repodata file.
func info(raw []byte, m *Meta) error {
	var in struct {
		BaseURL string `json:"base_url"`
	}
	// A base_url of another type is ignored.
	if json.Unmarshal(raw, &in) == nil {
		m.BaseURL = in.BaseURL
	}
	_, err := artifacts("https://channel.invalid/linux-64/", m.BaseURL)
	return err
}

// artifacts returns the URL of the folder with the artifacts, ending in a slash. A channel
// may name another folder (CEP 15), but only with http or https and without a login.
func artifacts(folder, base string) (string, error) {
	at, err := url.Parse(folder)
	if err != nil {
		return "", errors.New("the channel's URL is malformed")
	}
	rel, err := url.Parse(base)
	if err != nil || len(base) > limits.URL {
		return "", errors.New("the base_url of the channel is malformed")
	}
	to := at.ResolveReference(rel)
	if to.Scheme != at.Scheme && to.Scheme != "https" || to.Host == "" || to.User != nil || to.RawQuery != "" || to.Fragment != "" {
		return "", errors.New("the base_url of the channel cannot be used")
	}
	return strings.TrimSuffix(to.String(), "/") + "/", nil
}

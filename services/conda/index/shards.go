package index

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/url"
	"runtime"
	"strings"

	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/limits"
)

// A Hash is the SHA-256 of a compressed shard; the zero value means unknown.
type Hash [hashSize]byte

// String returns the hash in hex.
func (h Hash) String() string { return hex.EncodeToString(h[:]) }

// Shards is a channel's list of shards (CEP 16).
type Shards struct {
	// Hashes maps package names to the hashes of their shards.
	Hashes map[string]Hash
	// BaseURL is the location of the artifacts and ShardsURL that of the shards. Both are
	// relative to the folder of the list; "" is that folder.
	BaseURL, ShardsURL string
}

// ReadShards parses an uncompressed list of shards. It returns fault.Unavailable if it is
// malformed.
func ReadShards(raw []byte) (Shards, error) {
	text, err := repack(raw, 8*limits.ChannelShardIndex)
	if err != nil {
		return Shards{}, fault.Unavailable.New("The channel's list of shards is damaged: "+err.Error(), err)
	}
	var in struct {
		Info struct {
			BaseURL   string `json:"base_url"`
			ShardsURL string `json:"shards_base_url"`
		} `json:"info"`
		Shards map[string]string `json:"shards"`
	}
	if err := json.Unmarshal(text, &in); err != nil || in.Shards == nil || len(in.Shards) > limits.ChannelNames {
		return Shards{}, fault.Unavailable.New("The channel's list of shards does not follow CEP 16", err)
	}
	out := Shards{Hashes: make(map[string]Hash, len(in.Shards)), BaseURL: in.Info.BaseURL, ShardsURL: in.Info.ShardsURL}
	for name, text := range in.Shards {
		if !isWord([]byte(name)) {
			continue
		}
		h, err := hashOf(text)
		if err != nil {
			return Shards{}, fault.Unavailable.New("The channel's list of shards is damaged: "+err.Error(), nil)
		}
		out.Hashes[strings.ToLower(name)] = h
	}
	return out, nil
}

// Folder returns the base URL of the shards. folder is the URL of the list's folder.
func (s Shards) Folder(folder string) (*url.URL, error) {
	at, err := artifacts(folder, s.ShardsURL)
	if err != nil {
		return nil, err
	}
	return url.Parse(at)
}

// AddShard adds an uncompressed shard, which holds all records of a name. It omits records
// of other names.
func (w *Writer) AddShard(name string, h Hash, raw []byte) error {
	text, err := repack(raw, limits.ChannelNameBytes)
	if err != nil {
		return fault.Unavailable.New("A shard of the channel is damaged: "+err.Error(), err)
	}
	id, err := w.id([]byte(name))
	if err != nil {
		return err
	}
	w.list[id].shard = h
	err = scan(bytes.NewReader(text), found{
		record: func(fileName, raw []byte, f facts) error {
			if !strings.EqualFold(string(unquoted(f.name)), name) {
				f = facts{}
			}
			return w.add(fileName, raw, f)
		},
		info: func([]byte) error { return nil },
	})
	return notRepodata(err)
}

// Keep copies the records of a name from another index if they came from the same shard,
// and reports whether they did.
func (w *Writer) Keep(x *Index, name string, h Hash) (_ bool, err error) {
	defer runtime.KeepAlive(x)
	defer unreadable(&err)()
	i, ok := x.find(name)
	if !ok || x.entry(i).shard != h || h == (Hash{}) {
		return false, nil
	}
	id, err := w.id([]byte(name))
	if err != nil {
		return false, err
	}
	w.list[id].shard = h
	for r := range x.runs(i) {
		data, err := x.data(r)
		if err != nil {
			return false, fmt.Errorf("reading %s: %w", name, err)
		}
		if err := w.copy(id, data); err != nil {
			return false, err
		}
	}
	return true, nil
}

// copy writes the entries of a run.
func (w *Writer) copy(id uint32, data []byte) error {
	return entries(data, func(fileName, raw []byte) error {
		var f facts
		if _, err := object(raw, 0, maxDepth, f.take); err != nil {
			return fmt.Errorf("%w: %w", errDamaged, err)
		}
		if err := w.count(f.depends); err != nil {
			return err
		}
		w.meta.Records++
		w.begin(fileName, raw)
		return w.append(id, w.head, fileName, raw)
	})
}

package image

import (
	"errors"
	"strconv"
	"strings"

	"google.golang.org/protobuf/proto"

	containerv1 "slipway.dev/proto/gen/slipway/container/v1"
)

// compression is --build-compression: MODE[:LEVEL][,force]. The server validates the mode
// and level.
type compression struct{ as *containerv1.Compression } // nil for the default

// chunkedMode is the only mode with a colon.
const chunkedMode = "zstd:chunked"

// Set parses the flag.
func (c *compression) Set(s string) error {
	rest, force := strings.CutSuffix(s, ",force")
	mode, text, levelled := strings.Cut(rest, ":")
	if after, ok := strings.CutPrefix(rest, chunkedMode); ok && (after == "" || after[0] == ':') {
		mode, levelled = chunkedMode, after != ""
		text = strings.TrimPrefix(after, ":")
	}
	out := &containerv1.Compression{Mode: mode, Force: force}
	if levelled {
		level, err := strconv.ParseInt(text, 10, 32)
		if err != nil {
			return errors.New("must have a number after the colon, e.g. zstd:19")
		}
		out.Level = proto.Int32(int32(level))
	}
	if mode == "" || strings.Contains(rest, ",") {
		return errors.New("must be MODE, MODE:LEVEL, or one of these with ,force, e.g. zstd:19,force")
	}
	c.as = out
	return nil
}

// String returns the flag's value.
func (c *compression) String() string {
	if c.as == nil {
		return ""
	}
	out := c.as.GetMode()
	if c.as.Level != nil {
		out += ":" + strconv.Itoa(int(c.as.GetLevel()))
	}
	if c.as.GetForce() {
		out += ",force"
	}
	return out
}

// Type returns the flag's type for the help.
func (*compression) Type() string { return "MODE[:LEVEL]" }

package fuse

import (
	"strings"
	"testing"

	"slipway.dev/services/mount/erofs"
	"slipway.dev/services/mount/mounttest"
)

type noFiles struct{}

func (noFiles) ReadAt(_ int, p []byte, _ int64) error { clear(p); return nil }

// FuzzMessages sends messages of any kind for any index: neither may make the server panic or exceed the size of a response.
func FuzzMessages(f *testing.F) {
	p := mounttest.Pack(f, mounttest.Files{"bin/tool": "#!/bin/sh\n", "bin/link": "->tool", "lib/large": strings.Repeat("x", 10_000)})
	index := mounttest.Index(f, p)
	for op := range uint32(opcodes) {
		f.Add(index, op, uint64(rootNode), make([]byte, 64))
		f.Add(index, op, uint64(40), append([]byte("bin\x00"), make([]byte, 60)...))
	}
	f.Fuzz(func(t *testing.T, index []byte, op uint32, node uint64, body []byte) {
		x, err := erofs.Open(index)
		if err != nil {
			return
		}
		s := NewServer(-1, x, noFiles{}, Options{})
		out, _ := s.handle(request{op: opcode(op), node: node, body: body}, make([]byte, outHeader))
		if len(out) > outHeader+maxResponse {
			t.Errorf("a response of %d bytes", len(out))
		}
	})
}

func TestRequestsOfWrongLength(t *testing.T) {
	t.Parallel()
	for n := range inHeader + 1 {
		b := make([]byte, n)
		if n >= 4 {
			order.PutUint32(b, inHeader)
		}
		if _, ok := parseRequest(b); ok != (n == inHeader) {
			t.Errorf("%d bytes: %v", n, ok)
		}
	}
}

package fuse

import (
	"encoding/binary"
	"strconv"

	"golang.org/x/sys/unix"

	"slipway.dev/services/mount/erofs"
)

// An opcode is the type of a message of the kernel.
type opcode uint32

// Messages of the kernel, as linux/fuse.h numbers them.
const (
	opLookup      opcode = 1
	opForget      opcode = 2
	opGetattr     opcode = 3
	opReadlink    opcode = 5
	opOpen        opcode = 14
	opRead        opcode = 15
	opStatfs      opcode = 17
	opRelease     opcode = 18
	opGetxattr    opcode = 22
	opListxattr   opcode = 23
	opFlush       opcode = 25
	opInit        opcode = 26
	opOpendir     opcode = 27
	opReaddir     opcode = 28
	opReleasedir  opcode = 29
	opAccess      opcode = 34
	opInterrupt   opcode = 36
	opDestroy     opcode = 38
	opIoctl       opcode = 39
	opPoll        opcode = 40
	opBatchForget opcode = 42
	opReaddirplus opcode = 44
	opLseek       opcode = 46
	opStatx       opcode = 52
	opcodes              = 64
)

// names are the messages that are counted under their own names.
func (o opcode) name() string {
	switch o { //nolint:exhaustive // others have numbers
	case opLookup:
		return "lookup"
	case opForget, opBatchForget:
		return "forget"
	case opGetattr, opStatx:
		return "getattr"
	case opReadlink:
		return "readlink"
	case opOpen:
		return "open"
	case opRead:
		return "read"
	case opFlush, opRelease, opReleasedir:
		return "close"
	case opOpendir:
		return "opendir"
	case opReaddir, opReaddirplus:
		return "readdir"
	case opIoctl:
		return "ioctl"
	case opStatfs:
		return "statfs"
	case opInit, opDestroy:
		return "connection"
	}
	return "message" + strconv.Itoa(int(o))
}

// Flags of INIT.
const (
	flagAsyncRead       = 1 << 0
	flagReaddirplus     = 1 << 13
	flagNoOpen          = 1 << 17
	flagParallelDirOps  = 1 << 18
	flagMaxPages        = 1 << 22
	flagCacheSymlinks   = 1 << 23
	flagNoOpendir       = 1 << 24
	flagExplicitInvalid = 1 << 25
)

// wantedFlags are the capabilities that the server uses, if the kernel has them. With ASYNC_DIO, SIGKILL does not end a direct read
// that hangs.
const wantedFlags = flagAsyncRead | flagReaddirplus | flagNoOpen | flagParallelDirOps | flagMaxPages |
	flagCacheSymlinks | flagNoOpendir | flagExplicitInvalid

// Sizes of the structures of the protocol, in bytes.
const (
	inHeader    = 40
	outHeader   = 16
	attrSize    = 88
	entrySize   = 40 + attrSize
	initOutSize = 64
	statfsSize  = 80
	direntSize  = 24
)

const (
	rootNode = 1
	// forever is the time that the kernel may cache entries and attributes for, in seconds.
	forever = 365 * 24 * 3600
	// maxRead is the maximum size of one READ, which is an option of the mount, and maxWrite the minimum that the kernel
	// accepts: nothing is written.
	maxRead, maxWrite = 128 << 10, 4096
	// maxResponse is the maximum size of the contents of a response. A kernel takes a READ of less than it requested for the end
	// of the file, so that a larger READ, which no kernel should send, is an error.
	maxResponse = 1 << 20
	// requestSize is the size of the buffer for a message. The kernel requires at least 8 KiB.
	requestSize = 16 << 10
)

//nolint:gochecknoglobals // an immutable value
var order = binary.NativeEndian

// A request is a message of the kernel.
type request struct {
	op     opcode
	unique uint64
	node   uint64
	pid    uint32 // of the thread that waits; 0 if it is in another namespace
	body   []byte
}

func parseRequest(b []byte) (request, bool) {
	if len(b) < inHeader || uint64(order.Uint32(b)) != uint64(len(b)) {
		return request{}, false
	}
	return request{op: opcode(order.Uint32(b[4:])), unique: order.Uint64(b[8:]), node: order.Uint64(b[16:]), pid: order.Uint32(b[32:]), body: b[inHeader:]}, true
}

// name returns the name that a LOOKUP is about.
func (r request) name() (string, bool) {
	for i, c := range r.body {
		if c == 0 {
			return string(r.body[:i]), true
		}
	}
	return "", false
}

// span returns the offset and the size of a READ or READDIR.
func (r request) span() (offset uint64, size int, ok bool) {
	if len(r.body) < 24 {
		return 0, 0, false
	}
	return order.Uint64(r.body[8:]), int(order.Uint32(r.body[16:])), true
}

// appendAttr appends the attributes of an inode.
func (s *Server) appendAttr(b []byte, nid uint64, n erofs.Inode) []byte {
	at := len(b)
	b = append(b, make([]byte, attrSize)...)
	p := b[at:]
	order.PutUint64(p[0:], nid)
	order.PutUint64(p[8:], n.Size)
	order.PutUint64(p[16:], (n.Size+511)/512)
	for _, i := range []int{24, 32, 40} { // atime, mtime, ctime
		order.PutUint64(p[i:], uint64(n.Mtime))
	}
	order.PutUint32(p[60:], uint32(n.Mode)&^(unix.S_ISUID|unix.S_ISGID))
	order.PutUint32(p[64:], n.Nlink)
	order.PutUint32(p[68:], s.uid)
	order.PutUint32(p[72:], s.gid)
	order.PutUint32(p[80:], erofs.BlockSize)
	return b
}

// appendEntry appends an entry that the kernel may cache for ever.
func (s *Server) appendEntry(b []byte, nid uint64, n erofs.Inode) []byte {
	b = order.AppendUint64(b, nid)
	b = order.AppendUint64(b, 0) // generation
	b = order.AppendUint64(b, forever)
	b = order.AppendUint64(b, forever)
	b = order.AppendUint64(b, 0) // nanoseconds of both
	return s.appendAttr(b, nid, n)
}

// missingEntry is the response for a name that does not exist, which the kernel may cache for ever.
func missingEntry(b []byte) []byte {
	b = order.AppendUint64(b, 0)
	b = order.AppendUint64(b, 0)
	b = order.AppendUint64(b, forever)
	return append(b, make([]byte, entrySize-24)...)
}

// appendDirent appends an entry of a directory, padded to 8 bytes.
func appendDirent(b []byte, name string, nid uint64, kind uint32, next uint64) []byte {
	b = order.AppendUint64(b, nid)
	b = order.AppendUint64(b, next)
	b = order.AppendUint32(b, uint32(len(name)))
	b = order.AppendUint32(b, kind)
	b = append(b, name...)
	return append(b, make([]byte, -len(name)&7)...)
}

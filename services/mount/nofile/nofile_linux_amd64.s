#include "textflag.h"

// func get(limit *[2]uint64) (errno uintptr)
TEXT ·get(SB), NOSPLIT, $0-16
	MOVQ $0, DI             // this process
	MOVQ $7, SI             // RLIMIT_NOFILE
	MOVQ $0, DX             // no new limit
	MOVQ limit+0(FP), R10
	MOVL $302, AX           // prlimit64
	SYSCALL
	MOVQ AX, errno+8(FP)
	RET

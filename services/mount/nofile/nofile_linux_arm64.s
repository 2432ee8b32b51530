#include "textflag.h"

// func get(limit *[2]uint64) (errno uintptr)
TEXT ·get(SB), NOSPLIT, $0-16
	MOVD $0, R0             // this process
	MOVD $7, R1             // RLIMIT_NOFILE
	MOVD $0, R2             // no new limit
	MOVD limit+0(FP), R3
	MOVD $261, R8           // prlimit64
	SVC
	MOVD R0, errno+8(FP)
	RET

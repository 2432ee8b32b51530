package limits

// LogTail is how much of a log that is followed is kept in memory, in bytes, for
// all who follow it in one process.
const LogTail = 4 << 20

// clientRows bound what one client may ask for at a time, or hold open.
func clientRows() []Row {
	return []Row{
		{What: "log that is followed, kept in memory for all its followers in a process", Bound: size(LogTail), Why: "a reader who is further behind reads from the bus again"},
	}
}

package limits

// buildRows bound what a build and its steps may use.
func buildRows() []Row {
	return append([]Row{
		{What: "running builds of one user", Key: "build_running_user", Why: "whoever has fewest running goes next; a limit keeps slots free for who comes later"},
		{What: "running builds of one address without a user", Key: "build_running_anonymous", Why: "a build that sleeps holds its slot for its whole time: one slot stays for others where there are several"},
	}, stepRows()...)
}

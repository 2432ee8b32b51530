package main

// slipway is the server that several sections share: all roles in one process, on
// a real Redis where there is one, with limits on.
func (w *world) slipway() *slipwayServer {
	if w.shared == nil {
		w.shared = &slipwayServer{w.keep(w.slipwayCommand(w.redisSetting()...))}
	}
	return w.shared
}

// startSlipway starts one until the section ends.
func (w *world) startSlipway(env ...string) *slipwayServer {
	return &slipwayServer{w.start(w.slipwayCommand(env...))}
}

// slipwayCommand is slipwayd as the world knows it, with a data folder of its own.
func (w *world) slipwayCommand(env ...string) command {
	insecure := ""
	if w.up != nil {
		insecure = w.up.addr
	}
	return slipwayCommand(w.binary, w.dir, insecure, env...)
}

package main

import "fmt"

// measureSubmit measures container requests for an existing image, with a small
// containerConfig, at one process with everything embedded.
func measureSubmit(w *world, s *sheet) {
	const alone, together = "one client", "16 clients"
	w.push(appImage)
	server := w.startSlipway()
	request := server.submitting(requestFor(w.up, appImage, smallConfig))
	turns := []contender{
		load{call: request, workers: 1, count: w.requests / 10}.turn(w, alone, server, nil, nil),
		load{call: request, workers: 16, count: w.requests / 2}.turn(w, together, server, nil, nil),
	}
	alternate(w, 1, turns...)
	before := server.memory()
	r := alternate(w, w.rounds, turns...)
	after := server.memory()
	s.median(r, alone, p50, atMost(3))
	s.medians(r, alone, p99, cpu)
	s.median(r, together, rate, atLeast(2000))
	s.medians(r, together, p50, p99, cpu)
	s.remark = fmt.Sprintf("after %d more requests", w.rounds*(w.requests/10+w.requests/2))
	s.tell("memory before", before, "MB")
	s.tell("memory after", after, "MB")
	w.profile("submit", server, turns[1])
}

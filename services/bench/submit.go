package main

import "fmt"

// measureSubmit measures container requests for an existing image, with a small
// containerConfig, at one process with everything embedded, and with PostgreSQL where it
// is installed.
func measureSubmit(w *world, s *sheet) {
	w.push(appImage)
	w.submitOn(s, "sqlite", "", 4000)
	if postgresPrograms() != "" {
		w.submitOn(s, "postgres", w.startPostgres().addr, 3000)
	}
}

func (w *world) submitOn(s *sheet, name, database string, perSecond float64) {
	alone, together := name+", one client", name+", 16 clients"
	server := w.startSlipway("SLIPWAY_DATABASE_URL=" + database)
	defer server.stop()
	request := server.submitting(requestFor(w.up.addr, appImage, smallConfig))
	turns := []contender{
		load{call: request, workers: 1, count: w.requests / 10}.turn(w.ctx, alone, server.server, nil, nil),
		load{call: request, workers: 16, count: w.requests / 2}.turn(w.ctx, together, server.server, nil, nil),
	}
	alternate(w.ctx, 1, turns...)
	before := server.memory()
	r := alternate(w.ctx, w.rounds, turns...)
	after := server.memory()
	s.remark = ""
	s.median(r, alone, p50, atMost(3))
	s.medians(r, alone, p99, cpu)
	s.median(r, together, rate, atLeast(perSecond))
	s.median(r, together, p99, atMost(25))
	s.medians(r, together, p50, cpu)
	s.remark = fmt.Sprintf("after %d more requests", w.rounds*(w.requests/10+w.requests/2))
	s.tell(name+" memory before", before, "MB")
	s.tell(name+" memory after", after, "MB")
	w.profile("submit-"+name, server, turns[1])
}

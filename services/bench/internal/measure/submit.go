package measure

import (
	"fmt"

	"slipway.dev/services/bench/internal/figure"
	"slipway.dev/services/bench/internal/load"
	"slipway.dev/services/bench/internal/slipwayd"
	"slipway.dev/services/bench/internal/world"
)

// Submit measures container requests for an existing image with a small containerConfig, at
// one process with everything embedded, and with PostgreSQL if it is installed.
func Submit(w *world.World, s *figure.Sheet) {
	w.Push(world.AppImage)
	submitOn(w, s, "sqlite", "", 4000)
	if world.PostgresPrograms() != "" {
		submitOn(w, s, "postgres", w.StartPostgres().Addr, 3000)
	}
}

func submitOn(w *world.World, s *figure.Sheet, name, database string, perSecond float64) {
	alone, together := name+", one client", name+", 16 clients"
	server := w.StartSlipway("SLIPWAY_DATABASE_URL=" + database)
	defer server.Stop()
	request := server.Submitting(slipwayd.RequestFor(w.Up.Addr, world.AppImage, slipwayd.SmallConfig))
	turns := []figure.Contender{
		load.Load{Call: request, Workers: 1, Count: w.Requests / 10}.Turn(w.Ctx, alone, server.Server, nil, nil),
		load.Load{Call: request, Workers: 16, Count: w.Requests / 2}.Turn(w.Ctx, together, server.Server, nil, nil),
	}
	figure.Alternate(w.Ctx, 1, turns...)
	before := server.Memory()
	r := figure.Alternate(w.Ctx, w.Rounds, turns...)
	after := server.Memory()
	s.Remark = ""
	s.Median(r, alone, figure.P50, figure.AtMost(3))
	s.Medians(r, alone, figure.P99, figure.CPU)
	s.Median(r, together, figure.Rate, figure.AtLeast(perSecond))
	s.Median(r, together, figure.P99, figure.AtMost(25))
	s.Medians(r, together, figure.P50, figure.CPU)
	s.Remark = fmt.Sprintf("after %d more requests", w.Rounds*(w.Requests/10+w.Requests/2))
	s.Record(name+" memory before", before, "MB")
	s.Record(name+" memory after", after, "MB")
	w.Profile("submit-"+name, server, turns[1])
}

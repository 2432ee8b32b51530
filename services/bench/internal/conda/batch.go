package conda

import (
	"encoding/json"
	"math/rand/v2"
	"strings"
	"time"

	"slipway.dev/services/bench/internal/channel"
	"slipway.dev/services/bench/internal/figure"
	"slipway.dev/services/bench/internal/load"
	"slipway.dev/services/bench/internal/must"
	"slipway.dev/services/bench/internal/slipwayd"
	"slipway.dev/services/bench/internal/world"
)

const (
	// knownBatch is the number of environments in a call whose images all exist.
	knownBatch = 60
	// largeBatch is the number of requests in a large call, and distinctBatch how many of them
	// are different.
	largeBatch, distinctBatch = 1000, 300
)

// Batch measures calls with several container requests: for environments whose images exist, also
// compared with one call for each, and for environments that are not solved yet.
func Batch(w *world.World, s *figure.Sheet) {
	w.Push(world.BaseImage)
	measureKnown(w, s)
	measureUnsolved(w, s)
}

func measureKnown(w *world.World, s *figure.Sheet) {
	tree := channel.Tree(w)
	defer tree.Close()
	server := startPackages(w, tree)
	defer server.Stop()
	random := rand.New(rand.NewPCG(1, 2))
	var requests []string
	for range knownBatch {
		var some []string
		for _, i := range random.Perm(len(tree.Names))[:warmPackages] {
			some = append(some, tree.Names[i])
		}
		requests = append(requests, environment(w, tree, some...))
		server.Pullable(w.Ctx, requests[len(requests)-1])
	}
	r := figure.Alternate(w.Ctx, w.Rounds,
		figure.Contender{Name: "one call", Run: func() figure.Sample { return sendBatch(server, requests) }},
		figure.Contender{Name: "a call each", Run: func() figure.Sample { return sendEach(server, requests) }},
	)
	s.Remark = "60 environments of 20 packages, whose images exist"
	s.Median(r, "one call", figure.Took, figure.AtMost(500)) // milliseconds
	s.Medians(r, "a call each", figure.Took)
}

func measureUnsolved(w *world.World, s *figure.Sheet) {
	forge := forgeChannel(w)
	defer forge.Close()
	server := startForge(w, forge)
	defer server.Stop()
	distinct := manyEnvironments()[:distinctBatch]
	var requests []string
	for i := range largeBatch {
		requests = append(requests, environment(w, forge, distinct[i%distinctBatch]...))
	}
	s.Remark = "1,000 requests, 300 of them different and not solved yet, without builds"
	s.Check("unsolved", sendBatch(server, requests).Took, "s", figure.AtMost(15))
	s.Remark = ""
}

// sendBatch measures one call for all requests, none of which may fail.
func sendBatch(server *slipwayd.Server, requests []string) figure.Sample {
	client := load.Client(server.URL("/"), 1)
	defer client.CloseIdleConnections()
	began := time.Now()
	raw := must.Get(load.Once(client, load.Post(server.URL("/v1alpha2/containers"), `{"requests":[`+strings.Join(requests, ",")+`]}`)))
	took := time.Since(began).Seconds()
	var answer struct {
		Results []struct {
			Response struct {
				TargetImage string `json:"targetImage"`
			} `json:"response"`
			Message string `json:"message"`
		} `json:"results"`
	}
	must.Do(json.Unmarshal(raw, &answer))
	if len(answer.Results) != len(requests) {
		must.Fail("%d results of %d requests", len(answer.Results), len(requests))
	}
	for _, result := range answer.Results {
		if result.Response.TargetImage == "" {
			must.Fail("a request failed: %s", result.Message)
		}
	}
	return figure.Sample{Took: took}
}

// sendEach measures one call after another.
func sendEach(server *slipwayd.Server, requests []string) figure.Sample {
	began := time.Now()
	for _, r := range requests {
		server.Submit(r)
	}
	return figure.Sample{Took: time.Since(began).Seconds()}
}

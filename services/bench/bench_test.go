package main

import (
	"errors"
	"os"
	"testing"

	"slipway.dev/services/bench/internal/figure"
	"slipway.dev/services/bench/internal/must"
	"slipway.dev/services/bench/internal/world"
)

func TestFailureEndsItsSection(t *testing.T) {
	t.Parallel()
	w, err := world.New(t.Context(), world.Settings{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.Close() })
	report := &figure.Report{}
	broken := section{"x", func(_ *world.World, s *figure.Sheet) {
		s.Record("before", 1, "")
		must.Do(os.ErrNotExist)
		s.Record("after", 1, "")
	}}
	if err := broken.run(w, report.Sheet("x")); !errors.Is(err, os.ErrNotExist) || len(report.Figures) != 1 {
		t.Errorf("%v after %d figures", err, len(report.Figures))
	}
}

func TestSectionsByName(t *testing.T) {
	t.Parallel()
	if all, err := choose(nil); err != nil || len(all) != len(sections()) {
		t.Errorf("%d sections, %v", len(all), err)
	}
	if two, err := choose([]string{"submit", "tag"}); err != nil || len(two) != 2 {
		t.Errorf("%d sections, %v", len(two), err)
	}
	if _, err := choose([]string{"nothing"}); err == nil {
		t.Error("an unknown section was accepted")
	}
}

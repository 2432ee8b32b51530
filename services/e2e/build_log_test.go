package e2e

import (
	"bufio"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"slipway.dev/services/internal/testkit"
)

// TestBuildLogOf200MB follows a log that is much longer than the stored part, and limits the
// memory of the processes that forward it.
func TestBuildLogOf200MB(t *testing.T) {
	t.Parallel()
	const width, lines = 1000, 200_000
	up := testkit.NewRegistry(t, testkit.Open)
	eachBuildShape(t, []string{up.Host}, nil, func(t *testing.T, p *program) {
		base := up.Push(t, "base/busybox:1", busybox(t, true))
		answer := p.order(recipe("FROM "+base,
			`RUN busybox awk 'BEGIN { for (i = 1; i <= `+strconv.Itoa(lines)+`; i++) printf "line %0`+strconv.Itoa(width-6)+`d\n", i }'`))
		path := p.url + "/v1alpha1/builds/" + text(answer, "buildId") + "/logs"
		live := readLog(t, path+"?follow=true")
		if s := p.finished(t, answer); s["succeeded"] != true {
			t.Fatalf("the build ended as %v", s)
		}
		if stored := readLog(t, path); stored != live {
			t.Errorf("followed: %+v, stored: %+v", live, stored)
		}
		if live.first != 1 || live.last != lines || live.gaps != 1 || !live.spoken || live.head < 7<<20 || live.head > 8<<20 || live.tail < 1<<20 || live.tail > 2<<20 {
			t.Errorf("of %d lines these are stored: %+v", lines, live)
		}
		for _, proc := range p.procs {
			used := proc.peak()
			t.Logf("%s: %d MB at most", proc.name, used>>20)
			if used > proc.memoryBound() {
				t.Errorf("%s used %d MB", proc.name, used>>20)
			}
		}
	})
}

// A logSummary summarizes a log of numbered lines.
type logSummary struct {
	first, last, gaps, head, tail int
	spoken                        bool // a line reports that lines were left out
}

func readLog(t testing.TB, url string) (k logSummary) {
	t.Helper()
	resp, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	in := bufio.NewScanner(resp.Body)
	for in.Scan() {
		_, digits, ok := strings.Cut(in.Text(), " line 0")
		if strings.Contains(in.Text(), "left out: the log is too long") {
			k.spoken = true
		}
		n, err := strconv.Atoi(digits)
		if !ok || err != nil {
			continue
		}
		if k.first == 0 {
			k.first = n
		} else if n != k.last+1 {
			k.gaps++
		}
		if k.last = n; k.gaps == 0 {
			k.head += len(in.Text())
		} else {
			k.tail += len(in.Text())
		}
	}
	if err := in.Err(); err != nil {
		t.Error(err)
	}
	return k
}

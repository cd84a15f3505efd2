package main

import (
	"context"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"payonce/lab/chaos/plan"
	"payonce/lab/program"
	"payonce/lab/world"
)

// sampler reads the programs' metrics, and the mock PSP's lists of calls and webhooks, while the storm lasts: a process
// that is killed takes them with it.
type sampler struct {
	stage  *stage
	mix    plan.Mix
	client *world.Client

	seen     map[string]bool    // calls and tries that were counted before
	counters map[string]float64 // of the metrics, at the last look
}

const (
	sampleEvery = time.Second
	readLimit   = 2 * time.Second
	// maxSeen bounds the memory for calls: by then, the PSP has forgotten those that were seen first.
	maxSeen = 200_000
)

func newSampler(g *stage, mix plan.Mix) *sampler {
	return &sampler{stage: g, mix: mix, client: world.NewClient(), seen: map[string]bool{},
		counters: map[string]float64{}}
}

// run samples until ctx ends, and once more.
func (s *sampler) run(ctx context.Context) {
	for again := true; again; again = program.Wait(ctx, sampleEvery) {
		s.once(context.WithoutCancel(ctx))
	}
	s.once(context.WithoutCancel(ctx))
}

func (s *sampler) once(ctx context.Context) {
	// A PSP that was killed has forgotten them; one that is away gets them next time.
	_ = s.setFaults(ctx, s.mix)
	s.calls(ctx)
	s.webhooks(ctx)
	for _, p := range append(append([]*world.Process{}, s.stage.apis...), s.stage.reconcilers...) {
		s.metrics(ctx, p)
	}
}

// setFaults tells the PSP how often to fail.
func (s *sampler) setFaults(ctx context.Context, mix plan.Mix) error {
	return world.SetFaults(ctx, s.stage.world.PSP.Address, mix)
}

// calls counts the faults that the PSP has acted out.
func (s *sampler) calls(ctx context.Context) {
	var view struct {
		Requests []struct {
			Method  string `json:"method"`
			Key     string `json:"key"`
			At      string `json:"at"`
			Fault   string `json:"fault"`
			Outcome string `json:"outcome"`
		} `json:"requests"`
	}
	if s.get(ctx, s.stage.world.PSP.Address, "/_requests", &view) != nil {
		return
	}
	for _, r := range view.Requests {
		if r.Method == http.MethodPost && r.Fault != "" && s.first("call "+r.Key+r.At) {
			s.stage.tally.One("fault", r.Fault)
		}
		if r.Method == http.MethodPost && r.Outcome != "pending" && s.first("answer "+r.Key+r.At) {
			s.stage.tally.One("psp answer", r.Outcome)
		}
	}
}

// webhooks counts what has happened to them on their way.
func (s *sampler) webhooks(ctx context.Context) {
	type try struct {
		ID       string `json:"id"`
		Type     string `json:"type"`
		At       string `json:"at"`
		Try      int    `json:"try"`
		Status   int    `json:"status"`
		Disorder string `json:"disorder"`
	}
	var view struct {
		Tries   []try `json:"tries"`
		Dialect struct {
			Tries []try `json:"tries"`
		} `json:"dialect"`
	}
	if s.get(ctx, s.stage.world.PSP.Address, "/_webhooks", &view) != nil {
		return
	}
	for _, t := range append(view.Tries, view.Dialect.Tries...) {
		if !s.first("try " + t.ID + t.At + t.Disorder) {
			continue
		}
		s.stage.tally.One("webhook answer", strconv.Itoa(t.Status))
		s.stage.tally.One("webhook type", t.Type)
		for name := range strings.SplitSeq(t.Disorder, ",") {
			if name != "" {
				s.stage.tally.One("webhook", name)
			}
			if (name == "forge" || name == "stale") && t.Status == http.StatusNoContent {
				s.stage.tally.One("forgery taken", name)
			}
		}
	}
}

func (s *sampler) first(name string) bool {
	if len(s.seen) >= maxSeen {
		clear(s.seen)
	}
	if s.seen[name] {
		return false
	}
	s.seen[name] = true
	return true
}

// metrics adds what our own counters have grown by. They begin at zero with each start of a process.
func (s *sampler) metrics(ctx context.Context, p *world.Process) {
	raw, err := s.read(ctx, p.Operator, "/metrics")
	if err != nil {
		return
	}
	for line := range strings.Lines(string(raw)) {
		series, value, found := strings.Cut(strings.TrimSpace(line), " ")
		name, _, _ := strings.Cut(series, "{")
		n, err := strconv.ParseFloat(value, 64)
		if !found || err != nil || !strings.HasPrefix(name, "payonce_") || !strings.HasSuffix(name, "_total") {
			continue
		}
		series = strings.TrimPrefix(series, "payonce_")
		before := s.counters[p.Name+series]
		s.counters[p.Name+series] = n
		if n < before {
			before = 0
		}
		s.stage.tally.Add("metric", series, int(n-before))
	}
}

func (s *sampler) get(ctx context.Context, address, path string, into any) error {
	raw, err := s.read(ctx, address, path)
	if err != nil {
		return err
	}
	return json.Unmarshal(raw, into)
}

func (s *sampler) read(ctx context.Context, address, path string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, readLimit)
	defer cancel()
	a, err := s.client.Do(ctx, address, world.Request{Method: http.MethodGet, Path: path})
	return a.Body, err
}

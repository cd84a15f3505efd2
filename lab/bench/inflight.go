package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"regexp"
	"strconv"
	"sync"
	"time"

	"github.com/google/uuid"

	"payonce/lab/bench/load"
	"payonce/lab/bench/report"
	"payonce/lab/bench/rig"
	"payonce/lab/world"
)

const (
	waiters      = 1000 // as many as one tenant may have
	waitedKeys   = 10   // that they wait for
	atOnce       = 10_000
	waiterMemory = 20.0 // MB
	// usualWait is the default of IN_FLIGHT_WAIT, and usualPSP a provider that is slower than most.
	usualWait, usualPSP = 2 * time.Second, time.Second
	// mostTold is the share of callers that must be told of the success: 33 of 35.
	mostTold = 33.0 / 35.0
	// longestHold is how long an execution is held here. It fits into the longest PSP_TIMEOUT.
	longestHold = 12 * time.Second
	// manyAtPSP lets the PSP have all that this section sends.
	manyAtPSP = "PSP_IN_FLIGHT=1000"
	// churned requests make enough garbage for some collections.
	churned = 3000
)

// inFlight asks what a second request that waits for the first is worth to callers, and what it costs.
func (b *bench) inFlight(ctx context.Context, s *report.Section) error {
	callers, err := publicCallers(callersData)
	if err != nil {
		return err
	}
	s.Note = fmt.Sprintf("A first request is still running when its connection breaks, after %s: of %d public callers "+
		"that send again, as they were measured, how many are told of the success? Then %d requests that wait for %d keys, "+
		"and %d equal requests at once on %d keys.",
		breaksAfter, len(callers), waiters, waitedKeys, atOnce, waitedKeys)
	if err := tellCallers(ctx, b, s, callers); err != nil {
		return err
	}
	if err := b.waitersCost(ctx, s); err != nil {
		return err
	}
	return b.crowd(ctx, s)
}

// tellCallers plays each caller against each provider and each wait.
func tellCallers(ctx context.Context, b *bench, s *report.Section, callers []caller) error {
	waits := []time.Duration{0, 500 * time.Millisecond, time.Second, usualWait, 4 * time.Second, 8 * time.Second}
	psps := []time.Duration{300 * time.Millisecond, usualPSP, 3 * time.Second}
	told, errs := make([]int, len(waits)*len(psps)), make([]error, len(waits)*len(psps))
	var cells sync.WaitGroup
	for i, wait := range waits {
		api, err := b.start(ctx, b.db, rig.API, "IN_FLIGHT_WAIT="+wait.String(), manyAtPSP)
		if err != nil {
			return err
		}
		for j, psp := range psps {
			cells.Go(func() {
				at := i*len(psps) + j
				told[at], errs[at] = toldOf(ctx, callers, payer{api.Address, b.db.APIKey, psp})
			})
		}
	}
	b.progress("%d callers, %d waits, %d providers", len(callers), len(waits), len(psps))
	cells.Wait()
	b.stopAll()
	for i, wait := range waits {
		for j, psp := range psps {
			at, bar := i*len(psps)+j, report.Bar{}
			if errs[at] != nil {
				return errs[at]
			}
			if wait == usualWait && psp == usualPSP {
				bar = report.AtLeast(float64(int(mostTold * float64(len(callers)))))
			}
			s.Figures = append(s.Figures, report.Figure{
				What: fmt.Sprintf("told of the success: PSP %s, IN_FLIGHT_WAIT %s", psp, wait),
				Unit: fmt.Sprintf("of %d", len(callers)), Rounds: []float64{float64(told[at])}, Bar: bar,
			})
		}
	}
	return nil
}

// held are requests that wait.
type held struct{ connections []net.Conn }

func (h *held) end() {
	for _, c := range h.connections {
		_ = c.Close()
	}
}

// hold connects, and calls connected. Then it has an execution of each key begin, and the others wait for one of them.
func hold(ctx context.Context, p payer, api *world.Process, connected func() error) (*held, error) {
	h := &held{}
	for range waitedKeys + waiters {
		c, err := (&net.Dialer{}).DialContext(ctx, "tcp", api.Address)
		if err != nil {
			return h, err
		}
		h.connections = append(h.connections, c)
		if status, body := p.get(c); status != http.StatusUnauthorized { // The server has its buffers for it then.
			return h, fmt.Errorf("a connection is answered %d: %s", status, body)
		}
	}
	if err := connected(); err != nil {
		return h, err
	}
	keys := freshKeys()
	for i, c := range h.connections {
		go p.ask(c, keys[i%waitedKeys], "Prefer: wait=10\r\n") // its answer is of no interest
		if i == waitedKeys-1 {
			if err := untilFigure(ctx, api, "payonce_psp_requests_in_flight", waitedKeys); err != nil {
				return h, err
			}
		}
	}
	return h, untilFigure(ctx, api, "payonce_requests_waiting", waiters)
}

func freshKeys() (keys []string) {
	for range waitedKeys {
		keys = append(keys, uuid.Must(uuid.NewV7()).String())
	}
	return keys
}

// patient are settings with which an execution may be held for so long. Those of one round may be held in the next.
func patient() []string { return []string{"PSP_TIMEOUT=15s", "LEASE=60s", manyAtPSP} }

// waitersCost measures the memory of requests that wait, and what they cost payments.
func (b *bench) waitersCost(ctx context.Context, s *report.Section) error {
	// With a small GOGC, the heap has little in it that nobody needs any more.
	small, err := b.serve(ctx, b.db, append(patient(), "GOGC=10")...)
	if err != nil {
		return err
	}
	var connected, waiting float64
	h, err := hold(ctx, payer{small.Address, b.db.APIKey, longestHold}, small, func() (err error) {
		connected, err = memory(ctx, small)
		return err
	})
	defer h.end()
	if err != nil {
		return err
	}
	if err := churn(ctx, payer{address: small.Address}); err != nil {
		return err
	}
	if waiting, err = memory(ctx, small); err != nil {
		return err
	}
	s.Figures = append(s.Figures, report.Figure{
		What: fmt.Sprintf("%d waiting requests, without their connections", waiters),
		Unit: "MB", Rounds: []float64{waiting - connected}, Bar: report.AtMost(waiterMemory),
	})
	h.end()
	b.stopAll()

	api, err := b.serve(ctx, b.db, patient()...)
	if err != nil {
		return err
	}
	const clients = 8
	alone := b.loaded("API, nobody waits", api, load.Plan{Kind: load.New, Clients: clients,
		APIKeys: []string{b.db.APIKey}})
	beside := alone
	beside.name = "API, others wait"
	beside.run = func(ctx context.Context) (effort, error) {
		h, err := hold(ctx, payer{api.Address, b.db.APIKey, longestHold}, api, func() error { return nil })
		defer h.end()
		if err != nil {
			return effort{}, err
		}
		return alone.run(ctx)
	}
	slices, err := b.rounds(ctx, b.settings.few(), alone, beside)
	if err != nil {
		return err
	}
	tell(s, "API, new payments, nobody waits", paymentsUnit, slices[0])
	compare(s, fmt.Sprintf("new payments, %d wait ÷ nobody waits", waiters), slices[1], slices[0], rate, report.Bar{})
	b.stopAll()
	return nil
}

// crowd sends equal requests, all at once.
func (b *bench) crowd(ctx context.Context, s *report.Section) error {
	api, err := b.serve(ctx, b.db)
	if err != nil {
		return err
	}
	b.progress("%d equal requests on %d keys", atOnce, waitedKeys)
	p, keys := payer{api.Address, b.db.APIKey, usualPSP}, freshKeys()
	connections := make([]net.Conn, atOnce)
	for i := range connections {
		if connections[i], err = (&net.Dialer{}).DialContext(ctx, "tcp", api.Address); err != nil {
			return err
		}
		defer connections[i].Close()
	}
	var mu sync.Mutex
	answers, bodies := map[int]float64{}, map[string]bool{}
	var asking sync.WaitGroup
	for i, c := range connections {
		asking.Go(func() {
			_ = c.SetDeadline(time.Now().Add(time.Minute))
			status, body := p.ask(c, keys[i%waitedKeys], "")
			mu.Lock()
			defer mu.Unlock()
			if answers[status]++; status == http.StatusCreated {
				bodies[body] = true
			} else if status != http.StatusConflict && answers[status] == 1 {
				b.progress("answered %d: %s", status, body)
			}
		})
	}
	asking.Wait()
	figure := func(what string, n float64, bar report.Bar) {
		s.Figures = append(s.Figures, report.Figure{What: what, Rounds: []float64{n}, Bar: bar})
	}
	paid, busy := answers[http.StatusCreated], answers[http.StatusConflict]
	figure("equal requests: told the stored answer", paid, report.AtLeast(1))
	figure("equal requests: told 409", busy, report.Bar{})
	figure("equal requests: told something else, or nothing", atOnce-paid-busy, report.AtMost(0))
	var executed float64
	if err := b.db.Admin.QueryRow(ctx, "SELECT sum(attempt)::float8 FROM idempotency_keys WHERE key = ANY($1)", keys).
		Scan(&executed); err != nil {
		return fmt.Errorf("count the executions: %w", err)
	}
	most := max(executed, float64(len(bodies))) / waitedKeys
	figure("executions, and different answers, for each key", most, report.AtMost(1))
	return nil
}

// memory is what the heap and the stacks of a process take, in MB.
func memory(ctx context.Context, p *world.Process) (mb float64, err error) {
	for _, name := range []string{"go_memstats_heap_inuse_bytes", "go_memstats_stack_inuse_bytes"} {
		bytes, err := figureOf(ctx, p, name)
		if err != nil {
			return 0, err
		}
		mb += bytes / 1e6 //nolint:mnd // a million
	}
	return mb, nil
}

// untilFigure waits until a metric has come to a value.
func untilFigure(ctx context.Context, p *world.Process, name string, value float64) error {
	ctx, cancel := context.WithTimeoutCause(ctx, longestHold, fmt.Errorf("%s has not come to %v", name, value))
	defer cancel()
	return world.Until(ctx, 50*time.Millisecond, func() (bool, error) { //nolint:mnd // often
		n, err := figureOf(ctx, p, name)
		return n >= value, err
	})
}

// metricsOf reads the metrics of a process.
func metricsOf(ctx context.Context, p *world.Process) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+p.Operator+"/metrics", http.NoBody)
	if err != nil {
		return nil, err
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, fmt.Errorf("read metrics: %w", err)
	}
	defer res.Body.Close()
	page, err := io.ReadAll(res.Body)
	if err != nil {
		return nil, fmt.Errorf("read metrics: %w", err)
	}
	return page, nil
}

// figureOf reads one metric of a process.
func figureOf(ctx context.Context, p *world.Process, name string) (float64, error) {
	page, err := metricsOf(ctx, p)
	if err != nil {
		return 0, err
	}
	found := regexp.MustCompile(`(?m)^` + name + ` (.*)$`).FindSubmatch(page)
	if found == nil {
		return 0, fmt.Errorf("no metric %s", name)
	}
	return strconv.ParseFloat(string(found[1]), 64)
}

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/go-json-experiment/json"

	"payonce/lab/bench/report"
	"payonce/lab/bench/rig"
	"payonce/lab/world"
)

const (
	endpointsOfBench = 40
	badEndpoints     = 8 // of them, half hang and half refuse
	backlogPerOne    = 50
	eventsEvery      = 100 * time.Millisecond
	deliveriesUnit   = "deliveries/s"
)

// merchants receive events, each at an endpoint of its own: /0, /1 and so on.
type merchants struct {
	server *httptest.Server
	bad    bool // the first ones hang or refuse

	mu       sync.Mutex
	late     []float64     // milliseconds from the event to each delivery to an endpoint that works
	awaited  int           // deliveries to endpoints that work
	complete chan struct{} // closed with the last of them
}

// deliveries asks what the delivery of an event costs, and what endpoints that hang or refuse take from the others.
func (b *bench) deliveries(ctx context.Context, s *report.Section) error {
	s.Note = fmt.Sprintf("%d tenants with an endpoint each. Backlog: %d events of each, written at once. Steadily: an event of each every %s; the time "+
		"is from the event to its delivery. %d of the endpoints hang until the timeout, or answer 500; of these, nothing is counted.",
		endpointsOfBench, backlogPerOne, eventsEvery, badEndpoints)
	turns := []version{{name: "all work"}, {name: fmt.Sprintf("%d do not work", badEndpoints)}}
	var contenders []contender
	for i := range turns {
		m := &merchants{bad: i == 1}
		m.server = httptest.NewServer(m)
		defer m.server.Close()
		defer m.server.CloseClientConnections()
		d, reconciler, err := m.delivered(ctx, b, fmt.Sprintf("deliveries_%d", i))
		if err != nil {
			return err
		}
		if !m.bad {
			contenders = append(contenders, contender{name: "backlog", process: reconciler,
				run: func(ctx context.Context) (effort, error) { return m.drain(ctx, d) }})
		}
		contenders = append(contenders, contender{name: turns[i].name, process: reconciler,
			run: func(ctx context.Context) (effort, error) { return m.follow(ctx, d, b.settings.slice()) }})
	}
	slices, err := b.rounds(ctx, b.settings.Rounds, contenders...)
	if err != nil {
		return err
	}
	tell(s, "backlog", deliveriesUnit, slices[0])
	tell(s, "steadily, all work", deliveriesUnit, slices[1])
	tell(s, "steadily, "+turns[1].name, deliveriesUnit, slices[2])
	compare(s, "p99 of those that work, with those that do not ÷ alone", slices[2], slices[1], p99,
		report.AtMost(1.2))
	return nil
}

// delivered is a database with these merchants, and a reconciler that delivers to them.
func (m *merchants) delivered(ctx context.Context, b *bench, name string) (*rig.Database, *world.Process, error) {
	d, err := b.rig.NewDatabase(ctx, name)
	if err == nil {
		err = d.MakeMerchants(ctx, endpointsOfBench, m.server.URL)
	}
	if err != nil {
		return nil, nil, err
	}
	p, err := b.start(ctx, d, rig.Reconciler, append(seldom(), "EVENTS_ALLOW_HTTP=true",
		"EVENTS_ALLOW_NETWORKS=127.0.0.0/8", "PSP_IN_FLIGHT=7")...)
	return d, p, err
}

func (m *merchants) expect(n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.late, m.awaited, m.complete = nil, n, make(chan struct{})
}

// drain has a backlog delivered.
func (m *merchants) drain(ctx context.Context, d *rig.Database) (effort, error) {
	const n = endpointsOfBench * backlogPerOne
	m.expect(n)
	began := time.Now()
	if err := d.MakeEvents(ctx, backlogPerOne); err != nil {
		return effort{}, err
	}
	err := m.await(ctx)
	return effort{perSecond: n / time.Since(began).Seconds(), requests: n}, err
}

// follow writes events for a while.
func (m *merchants) follow(ctx context.Context, d *rig.Database, during time.Duration) (effort, error) {
	times := int(during / eventsEvery)
	works := endpointsOfBench
	if m.bad {
		works -= badEndpoints
	}
	m.expect(times * works)
	tick := time.NewTicker(eventsEvery)
	defer tick.Stop()
	began := time.Now()
	for range times {
		if err := d.MakeEvents(ctx, 1); err != nil {
			return effort{}, err
		}
		<-tick.C
	}
	if err := m.await(ctx); err != nil {
		return effort{}, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	slices.Sort(m.late)
	of := func(percent int) float64 { return m.late[len(m.late)*percent/100] }
	return effort{perSecond: float64(times*works) / time.Since(began).Seconds(), requests: float64(times * works),
		p50: of(50), p99: of(99)}, nil
}

func (m *merchants) await(ctx context.Context) error {
	select {
	case <-m.complete:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(resolveLimit):
		return errors.New("not all events are delivered")
	}
}

func (m *merchants) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body) // also if it hangs: only then it sees that the caller has gone
	if n, _ := strconv.Atoi(strings.TrimPrefix(r.URL.Path, "/")); m.bad && n < badEndpoints {
		if n%2 == 0 {
			<-r.Context().Done()
		}
		w.WriteHeader(http.StatusInternalServerError)
		return
	}
	var event struct {
		Version int64 `json:"version"`
	}
	if err == nil {
		err = json.Unmarshal(body, &event)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	w.WriteHeader(http.StatusNoContent)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.late = append(m.late, float64(time.Now().UnixMicro()-event.Version)/1000)
	if len(m.late) == m.awaited {
		close(m.complete)
	}
}

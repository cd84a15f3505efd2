package load_test

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"payonce/internal/gateway/native"
	"payonce/lab/bench/load"
)

func TestEveryRequestIsCountedOnce(t *testing.T) {
	t.Parallel()
	s := serve(t, nil)
	r := run(t, s, load.Plan{Kind: load.New, Requests: 500, APIKey: "demo"})
	clean(t, r)
	if n := len(s.seen()); n != 500 || r.Requests != 500 || r.Statuses[http.StatusCreated] != 500 {
		t.Fatalf("the server saw %d, counted are %d, by status %v; want 500", n, r.Requests, r.Statuses)
	}
	if !(0 < r.P50Micros && r.P50Micros <= r.P99Micros && r.P99Micros <= r.MaxMicros) || r.CPUSeconds <= 0 ||
		r.PerSecond <= 0 {
		t.Fatalf("the figures make no sense: %+v", r)
	}
	for _, got := range s.seen() {
		if got.method != "POST" || got.path != "/payments" || got.header.Get("Authorization") != "Bearer demo" ||
			got.header.Get("Content-Type") != "application/json" ||
			got.body != `{"customerId":"cus-1","amountCents":12000,"currency":"KRW"}` {
			t.Fatalf("the server was sent %+v", got)
		}
	}
}

func TestConnectionsAreDealtOutToAllServers(t *testing.T) {
	t.Parallel()
	// Nobody is answered before all are there, so each connection has sent one request.
	var all sync.WaitGroup
	all.Add(4)
	meet := func(w http.ResponseWriter, _ *http.Request) {
		all.Done()
		all.Wait()
		w.WriteHeader(http.StatusCreated)
	}
	one, other := serve(t, meet), serve(t, meet)
	clean(t, run(t, one, load.Plan{Kind: load.New, Clients: 4, More: []string{other.address}, Requests: 4}))
	if a, b := len(one.seen()), len(other.seen()); a != 2 || b != 2 {
		t.Fatalf("the servers saw %d and %d of 4 requests, want 2 each", a, b)
	}
}

func TestFreshKeysNeverRepeat(t *testing.T) {
	t.Parallel()
	s := serve(t, nil)
	run(t, s, load.Plan{Kind: load.New, Requests: 500, Body: `{"id":"{fresh}"}`})
	run(t, s, load.Plan{Kind: load.New, Requests: 500, Body: `{"id":"{fresh}"}`})
	keys := s.keys()
	for i, key := range keys {
		id, err := uuid.Parse(key)
		if err != nil || id.Version() != 7 || id.Variant() != uuid.RFC4122 || len(key) != 36 {
			t.Fatalf("the key %q is no UUID of version 7: %v", key, err)
		}
		if age := time.Since(time.Unix(id.Time().UnixTime())); age < 0 || age > patience*time.Second {
			t.Fatalf("the key %q is %s old", key, age)
		}
		if body := s.seen()[i].body; body != `{"id":"`+key+`"}` {
			t.Fatalf("the body %s has another id than the key %s", body, key)
		}
	}
	slices.Sort(keys)
	if n := len(slices.Compact(keys)); n != 1000 {
		t.Fatalf("%d keys are different, want 1000", n)
	}
}

func TestReplayMakesItsPaymentsFirstAndRepeatsThemInTurn(t *testing.T) {
	t.Parallel()
	s := serve(t, nil)
	r := run(t, s, load.Plan{Kind: load.Replay, Clients: 1, Keys: 20, Requests: 50})
	clean(t, r)
	keys := s.keys()
	if len(keys) != 70 || r.Requests != 50 {
		t.Fatalf("the server saw %d, counted are %d; want 20 + 50 and 50", len(keys), r.Requests)
	}
	for i, key := range keys {
		if key != keys[i%20] {
			t.Fatalf("request %d has the key %s, want %s", i, key, keys[i%20])
		}
	}
}

func TestReplayOfPaymentsThatCannotBeMadeIsAnError(t *testing.T) {
	t.Parallel()
	s := serve(t, func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "canary", http.StatusTooManyRequests) })
	_, err := load.Run(t.Context(), load.Plan{Address: s.address, Kind: load.Replay, Clients: 1, Keys: 2,
		Seconds: patience})
	if err == nil || !strings.Contains(err.Error(), "status 429: canary") {
		t.Fatalf("error %v, want one that quotes the answer", err)
	}
}

func TestKeysOfTheListAreSentInTurn(t *testing.T) {
	t.Parallel()
	s := serve(t, nil)
	clean(t, run(t, s, load.Plan{Kind: load.Replay, Clients: 1, KeyList: []string{"key-1", "key-2"}, Requests: 4}))
	if got := s.keys(); !slices.Equal(got, []string{"key-1", "key-2", "key-1", "key-2"}) {
		t.Fatalf("sent were %v", got)
	}
}

func TestWebhooksAreGenuine(t *testing.T) {
	t.Parallel()
	s := serve(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })
	body := `{"type":"charge.succeeded","data":{"idempotencyKey":"{key}","id":"ch_{fresh}"}}`
	clean(t, run(t, s, load.Plan{Kind: load.Webhook, Requests: 40, WebhookSecret: secret, Body: body,
		KeyList: []string{"a", "b"}}))
	v, err := native.NewVerifier([]string{secret}, time.Minute, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	ids := map[string]bool{}
	for _, got := range s.seen() {
		id := got.header.Get("webhook-id")
		if _, err := v.Verify(id, got.header.Get("webhook-timestamp"), got.header.Get("webhook-signature"),
			[]byte(got.body)); err != nil {
			t.Fatalf("%v: %+v", err, got)
		}
		ids[id] = true
	}
	if len(ids) != 40 {
		t.Fatalf("%d ids, want 40", len(ids))
	}
}

func TestRacersMeetAtOneKeyOrAtNone(t *testing.T) {
	t.Parallel()
	for kind, want := range map[load.Kind]int{load.Same: 5, load.Apart: 5 * 8} {
		s := serve(t, nil)
		r := run(t, s, load.Plan{Kind: kind, Racers: 8, Rounds: 5})
		clean(t, r)
		keys := s.keys()
		slices.Sort(keys)
		if n := len(slices.Compact(slices.Clone(keys))); len(keys) != 40 || n != want {
			t.Errorf("%s: %d requests with %d keys, want 40 with %d", kind, len(keys), n, want)
		}
		if len(r.RoundMicros) != 5 || r.Requests != 40 || slices.Max(r.RoundMicros) != r.MaxMicros {
			t.Errorf("%s: %d rounds of %d requests, the longest %v of %v", kind, len(r.RoundMicros), r.Requests,
				r.MaxMicros, r.RoundMicros)
		}
	}
}

// Each round's requests are on their way before the first of them is answered.
func TestRoundIsSentAtOnce(t *testing.T) {
	t.Parallel()
	arrived, all := make(chan struct{}, 8), make(chan struct{})
	s := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		arrived <- struct{}{}
		if len(arrived) == cap(arrived) {
			close(all)
		}
		<-all
		w.WriteHeader(http.StatusConflict)
	})
	r := run(t, s, load.Plan{Kind: load.Same, Racers: 8, Rounds: 1})
	clean(t, r)
	if r.Statuses[http.StatusConflict] != 8 {
		t.Fatalf("statuses %v, want 8 conflicts", r.Statuses)
	}
}

func TestWarmUpIsNotCounted(t *testing.T) {
	t.Parallel()
	s := serve(t, func(http.ResponseWriter, *http.Request) {})
	r := run(t, s, load.Plan{Kind: load.Get, Path: "/any?x=1", WarmUpSeconds: 0.1, Requests: 10})
	clean(t, r)
	if n := len(s.seen()); r.Requests != 10 || n <= 10 || s.seen()[0].path != "/any?x=1" {
		t.Fatalf("counted are %d of %d to %s, want 10 of more", r.Requests, n, s.seen()[0].path)
	}
}

func TestWhoGivesUpIsNotKeptWaiting(t *testing.T) {
	t.Parallel()
	for name, rate := range map[string]float64{"closed": 0, "open": 0.001} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithCancel(t.Context())
			s := serve(t, func(_ http.ResponseWriter, r *http.Request) {
				cancel()
				<-r.Context().Done()
			})
			r, err := load.Run(ctx, load.Plan{
				Address: s.address, Kind: load.New, Clients: 1, Rate: rate, Seconds: 3000, GraceSeconds: 3000,
			})
			if err != nil || r.Lost != 1 || r.Requests != 0 {
				t.Fatalf("%+v, %v; want one request without an answer", r, err)
			}
		})
	}
}

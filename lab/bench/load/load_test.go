package load_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"go.uber.org/goleak"

	"payonce/internal/gateway"
	"payonce/internal/gateway/native"
	"payonce/lab/bench/load"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience bounds every wait for an event, in seconds. Reaching it is a failure, not a measurement.
const patience = 20

const secret = "whsec_ZGVtby13ZWJob29rLXNlY3JldC1mb3ItcGF5b25jZSEh"

// sent is what a server was sent.
type sent struct {
	method, path, body string
	header             http.Header
}

// serve answers 201, or what handle does. It returns its address, and what it was sent so far.
func serve(t *testing.T, handle http.HandlerFunc) (address string, all func() []sent) {
	t.Helper()
	var mu sync.Mutex
	var seen []sent
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		mu.Lock()
		seen = append(seen, sent{r.Method, r.URL.Path, string(body), r.Header})
		mu.Unlock()
		if handle == nil {
			w.WriteHeader(http.StatusCreated)
			return
		}
		handle(w, r)
	}))
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	return server.Listener.Addr().String(), func() []sent {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(seen)
	}
}

// run carries out the plan, with 3 clients unless it says otherwise.
func run(t *testing.T, p load.Plan) load.Result {
	t.Helper()
	p.Seconds, p.Clients = patience, max(p.Clients, 3)
	if p.APIKeys == nil {
		p.APIKeys = []string{"demo"}
	}
	r, err := load.Run(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func keysOf(all []sent) (keys []string) {
	for _, each := range all {
		keys = append(keys, each.header.Get("Idempotency-Key"))
	}
	return keys
}

func TestEveryRequestIsAPaymentWithAKeyOfItsOwnAndCountedOnce(t *testing.T) {
	t.Parallel()
	address, all := serve(t, nil)
	r := run(t, load.Plan{Address: address, Kind: load.New, Requests: 500, APIKeys: []string{"demo", "other"}})
	if err := r.Clean(0); err != nil || r.Requests != 500 || len(all()) != 500 {
		t.Fatalf("the server saw %d, counted are %+v (%v); want 500", len(all()), r, err)
	}
	if !(0 < r.P50Micros && r.P50Micros <= r.P99Micros && r.PerSecond > 0) {
		t.Fatalf("the figures make no sense: %+v", r)
	}
	by := map[string]int{}
	for _, got := range all() {
		by[got.header.Get("Authorization")]++
		if got.method != "POST" || got.path != "/payments" ||
			got.body != `{"customerId":"cus-1","amountCents":12000,"currency":"KRW"}` {
			t.Fatalf("the server was sent %+v", got)
		}
	}
	if len(by) != 2 || by["Bearer demo"] != 250 || by["Bearer other"] != 250 {
		t.Fatalf("the payers are %v, want both in turn", by)
	}
	keys := keysOf(all())
	for _, key := range keys {
		if id, err := uuid.Parse(key); err != nil || id.Version() != 7 {
			t.Fatalf("the key %q is no UUID of version 7: %v", key, err)
		}
	}
	slices.Sort(keys)
	if n := len(slices.Compact(keys)); n != 500 {
		t.Fatalf("%d keys are different, want 500", n)
	}
}

func TestKeysOfAReplayAreSentInTurn(t *testing.T) {
	t.Parallel()
	address, all := serve(t, nil)
	if err := run(t, load.Plan{Address: address, Kind: load.Replay, Keys: []string{"a", "b"}, Requests: 40}).
		Clean(0); err != nil {
		t.Fatal(err)
	}
	count := map[string]int{}
	for _, key := range keysOf(all()) {
		count[key]++
	}
	if count["a"] != 20 || count["b"] != 20 {
		t.Fatalf("sent were %v", count)
	}
}

func TestWebhooksAreGenuine(t *testing.T) {
	t.Parallel()
	address, all := serve(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })
	err := run(t, load.Plan{Address: address, Kind: load.Webhook, Requests: 40, WebhookSecret: secret,
		Body: `{"type":"charge.succeeded","data":{"id":"ch_{fresh}"}}`}).Clean(0)
	if err != nil {
		t.Fatal(err)
	}
	psp, err := native.New("http://psp.test", "secret", gateway.DefaultLimits(), []string{secret}, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	ids := map[string]bool{}
	for _, got := range all() {
		delivery, err := psp.VerifyEvent(got.header, []byte(got.body))
		if err != nil {
			t.Fatalf("%v: %+v", err, got)
		}
		ids[delivery.ID] = true
	}
	if len(ids) != 40 {
		t.Fatalf("%d ids, want 40", len(ids))
	}
}

func TestUnexpectedAnswerIsCountedAndQuoted(t *testing.T) {
	t.Parallel()
	var n atomic.Int32
	address, _ := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		if n.Add(1) == 2 {
			w.Header().Set("X-Request-Id", "req-1") // the API's log has it, too
			http.Error(w, "canary", http.StatusTooManyRequests)
			return
		}
		w.WriteHeader(http.StatusCreated)
	})
	r := run(t, load.Plan{Address: address, Kind: load.New, Requests: 10})
	if err := r.Clean(0); r.Unexpected != 1 || r.Answers[429] != 1 || r.Answers[201] != 9 || err == nil ||
		!strings.HasSuffix(err.Error(), " status 429: req-1 canary\n") {
		t.Fatalf("%+v, %v", r, err)
	}
}

func TestLostAnswerIsCounted(t *testing.T) {
	t.Parallel()
	var n atomic.Int32
	address, _ := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		if n.Add(1) == 2 {
			panic(http.ErrAbortHandler)
		}
		w.WriteHeader(http.StatusCreated)
	})
	r := run(t, load.Plan{Address: address, Kind: load.New, Requests: 10})
	if r.Lost != 1 || r.Clean(0) == nil || r.Clean(1) != nil {
		t.Fatalf("%+v; want one request without an answer", r)
	}
}

func TestCallerThatGivesUpDoesNotWait(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	address, _ := serve(t, func(_ http.ResponseWriter, r *http.Request) {
		cancel()
		<-r.Context().Done()
	})
	r, err := load.Run(ctx, load.Plan{Address: address, Kind: load.New, APIKeys: []string{"demo"}, Clients: 1,
		Seconds: 3000})
	if err != nil || r.Lost != 1 || r.Requests != 0 {
		t.Fatalf("%+v, %v; want one request without an answer", r, err)
	}
}

func TestPlanThatMakesNoSenseIsRefused(t *testing.T) {
	t.Parallel()
	address, all := serve(t, nil)
	demo := []string{"demo"}
	for name, p := range map[string]load.Plan{
		"no clients":               {Address: address, Kind: load.New, APIKeys: demo, Seconds: 1},
		"no time":                  {Address: address, Kind: load.New, APIKeys: demo, Clients: 1},
		"nobody who pays":          {Address: address, Kind: load.New, Clients: 1, Seconds: 1},
		"a replay of nothing":      {Address: address, Kind: load.Replay, APIKeys: demo, Clients: 1, Seconds: 1},
		"a webhook without secret": {Address: address, Kind: load.Webhook, Clients: 1, Seconds: 1},
		"nobody there":             {Address: "127.0.0.1:1", Kind: load.New, APIKeys: demo, Clients: 1, Seconds: 1},
	} {
		if _, err := load.Run(t.Context(), p); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	if n := len(all()); n != 0 {
		t.Errorf("%d requests were sent all the same", n)
	}
}

// Not parallel: Command takes the process for its own.
func TestCommandReadsAPlanAndWritesItsResult(t *testing.T) {
	address, _ := serve(t, nil)
	var out strings.Builder
	plan := `{"Address":"` + address + `","Kind":"new","APIKeys":["demo"],"Clients":2,"Seconds":20,"Requests":7}`
	if err := load.Command(t.Context(), strings.NewReader(plan), &out); err != nil {
		t.Fatal(err)
	}
	var r load.Result
	if err := json.Unmarshal([]byte(out.String()), &r); err != nil || r.Requests != 7 {
		t.Fatalf("%v: %s", err, out.String())
	}
}

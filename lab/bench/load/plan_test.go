package load_test

import (
	"math"
	"net/http"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"

	"payonce/lab/bench/load"
)

func TestPlanThatMakesNoSenseIsRefused(t *testing.T) {
	t.Parallel()
	for name, edit := range map[string]func(*load.Plan){
		"no kind":                  func(p *load.Plan) { p.Kind = "" },
		"no address":               func(p *load.Plan) { p.Address = "" },
		"no clients":               func(p *load.Plan) { p.Clients = 0 },
		"too many clients":         func(p *load.Plan) { p.Clients = 1_000_000 },
		"no time":                  func(p *load.Plan) { p.Seconds = 0 },
		"no number":                func(p *load.Plan) { p.Rate = math.NaN() },
		"no status":                func(p *load.Plan) { p.Expect = []int{700} },
		"a replay of nothing":      func(p *load.Plan) { p.Kind = load.Replay },
		"keys of no replay":        func(p *load.Plan) { p.Keys = 1 },
		"keys of several lengths":  func(p *load.Plan) { p.Kind, p.KeyList = load.Replay, []string{"a", "bc"} },
		"a place without keys":     func(p *load.Plan) { p.Body = "{key}" },
		"a get of nothing":         func(p *load.Plan) { p.Kind = load.Get },
		"a body of a get":          func(p *load.Plan) { p.Kind, p.Path, p.Body = load.Get, "/", "x" },
		"a webhook about nothing":  func(p *load.Plan) { p.Kind, p.WebhookSecret = load.Webhook, secret },
		"a webhook without secret": func(p *load.Plan) { p.Kind, p.Body = load.Webhook, "{}" },
		"a race of nobody":         func(p *load.Plan) { p.Kind = load.Same },
		"a race with a rate":       func(p *load.Plan) { p.Kind, p.Racers, p.Rate = load.Same, 2, 1 },
		"rounds of no race":        func(p *load.Plan) { p.Rounds = 1 },
	} {
		s := serve(t, nil)
		p := load.Plan{Address: s.address, Kind: load.New, Clients: 1, Seconds: patience, Requests: 1}
		edit(&p)
		if _, err := load.Run(t.Context(), p); err == nil {
			t.Errorf("%s: no error", name)
		} else if strings.Contains(err.Error(), secret) {
			t.Errorf("%s: the error tells the secret: %v", name, err)
		}
		if n := len(s.seen()); n != 0 {
			t.Errorf("%s: %d requests were sent all the same", name, n)
		}
	}
}

func TestServerThatIsNotThereIsAnError(t *testing.T) {
	t.Parallel()
	if _, err := load.Run(t.Context(), load.Plan{Address: "127.0.0.1:1", Kind: load.New, Clients: 1,
		Seconds: 1}); err == nil {
		t.Fatal("no error")
	}
}

func TestRequestLargerThanTheSocketIsSentWhole(t *testing.T) {
	t.Parallel()
	s := serve(t, nil)
	big := strings.Repeat("x", 8<<20)
	clean(t, run(t, s, load.Plan{Kind: load.New, Requests: 2, Clients: 1, Body: big}))
	for _, got := range s.seen() {
		if got.body != big {
			t.Fatalf("the body has %d bytes, want %d", len(got.body), len(big))
		}
	}
}

func TestMoreHeadersAreSent(t *testing.T) {
	t.Parallel()
	s := serve(t, nil)
	clean(t, run(t, s, load.Plan{Kind: load.New, Requests: 1, Header: []string{"Prefer: respond-async"},
		Path: "/other"}))
	if got := s.seen()[0]; got.header.Get("Prefer") != "respond-async" || got.path != "/other" {
		t.Fatalf("sent was %+v", got)
	}
}

// Not parallel: Command takes the process for its own.
func TestCommandReadsAPlanAndWritesItsResult(t *testing.T) {
	s := serve(t, func(http.ResponseWriter, *http.Request) {})
	var out strings.Builder
	plan := `{"address":"` + s.address + `","kind":"get","path":"/","clients":2,"seconds":20,"requests":7}`
	if err := load.Command(t.Context(), strings.NewReader(plan), &out); err != nil {
		t.Fatal(err)
	}
	var r load.Result
	if err := json.Unmarshal([]byte(out.String()), &r); err != nil || r.Requests != 7 || r.Statuses[200] != 7 {
		t.Fatalf("%v: %s", err, out.String())
	}
	if err := load.Command(t.Context(), strings.NewReader(`{"adress":""}`), &out); err == nil {
		t.Fatal("a member that there is not is taken")
	}
}

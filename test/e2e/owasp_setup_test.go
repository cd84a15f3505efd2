package e2e

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/go-json-experiment/json"

	"payonce/demo/mockpsp"
	"payonce/demo/mockpsp/stripe"
	"payonce/internal/config"
	"payonce/internal/httpapi"
)

// The OWASP API Security Top 10 (2023), item by item, in owasp*_test.go. Each test takes the routes from openapi.yaml,
// so that one that is added later is covered, or named as not covered. What other tests hold already is named, not
// repeated.

// operation is one that openapi.yaml has.
type operation struct {
	method, path string
	operator     bool // on the operator's listener
	open         bool // needs no API key
	parameters   openapi3.Parameters
	body         *openapi3.Schema // of what it takes as JSON; nil if that is nothing
}

func (o operation) String() string { return o.method + " " + o.path }

// document is openapi.yaml.
func document(t testing.TB) *openapi3.T {
	t.Helper()
	d, err := openapi3.NewLoader().LoadFromData(httpapi.OpenAPI())
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// documented lists the operations for which all holds, in a fixed order.
func documented(t testing.TB, all ...func(operation) bool) (list []operation) {
	t.Helper()
	for path, item := range document(t).Paths.Map() {
		for method, description := range item.Operations() {
			o := operation{
				method: method, path: path, operator: len(item.Servers) > 0,
				open:       description.Security != nil && len(*description.Security) == 0,
				parameters: slices.Concat(item.Parameters, description.Parameters),
			}
			if description.RequestBody != nil {
				o.body = description.RequestBody.Value.Content["application/json"].Schema.Value
			}
			if !slices.ContainsFunc(all, func(holds func(operation) bool) bool { return !holds(o) }) {
				list = append(list, o)
			}
		}
	}
	slices.SortFunc(list, func(a, b operation) int { return strings.Compare(a.path+a.method, b.path+b.method) })
	if len(list) == 0 {
		t.Fatal("the document has no such operation: the test would pass for nothing")
	}
	return list
}

// Kinds of operations.
func needsKey(o operation) bool  { return !o.open }
func ofTenants(o operation) bool { return !o.operator && !o.open }

// takesMembers leaves webhooks out: they are stored as they come.
func takesMembers(o operation) bool { return o.body != nil && !strings.HasPrefix(o.path, "/webhooks/") }

// has reports whether the operation has a parameter.
func (o operation) has(in, name string) bool {
	return slices.ContainsFunc(o.parameters,
		func(p *openapi3.ParameterRef) bool { return p.Value.In == in && p.Value.Name == name })
}

// named fills the parameters of the path. One that nobody has thought of fails the test.
func (o operation) named(t testing.TB, values map[string]string) string {
	t.Helper()
	path := o.path
	for _, p := range o.parameters {
		if p.Value.In != "path" {
			continue
		}
		value, ok := values[p.Value.Name]
		if !ok {
			t.Fatalf("%s is new: say which %s to ask for", o, p.Value.Name)
		}
		path = strings.ReplaceAll(path, "{"+p.Value.Name+"}", value)
	}
	return path
}

// nobody are ids that nothing has.
func nobody() map[string]string {
	return map[string]string{
		"paymentId": "pay_01k9z3w5m8fk2v7q4d6h0r1txe", "refundId": "re_01k9z40a1b2c3d4e5f6g7h8jkm",
		"key":        "0123456789abcdef-nobody",
		"endpointId": "we_01k9z5a0b1c2d3e4f5g6h7j8km", "eventId": "evt_01k9z3w5m8fk2v7q4d6h0r1txe_1",
		"deadLetterId": "01a1fa62-0788-707e-9472-6f0b342d2a95", "file": "docs.js", "code": "not_found",
	}
}

// sides is a world with both listeners, and something of everything in it that belongs to acme.
type sides struct {
	*world
	ops  *world // the same, asked at the operator's listener
	acme map[string]string
}

func setupSides(t *testing.T, with ...func(*options)) *sides {
	t.Helper()
	w := setup(t, append(with, func(o *options) {
		o.settings = takesWebhooks
	})...)
	ops := *w
	ops.api, ops.http = &httptest.Server{URL: "http://localhost:8081"}, w.openOps().http
	return &sides{world: w, ops: &ops}
}

// takesWebhooks has the API take the webhooks of each PSP.
func takesWebhooks(c *config.API) {
	c.WebhookSecrets = []string{mockpsp.DemoWebhookSecret}
	c.StripeSecret, c.StripeWebhookSecrets = stripe.DemoSecret, []string{stripe.DemoWebhookSecret}
}

// furnish makes an endpoint, a payment, a refund, a dead letter and an event of acme's. Until then, API keys can be
// added.
func (s *sides) furnish() {
	s.t.Helper()
	key, refundKey, stuck := freshKey(), freshKey(), freshKey()
	endpoint := s.do(call{method: "POST", path: "/webhook-endpoints", body: newEndpoint})
	endpoint.expect(s.t, http.StatusCreated, "")
	s.do(call{method: "PUT", path: "/events/feed", as: globexKey, body: `{"enabled":true}`}).expect(s.t, http.StatusOK,
		"")
	paid := s.pay(key, "pm_ok")
	paid.expect(s.t, http.StatusCreated, "")
	payment := paid.text(s.t, "paymentId")
	refunded := s.refund(payment, refundKey, `{"amountCents":1}`)
	refunded.expect(s.t, http.StatusCreated, "")
	s.pay(stuck, "pm_wrong_amount").expect(s.t, http.StatusAccepted, "")
	var deadLetters struct{ Data []struct{ ID string } }
	list := s.ops.do(call{method: "GET", path: "/operator/dead-letters", as: resolvingKey})
	if err := json.Unmarshal(list.body, &deadLetters, json.MatchCaseInsensitiveNames(true)); err != nil ||
		len(deadLetters.Data) != 1 {
		s.t.Fatalf("%v\n%s", err, list.body)
	}
	s.acme = map[string]string{
		"paymentId": payment, "refundId": refunded.text(s.t, "refundId"), "key": key,
		"deadLetterId": deadLetters.Data[0].ID,
		"file":         "docs.js", "code": "not_found", "refundKey": refundKey,
		"endpointId": endpoint.text(s.t, "endpointId"), "eventId": s.event(payment),
	}
}

// at is the listener that an operation is on.
func (s *sides) at(o operation) *world {
	if o.operator {
		return s.ops
	}
	return s.world
}

// callOf is a good request for an operation, by a key that may make it.
func (s *sides) callOf(o operation) call {
	s.t.Helper()
	values := s.acme
	if values == nil {
		values = nobody()
	}
	c := call{method: o.method, path: o.named(s.t, values), as: acmeKey}
	if o.operator {
		c.as = resolvingKey
	}
	if o.has("header", "Idempotency-Key") {
		c.key = freshKey()
	}
	switch o.path {
	case "/payments":
		if o.method == http.MethodPost {
			c.body = order("pm_ok")
		}
	case "/payments/{paymentId}/refunds":
		if o.method == http.MethodPost {
			c.body = `{"amountCents":1}`
		}
	case "/webhook-endpoints":
		if o.method == http.MethodPost {
			c.body = newEndpoint
		}
	case "/webhook-endpoints/{endpointId}/rotate":
		c.body = `{"overlapSeconds":60}`
	case "/events/{eventId}/redeliver":
		c.body = `{"endpointId":"` + values["endpointId"] + `"}`
	case "/events/feed":
		c.body = `{"enabled":true}`
	case "/operator/dead-letters/plan":
		c.body = `{"action":"retry"}`
	case "/operator/dead-letters/run":
		c.body = `{"plan":"x","reason":"a reason"}`
	case "/operator/search":
		c.path += "?q=" + values["key"]
	case "/operator/dead-letters/{deadLetterId}/resolve":
		c.body = decision("executed", 1)
	case "/webhooks/psp":
		c.as, c.body = "-", `{"type":"charge.succeeded","data":{}}`
	case "/webhooks/stripe":
		c.as, c.body = "-", `{"id":"evt_owasp","object":"event","type":"payment_intent.succeeded","data":{"object":{}}}`
	default:
		if o.body != nil {
			s.t.Fatalf("%s is new: say what to send", o)
		}
	}
	return c
}

// unmoved checks that nothing has happened to what furnish has made, nor anything been added.
func (s *sides) unmoved() {
	s.t.Helper()
	got := fmt.Sprint(s.count("SELECT count(*) FROM payments"), s.count("SELECT count(*) FROM refunds"),
		s.count("SELECT count(*) FROM idempotency_keys"),
		s.count("SELECT count(*) FROM dead_letters WHERE status = 'open'"), s.count(
			"SELECT count(*) FROM operator_actions"), s.count("SELECT count(*) FROM webhook_events"))
	if want := "2 1 3 1 0 0"; got != want {
		s.t.Errorf("payments, refunds, keys, dead letters, decisions and webhooks are %s, want %s", got, want)
	}
}

// unchecked asks a handler what the document says nothing about.
func unchecked(h http.Handler, c call) reply {
	r := httptest.NewRequest(c.method, c.path, strings.NewReader(c.body))
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Authorization", "Bearer "+c.as)
	r.Header.Set("Idempotency-Key", c.key)
	rec := httptest.NewRecorder()
	h.ServeHTTP(rec, r)
	return reply{status: rec.Code, header: rec.Result().Header, body: rec.Body.Bytes()}
}

package stripe

import (
	"context"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"payonce/internal/gateway"
)

func TestLookupEndsOnlyWhatItMay(t *testing.T) {
	t.Parallel()
	record := gateway.Record{
		Object: gateway.ChargeObject, ID: "pi_1", Account: "acct_canary", Key: key, Reference: "pay_canary",
		AmountMinor: 12000,
		Currency:    "USD", Status: "succeeded", Created: today(),
	}
	refusal := record
	refusal.Status, refusal.DeclineCode = "declined", "insufficient_funds"
	final := gateway.NotFound{Final: true}
	for status, want := range map[string][4]gateway.Lookup{ // EndNothing, EndUnsent, EndWaiting, EndDecided
		"succeeded":  same(gateway.Found{Records: []gateway.Record{record}}),
		"declined":   same(gateway.Found{Records: []gateway.Record{refusal}}),
		"canceled":   same(final),
		"processing": same(gateway.Waiting{Reason: "processing"}),
		"requires_action": {gateway.Waiting{Reason: "requires_action"},
			gateway.Waiting{Reason: "requires_action"}, final, final},
		"requires_confirmation":   {gateway.NotFound{}, final, final, final},
		"requires_payment_method": {gateway.NotFound{}, final, final, final},
		"requires_capture":        same(gateway.LookupFailed{Reason: "answer without a verdict"}),
	} {
		for i, end := range ends() {
			s := scripted(t, map[string][]answer{readLine: {ok(intentIs(status))},
				cancelLine: {ok(intentIs("canceled"))}, searchLine: {searchOf()}})
			l := newClient(t, s.URL).Lookup(t.Context(), aCharge(), end)
			if diff := cmp.Diff(want[i], l); diff != "" {
				t.Errorf("%s, end %s: lookup differs (-want +got):\n%s", status, end, diff)
			}
			if l == final && status != "canceled" && !slices.Contains(s.lines(), cancelLine) {
				t.Errorf("%s, end %s: final without a cancel", status, end)
			}
		}
	}
}

func same(l gateway.Lookup) [4]gateway.Lookup { return [4]gateway.Lookup{l, l, l, l} }

func ends() []gateway.End {
	return []gateway.End{gateway.EndNothing, gateway.EndUnsent, gateway.EndWaiting, gateway.EndDecided}
}

// If a person asks, what was executed under the key is found wherever it is, and nothing is ended beside it. What is
// found has our key exactly, and was executed.
func TestPersonsQuestionFindsAllThatWasExecutedUnderTheKey(t *testing.T) {
	t.Parallel()
	lost := replace(intentIs("succeeded"), "pi_1", "pi_lost")
	lost = replace(lost, "pay_canary", "pay_lost")
	of := func(ids ...string) (records []string) { return ids }
	for name, row := range map[string]struct {
		own   string
		found answer
		want  []string
		label string
	}{
		"a lost one":             {"requires_confirmation", searchOf(lost), of("pi_lost"), "lookup_found"},
		"a lost one beside ours": {"succeeded", searchOf(lost), of("pi_1", "pi_lost"), "lookup_found"},
		"ours alone":             {"succeeded", searchOf(intentIs("succeeded")), of("pi_1"), "lookup_found"},
		"one that waits": {"canceled", searchOf(replace(lost, `"succeeded"`, `"processing"`)), nil,
			"lookup_ended"},
		"another key": {"canceled", searchOf(replace(lost, key, key+"1")), nil, "lookup_ended"},
		"no mark of ours": {"canceled", searchOf(replace(lost, `"origin":"payonce:here",`, ``)), nil,
			"lookup_ended"},
		"what is no intent": {"canceled", searchOf(`{"object":"charge"}`), nil, "lookup_ended"},
	} {
		for _, end := range []gateway.End{gateway.EndNothing, gateway.EndDecided} {
			s := scripted(t, map[string][]answer{readLine: {ok(intentIs(row.own))}, searchLine: {row.found}})
			l := newClient(t, s.URL).Lookup(t.Context(), aCharge(), end)
			found, _ := l.(gateway.Found)
			var got []string
			for _, r := range found.Records {
				got = append(got, r.ID)
			}
			if l.Label() != row.label || !slices.Equal(got, row.want) {
				t.Errorf("%s, end %s: %s %q", name, end, l.Label(), got)
			}
			const query = `metadata['idempotency_key']:"` + key + `"`
			if asked := s.seen()[0].form.Get("query"); asked != query {
				t.Errorf("searched for %q", asked)
			}
		}
	}
}

// Another intent under the key says nothing about ours: if ours cannot be read, nothing is known.
func TestIntentThatCannotBeReadIsNotFoundMissingBesideAnother(t *testing.T) {
	t.Parallel()
	lost := replace(replace(intentIs("succeeded"), "pi_1", "pi_lost"), "pay_canary", "pay_lost")
	for _, end := range []gateway.End{gateway.EndNothing, gateway.EndDecided} {
		s := scripted(t, map[string][]answer{readLine: {{status: 500}}, searchLine: {searchOf(lost)}})
		if l, failed := newClient(t, s.URL).Lookup(t.Context(), aCharge(), end).(gateway.LookupFailed); !failed {
			t.Errorf("end %s: %T %+v", end, l, l)
		}
	}
}

// A search that fails proves nothing, so nothing is ended and released by it. A look goes on without it if there is an
// intent to read.
func TestSearchThatFailsEndsNothing(t *testing.T) {
	t.Parallel()
	for name, a := range map[string]answer{"500": {status: 500}, "lost": {lost: true}, "cut": ok(`{"data":[`)} {
		s := scripted(t, map[string][]answer{readLine: {ok(intentIs("requires_confirmation"))}, searchLine: {a}})
		c := newClient(t, s.URL)
		if l, failed := c.Lookup(t.Context(), aCharge(), gateway.EndDecided).(gateway.LookupFailed); !failed {
			t.Errorf("%s: %T %+v", name, l, l)
		}
		if l := c.Lookup(t.Context(), aCharge(), gateway.EndNothing); l != (gateway.NotFound{}) {
			t.Errorf("%s, a look: %T %+v", name, l, l)
		}
		unmade := aCharge()
		unmade.ObjectID = ""
		if l, failed := c.Lookup(t.Context(), unmade, gateway.EndNothing).(gateway.LookupFailed); !failed {
			t.Errorf("%s, a look without an intent: %T %+v", name, l, l)
		}
	}
}

// A key may have quotes and backslashes. In a search they are escaped.
func TestQuotedKeyIsSearchedFor(t *testing.T) {
	t.Parallel()
	if got := quoted(`a"b\c'd`); got != `"a\"b\\c'd"` {
		t.Errorf("quoted as %s", got)
	}
}

func TestIntentThatStillWaitsAfterACancelIsNotEnded(t *testing.T) {
	t.Parallel()
	for _, status := range []string{"requires_confirmation", "requires_action"} {
		for _, a := range []answer{ok(intentIs(status)),
			{status: 400, body: problemOf("invalid_request_error", "x", intentIs(status))}} {
			s := scripted(t, map[string][]answer{readLine: {ok(intentIs(status))}, cancelLine: {a}})
			l := newClient(t, s.URL).Lookup(t.Context(), aCharge(), gateway.EndWaiting)
			if l != (gateway.LookupFailed{Reason: "the PSP has not cancelled it"}) {
				t.Errorf("%s: lookup %T %+v", status, l, l)
			}
		}
	}
}

func TestForeignIntentIsNeverCancelled(t *testing.T) {
	t.Parallel()
	for name, body := range map[string]string{
		"no origin":         replace(intentIs("requires_confirmation"), `"origin":"payonce:here",`, ``),
		"another reference": replace(intentIs("requires_confirmation"), `pay_canary`, `pay_other`),
		"another amount":    replace(intentIs("requires_confirmation"), `12000`, `12001`),
	} {
		s := scripted(t, map[string][]answer{readLine: {ok(body)}})
		if l, failed := newClient(t, s.URL).Lookup(t.Context(), aCharge(),
			gateway.EndWaiting).(gateway.LookupFailed); !failed {
			t.Errorf("%s: lookup %+v", name, l)
		}
	}
}

// The caller judges the record.
func TestExecutedIntentOfSomebodyElseIsFoundAsAContradiction(t *testing.T) {
	t.Parallel()
	foreign := replace(intentIs("succeeded"), `"origin":"payonce:here",`, ``)
	s := scripted(t, map[string][]answer{readLine: {ok(foreign)}})
	l := newClient(t, s.URL).Lookup(t.Context(), aCharge(), gateway.EndUnsent)
	found, is := l.(gateway.Found)
	if !is {
		t.Fatalf("lookup %T %+v", l, l)
	}
	contradicts(t, aCharge().Judge(found.Records[0]), "record has another key")

	s = scripted(t, map[string][]answer{readLine: {ok(replace(intentIs("declined"), "12000", "12001"))}})
	l = newClient(t, s.URL).Lookup(t.Context(), aCharge(), gateway.EndUnsent)
	if found, is = l.(gateway.Found); !is {
		t.Fatalf("of a decline: lookup %T %+v", l, l)
	}
	contradicts(t, aCharge().Judge(found.Records[0]), "record has another amount")
}

func TestUnknownIntentIsFoundByMakingItAgain(t *testing.T) {
	t.Parallel()
	ch := aCharge()
	ch.ObjectID, ch.Attempt = "", 2
	// The first answer is repeated: it has the state of that time.
	s := scripted(t, map[string][]answer{
		createLine: {{status: 200, body: intentIs("requires_confirmation"), replayed: true}},
		readLine:   {ok(intentIs("succeeded"))},
	})
	l := newClient(t, s.URL).Lookup(t.Context(), ch, gateway.EndUnsent)
	if found, is := l.(gateway.Found); !is || found.Records[0].ID != "pi_1" {
		t.Fatalf("lookup %T %+v", l, l)
	}
	if got := s.seen()[0].header.Get("Idempotency-Key"); got != key+".create.2" {
		t.Fatalf("made again under %q", got)
	}
	if got := s.lines(); !slices.Equal(got, []string{createLine, readLine}) {
		t.Fatalf("sent %q", got)
	}
	silent := scripted(t, map[string][]answer{searchLine: {searchOf()}})
	if l := newClient(t, silent.URL).Lookup(t.Context(), ch, gateway.EndNothing); l != (gateway.NotFound{}) {
		t.Fatalf("lookup %T %+v", l, l)
	}
}

func TestCreationThatFailsForGoodProvesThatThereIsNoIntent(t *testing.T) {
	t.Parallel()
	refusal := problemOf("invalid_request_error", "amount_too_small", "")
	for name, row := range map[string]struct {
		a    answer
		want gateway.Lookup
	}{
		"400":           {answer{status: 400, body: refusal}, gateway.NotFound{Final: true}},
		"402":           {answer{status: 402, body: refusal}, gateway.NotFound{Final: true}},
		"404":           {answer{status: 404, body: refusal}, gateway.NotFound{Final: true}},
		"saved 500":     {answer{status: 500, replayed: true}, gateway.NotFound{Final: true}},
		"fresh 500":     {answer{status: 500}, gateway.LookupFailed{Reason: "PSP answered 500"}},
		"a proxy's 404": {answer{status: 404, body: "<html>"}, gateway.LookupFailed{Reason: "PSP answered 404"}},
		"302":           {answer{status: 302, body: refusal}, gateway.LookupFailed{Reason: "PSP answered 302"}},
		"401":           {answer{status: 401, body: refusal}, gateway.LookupFailed{Reason: "PSP answered 401"}},
		"403":           {answer{status: 403, body: refusal}, gateway.LookupFailed{Reason: "PSP answered 403"}},
		"409":           {answer{status: 409, body: refusal}, gateway.LookupFailed{Reason: "PSP answered 409"}},
		"429":           {answer{status: 429, body: refusal}, gateway.LookupFailed{Reason: "PSP answered 429"}},
		"lost":          {answer{lost: true}, gateway.LookupFailed{Reason: "connection lost"}},
		"malformed":     {ok("{}"), gateway.LookupFailed{Reason: "answer malformed"}},
		"another's": {ok(replace(intentIs("requires_confirmation"), "pay_canary", "pay_other")),
			gateway.LookupFailed{Reason: "answer has another reference"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := scripted(t, map[string][]answer{createLine: {row.a}})
			ch := aCharge()
			ch.ObjectID = ""
			if l := newClient(t, s.URL).Lookup(t.Context(), ch, gateway.EndUnsent); l != row.want {
				t.Fatalf("lookup %T %+v, want %+v", l, l, row.want)
			}
		})
	}
}

func TestIntentThatIsGoneProvesNothing(t *testing.T) {
	t.Parallel()
	s := scripted(t, map[string][]answer{readLine: {{status: 404, body: problemOf("invalid_request_error",
		"resource_missing", "")}}})
	if l := newClient(t, s.URL).Lookup(t.Context(), aCharge(),
		gateway.EndWaiting); l != (gateway.LookupFailed{Reason: "PSP answered 404"}) {
		t.Fatalf("lookup %T %+v", l, l)
	}
	// A person may have named the id. Nothing is proved by that, either, but the PSP has answered.
	if l := newClient(t, s.URL).Lookup(t.Context(), aCharge(),
		gateway.EndNothing); l != (gateway.LookupFailed{Reason: "PSP answered 404", Missing: true}) {
		t.Fatalf("a look: %T %+v", l, l)
	}
}

func TestObjectThatIsNoIntentIsMalformed(t *testing.T) {
	t.Parallel()
	for name, body := range map[string]string{
		"another object": replace(intentIs("succeeded"), `"payment_intent"`, `"setup_intent"`),
		"another id":     replace(intentIs("succeeded"), `"pi_1"`, `"ch_1"`),
		"no amount":      replace(intentIs("succeeded"), `"amount_received":12000`, `"amount_received":null`),
		"a name twice":   replace(intentIs("succeeded"), `"status"`, `"status":"canceled","status"`),
		"another case":   replace(intentIs("succeeded"), `"status"`, `"Status"`),
	} {
		if f := inspect(aCharge(), 200, []byte(body)); f.state != unclear {
			t.Errorf("%s: finding %+v", name, f)
		}
	}
}

// Both reasons of package wire say that there was no place. No other reason does.
func TestLookupWithoutAPlaceWasNotAsked(t *testing.T) {
	t.Parallel()
	release, entered := make(chan struct{}), make(chan struct{}, 1)
	s := scripted(t, nil)
	s.Config.Handler = http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		entered <- struct{}{}
		<-release
	})
	c := newClient(t, s.URL, func(c *Config) { c.Limits.InFlight, c.Limits.Queue = 1, soon })
	done := make(chan struct{})
	go func() {
		defer close(done)
		c.Lookup(context.WithoutCancel(t.Context()), aCharge(), gateway.EndNothing)
	}()
	<-entered
	unmade := aCharge()
	unmade.ObjectID = ""
	full := gateway.LookupFailed{Reason: "too many requests to the PSP in flight", NotAsked: true}
	for _, ch := range []gateway.Charge{aCharge(), unmade} {
		if l := c.Lookup(t.Context(), ch, gateway.EndUnsent); l != full {
			t.Errorf("lookup %T %+v", l, l)
		}
	}
	if l := c.Lookup(t.Context(), aRefund(), gateway.EndUnsent); l != full {
		t.Errorf("lookup %T %+v", l, l)
	}
	close(release)
	<-done
	over, end := context.WithCancel(t.Context())
	end()
	if l := c.Lookup(over, unmade, gateway.EndUnsent); l != (gateway.LookupFailed{Reason: "ended before it was sent",
		NotAsked: true}) {
		t.Errorf("lookup %T %+v", l, l)
	}
	s.Close()
	if l := newClient(t, s.URL).Lookup(t.Context(), unmade,
		gateway.EndUnsent); l != (gateway.LookupFailed{Reason: "no connection to the PSP"}) {
		t.Errorf("lookup %T %+v", l, l)
	}
}

// While the breaker is open, a lookup still reads, and its cancel is not sent: that is no failure of the PSP.
func TestLookupWhoseCancelIsNotSentWasNotAsked(t *testing.T) {
	t.Parallel()
	unsent := row{step: "cancel", answer: "not sent"}
	s := scripted(t, map[string][]answer{readLine: {ok(intentIs("requires_confirmation"))}})
	c := clientOf(t, unsent, s)
	want := gateway.LookupFailed{Reason: "breaker open", NotAsked: true}
	if l := c.Lookup(t.Context(), aCharge(), gateway.EndUnsent); l != want {
		t.Errorf("lookup %T %+v", l, l)
	}
	sentAre(t, unsent, s, readLine)
}

func TestRefundIsFoundByEitherMark(t *testing.T) {
	t.Parallel()
	const malformed = "answer has a malformed refund"
	other := replace(replace(refundIs("succeeded"), "re_canary", "re_other"), key, "other-key-0123456789")
	for name, row := range map[string]struct {
		pages []answer
		want  string
	}{
		"found": {[]answer{ok(listOf(false, other, refundIs("succeeded")))}, "lookup_found"},
		"on the second page": {[]answer{ok(listOf(true, other)), ok(listOf(false, refundIs("failed")))},
			"lookup_found"},
		"by its key": {[]answer{ok(listOf(false, replace(refundIs("succeeded"), "re_canary",
			"re_other")))}, "lookup_found"},
		"by its reference": {[]answer{ok(listOf(false, replace(refundIs("succeeded"), key, "other")))},
			"lookup_found"},
		"another's":             {[]answer{ok(listOf(false, other))}, "lookup_not_found"},
		"none":                  {[]answer{ok(listOf(false))}, "lookup_not_found"},
		"pending":               {[]answer{ok(listOf(false, refundIs("pending")))}, "lookup_waiting"},
		"a status of next year": {[]answer{ok(listOf(false, refundIs("resting")))}, "lookup_waiting"},
		"pending and failed": {[]answer{ok(listOf(false, refundIs("pending"), refundIs("failed")))},
			"lookup_waiting"},
		"pending and moved": {[]answer{ok(listOf(false, refundIs("pending"), refundIs("succeeded")))},
			"lookup_found"},
		"moved, then failed and pending": {[]answer{ok(listOf(false, refundIs("pending"), refundIs("failed"),
			refundIs("succeeded")))}, "lookup_found"},
		"a malformed currency": {[]answer{ok(listOf(false, replace(refundIs("succeeded"), "usd", "USD")))},
			"record with a malformed currency"},
		"malformed": {[]answer{ok(listOf(false, `{"id":"re_2"}`))}, malformed},
		"without a status": {[]answer{ok(listOf(false, replace(refundIs("succeeded"), `,"status":"succeeded"`, ``)))},
			malformed},
		"of another object": {[]answer{ok(listOf(false, replace(refundIs("succeeded"), `"refund"`, `"charge"`)))},
			malformed},
		"of another charge": {[]answer{ok(listOf(false, replace(other, `"pi_1"`, `"pi_2"`)))},
			"answer has another charge"},
		"said twice": {[]answer{ok(listOf(false, replace(refundIs("succeeded"), `"status"`,
			`"status":"failed","status"`)))}, malformed},
		"cancelled":        {[]answer{ok(listOf(false, refundIs("canceled")))}, "lookup_found"},
		"without has_more": {[]answer{ok(`{"object":"list","data":[]}`)}, "lookup_failed"},
		"without an end":   {[]answer{ok(listOf(true, other))}, "lookup_failed"},
		"500":              {[]answer{{status: 500}}, "lookup_failed"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := scripted(t, map[string][]answer{refundsLine: row.pages})
			l := newClient(t, s.URL).Lookup(t.Context(), aRefund(), gateway.EndWaiting)
			failed, _ := l.(gateway.LookupFailed)
			if l.Label() != row.want && failed.Reason != row.want {
				t.Fatalf("lookup %T %+v, want %s", l, l, row.want)
			}
			if got := s.seen()[0].form.Get("payment_intent"); got != "pi_1" {
				t.Fatalf("asked for the refunds of %q", got)
			}
		})
	}
}

// Without a charge, the list would be that of all charges. Without a mark, a refund without marks would be ours.
func TestRefundThatCannotBeNamedIsNotLookedUp(t *testing.T) {
	t.Parallel()
	s := scripted(t, nil)
	for name, edit := range map[string]func(*gateway.Refund){
		"charge": func(r *gateway.Refund) { r.ChargeID = "" }, "key": func(r *gateway.Refund) { r.Key = "" },
		"reference": func(r *gateway.Refund) { r.Reference = "" },
	} {
		r := aRefund()
		edit(&r)
		if l := newClient(t, s.URL).Lookup(t.Context(), r, gateway.EndNothing); l.Label() != "lookup_failed" {
			t.Errorf("no %s: lookup %T %+v", name, l, l)
		}
	}
}

// A database that was restored has lost the id of the intent, or the payment. Stripe has forgotten the key, and makes
// another intent: to cancel that one would prove nothing about the first.
func TestIntentThatWasExecutedUnderTheKeyIsFoundWithoutItsID(t *testing.T) {
	t.Parallel()
	fresh := map[string][]answer{createLine: {ok(intentIs("requires_confirmation"))},
		readLine: {ok(intentIs("requires_confirmation"))}, cancelLine: {ok(intentIs("canceled"))}}
	executed := strings.Replace(intentIs("succeeded"), `"pi_1"`, `"pi_0"`, 1)
	for name, c := range map[string]struct {
		search answer
		want   string
	}{
		"executed":          {searchOf(intentIs("canceled"), executed), "lookup_found"},
		"of another":        {searchOf(strings.Replace(executed, aCharge().Reference, "pay_other", 1)), "lookup_found"},
		"being processed":   {searchOf(intentIs("processing")), "lookup_failed"},
		"at the customer":   {searchOf(intentIs("requires_action")), "lookup_failed"},
		"only cancelled":    {searchOf(intentIs("canceled")), "lookup_ended"},
		"more than a page":  {ok(`{"object":"search_result","has_more":true,"data":[]}`), "lookup_failed"},
		"no search results": {ok(`{"object":"list","has_more":false,"data":[]}`), "lookup_failed"},
		"a server error":    {answer{status: http.StatusInternalServerError}, "lookup_failed"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			answers := maps.Clone(fresh)
			answers[searchLine] = []answer{c.search}
			s := scripted(t, answers)
			ch := aCharge()
			ch.ObjectID = ""
			got := newClient(t, s.URL).Lookup(t.Context(), ch, gateway.EndWaiting)
			if got.Label() != c.want {
				t.Errorf("lookup %+v (%s), want %s", got, got.Label(), c.want)
			}
			if query := s.seen()[0].form.Get("query"); query != `metadata['idempotency_key']:"`+key+`"` {
				t.Errorf("searched for %s", query)
			}
		})
	}
}

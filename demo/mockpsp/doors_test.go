package mockpsp

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
)

// door sends JSON as curl -d does.
func (p *running) door(path, body string) result {
	headers := header{"Authorization": "", "PSP-Account": "", "Content-Type": ""}
	if strings.HasPrefix(body, "{") {
		headers["Content-Type"] = "application/x-www-form-urlencoded"
	}
	return p.send(p.t.Context(), http.MethodPost, path, body, headers)
}

func (r result) view(t *testing.T) ledgerView {
	t.Helper()
	var v ledgerView
	if err := json.Unmarshal([]byte(r.body), &v, json.RejectUnknownMembers(true)); err != nil || r.status != 200 {
		t.Fatalf("answer %d %q is no entry: %v", r.status, r.body, err)
	}
	return v
}

func (p *running) disputed(charge, more string) ledgerView {
	p.t.Helper()
	return p.door("/_disputes", fmt.Sprintf(`{"chargeId":%q%s}`, charge, more)).view(p.t)
}

func (p *running) becomes(id, status string) result {
	return p.door("/_disputes/"+id, fmt.Sprintf(`{"status":%q}`, status))
}

func TestARefundInTheDashboardHasNoKeyAndTheSameBound(t *testing.T) {
	t.Parallel()
	r := newReceiver(t, receive204)
	p := setup(t, toldTo(r))
	charge := p.charge("key-1", "pm_ok").entry(t) // 1000
	r.next()
	first := p.door("/_refunds", `{"chargeId":"`+charge.ID+`","amountCents":300}`).view(t)
	want := entry{
		ID: first.ID, Object: "refund", Account: "acme", ChargeID: charge.ID, AmountCents: 300, Currency: "KRW",
		Status: "succeeded", CreatedAt: first.CreatedAt,
	}
	if first.entry != want {
		t.Errorf("refund %+v", first)
	}
	if listed := p.list("/v1/refunds").Data; len(listed) != 1 || listed[0] != want {
		t.Errorf("listed %+v", listed)
	}
	if told := r.next().event(t); told.Type != "refund.succeeded" || told.Data != want {
		t.Errorf("told %+v", told)
	}
	p.door("/_refunds", `{"chargeId":"`+charge.ID+`","amountCents":701}`).want(t, http.StatusPaymentRequired,
		"refund_exceeds_charge")
	p.refund(charge.ID, "key-2", "", 701).want(t, http.StatusPaymentRequired, "")
	if rest := p.door("/_refunds", `{"chargeId":"`+charge.ID+`"}`).view(t); rest.AmountCents != 700 {
		t.Errorf("the rest is %d", rest.AmountCents)
	}
	p.door("/_refunds", `{"chargeId":"`+charge.ID+`"}`).want(t, http.StatusPaymentRequired, "refund_exceeds_charge")
}

func TestAPendingRefundHoldsItsMoneyUntilItHasSucceeded(t *testing.T) {
	t.Parallel()
	p := setup(t, nil)
	charge := p.charge("key-1", "pm_ok").entry(t)
	pending := p.door("/_refunds", `{"chargeId":"`+charge.ID+`","amountCents":1000,"pending":true}`).view(t)
	p.refund(charge.ID, "key-2", "", 1).want(t, http.StatusPaymentRequired, "")
	p.door("/_refunds/"+pending.ID+"/fail", "").want(t, http.StatusConflict, "illegal_change")
	if lines := p.settlement(today()); len(lines) != 1 {
		t.Errorf("settled %v", lines)
	}
	if pending.Status != "pending" || p.psp.Due() != 1 {
		t.Errorf("refund %+v, %d due", pending, p.psp.Due())
	}
	p = setup(t, func(c *Config) { c.LateDelay = 0 })
	p.door("/_refunds", `{"chargeId":"`+p.charge("key-1", "pm_ok").entry(t).ID+`","pending":true}`).view(t)
	await(t, "the refund has succeeded", func() bool { return p.ledger("").Refunds[0].Status == "succeeded" })
}

func today() string { return time.Now().UTC().Format(time.DateOnly) }

func TestARefundThatComesBackGivesTheMoneyToTheChargeAgain(t *testing.T) {
	t.Parallel()
	path := ledgerPath(t)
	p := setup(t, onFile(path))
	charge := p.charge("key-1", "pm_ok").entry(t)
	answer := p.refund(charge.ID, "key-2", "pm_refund_returned", 1000)
	answer.want(t, http.StatusCreated, "")
	p.refund(charge.ID, "key-3", "", 1).want(t, http.StatusPaymentRequired, "")
	p.stop()

	r := newReceiver(t, receive204)
	muchLater := func(c *Config) { c.Now = func() time.Time { return time.Now().Add(2 * time.Hour) } }
	p = setup(t, onFile(path, toldTo(r), muchLater))
	id := answer.entry(t).ID
	await(t, "the refund has failed", func() bool { return p.psp.Due() == 0 })
	listed := p.list("/v1/refunds?idempotencyKey=key-2").Data
	if len(listed) != 1 || listed[0].Status != "failed" || listed[0].DeclineCode != "expired_or_canceled_card" ||
		listed[0].ID != id || listed[0].CreatedAt != answer.entry(t).CreatedAt {
		t.Errorf("listed %+v", listed)
	}
	if got := p.refund(charge.ID, "key-2", "pm_refund_returned", 1000); got.body != answer.body {
		t.Errorf("replayed %s", got.body)
	}
	kinds := map[string]string{}
	for range 4 { // the charge, both refunds, and the first refund once more
		came := r.next()
		kinds[came.event(t).Type+" "+came.event(t).Data.IdempotencyKey] = came.id()
	}
	if first, back := kinds["refund.succeeded key-2"], kinds["refund.failed key-2"]; back == "" || back == first {
		t.Errorf("told %v", kinds)
	}
	p.refund(charge.ID, "key-4", "", 1000).want(t, http.StatusCreated, "")
	before := p.get("/_ledger").body
	p.stop()

	p = setup(t, onFile(path, muchLater))
	if after := p.get("/_ledger").body; after != before || p.psp.Due() != 0 {
		t.Errorf("%d due, ledger\n%s\nwas\n%s", p.psp.Due(), after, before)
	}
	p.refund(charge.ID, "key-5", "", 1).want(t, http.StatusPaymentRequired, "")
}

func TestADisputeHoldsTheMoneyUntilItIsWon(t *testing.T) {
	t.Parallel()
	p := setup(t, nil)
	charge := p.charge("key-1", "pm_ok").entry(t)
	p.refund(charge.ID, "refund", "", 100).want(t, http.StatusCreated, "")
	d := p.disputed(charge.ID, "")
	due, err := time.Parse(time.RFC3339, d.EvidenceDueBy)
	if want := (entry{
		ID: d.ID, Object: "dispute", Account: "acme", ChargeID: charge.ID, AmountCents: 900, Currency: "KRW",
		Reason: "fraudulent", Status: "needs_response", EvidenceDueBy: d.EvidenceDueBy, CreatedAt: d.CreatedAt,
	}); d.entry != want || !strings.HasPrefix(d.ID, "dp_") || err != nil || !due.After(time.Now()) {
		t.Errorf("dispute %+v", d)
	}
	over := p.refund(charge.ID, "over", "", 1)
	if over.want(t, http.StatusPaymentRequired, ""); over.entry(t).DeclineCode != "refund_exceeds_charge" {
		t.Errorf("refused with %s", over.body)
	}
	p.door("/_disputes", `{"chargeId":"`+charge.ID+`","amountCents":1}`).want(t, http.StatusPaymentRequired,
		"dispute_exceeds_charge")
	p.becomes(d.ID, "won").want(t, http.StatusConflict, "illegal_change")
	p.becomes(d.ID, "under_review").want(t, http.StatusOK, "")
	p.refund(charge.ID, "under review", "", 1).want(t, http.StatusPaymentRequired, "")
	p.becomes(d.ID, "won").want(t, http.StatusOK, "")
	p.becomes(d.ID, "lost").want(t, http.StatusConflict, "illegal_change")
	p.refund(charge.ID, "won", "", 900).want(t, http.StatusCreated, "")
	if got := fetch[entry](p, "/v1/disputes/"+d.ID); got.Status != "won" || got.CreatedAt != d.CreatedAt {
		t.Errorf("read %+v", got)
	}
	p.get("/v1/disputes/dp_none").want(t, http.StatusNotFound, "dispute_not_found")
	var statuses []string
	for _, line := range p.settlement(today()) {
		statuses = append(statuses, line[1]+"."+line[7])
	}
	if want := []string{"charge.succeeded", "refund.succeeded", "dispute.needs_response", "dispute.won",
		"refund.succeeded"}; !slices.Equal(statuses, want) {
		t.Errorf("settled %v", statuses)
	}
}

func TestALostDisputeKeepsTheMoneyAndAnInquiryTakesNone(t *testing.T) {
	t.Parallel()
	p := setup(t, nil)
	lost, asked := p.charge("key-1", "pm_ok").entry(t), p.charge("key-2", "pm_ok").entry(t)
	d := p.disputed(lost.ID, `,"amountCents":600,"reason":"product_not_received"`)
	p.becomes(d.ID, "lost").want(t, http.StatusOK, "")
	p.refund(lost.ID, "lost", "", 401).want(t, http.StatusPaymentRequired, "")
	p.refund(lost.ID, "not lost", "", 400).want(t, http.StatusCreated, "")

	for _, end := range []string{"closed", "needs_response"} {
		d = p.disputed(asked.ID, `,"amountCents":900,"inquiry":true`)
		if d.Status != "inquiry" {
			t.Errorf("opened %+v", d)
		}
		p.becomes(d.ID, "won").want(t, http.StatusConflict, "illegal_change")
		p.becomes(d.ID, end).want(t, http.StatusOK, "")
	}
	inquiry := p.disputed(asked.ID, `,"inquiry":true`)
	p.refund(asked.ID, "asked", "", 100).want(t, http.StatusCreated, "")
	p.becomes(inquiry.ID, "needs_response").want(t, http.StatusPaymentRequired, "dispute_exceeds_charge")
	page := p.list("/v1/disputes?limit=2")
	rest := p.list("/v1/disputes?cursor=" + page.NextCursor)
	if len(page.Data) != 2 || page.Data[0].Status != "lost" || page.Data[1].Status != "closed" ||
		len(rest.Data) != 2 || rest.Data[0].Status != "needs_response" || rest.HasMore {
		t.Errorf("listed %+v and %+v", page, rest)
	}
	if all := p.ledger("").Disputes; len(all) != 4 || all[3].Status != "inquiry" {
		t.Errorf("ledger %+v", all)
	}
}

func TestTokensOpenDisputesAndDecideThemAlsoAfterARestart(t *testing.T) {
	t.Parallel()
	path := ledgerPath(t)
	p := setup(t, onFile(path))
	for _, token := range []string{"pm_dispute", "pm_dispute_won", "pm_dispute_lost"} {
		p.charge(token, token).want(t, http.StatusCreated, "")
	}
	if p.psp.Due() != 3 || len(p.ledger("").Disputes) != 0 {
		t.Errorf("%d due", p.psp.Due())
	}
	p.stop()
	r := newReceiver(t, receive204)
	for range 2 { // the second time, nothing is left to do
		p = setup(t, onFile(path, toldTo(r), func(c *Config) { c.LateDelay = 0 }))
		await(t, "all is decided", func() bool { return p.psp.Due() == 0 })
		p.awaitWebhooks(0, 9, 0, 0)
		ends := map[fault]string{}
		for _, d := range p.ledger("").Disputes {
			ends[d.Fault] += d.Status
		}
		if len(ends) != 3 || ends["pm_dispute"] != "needs_response" || ends["pm_dispute_won"] != "won" ||
			ends["pm_dispute_lost"] != "lost" {
			t.Errorf("disputes %v", ends)
		}
		p.stop()
	}
	kinds, ids := map[string]int{}, map[string]bool{}
	for range 9 {
		came := r.next()
		kinds[came.event(t).Type]++
		ids[came.id()] = true
	}
	if kinds["dispute.needs_response"] != 3 || kinds["dispute.under_review"] != 1 || kinds["dispute.won"] != 1 ||
		kinds["dispute.lost"] != 1 || len(ids) != 9 || len(r.arrived) != 0 {
		t.Errorf("told %v of %d ids, and %d more", kinds, len(ids), len(r.arrived))
	}
}

func TestADisputeMayBeToldAsWonBeforeItIsToldAsOpen(t *testing.T) {
	t.Parallel()
	r := newReceiver(t, receive204)
	p := setup(t, toldTo(r, func(c *Config) { c.WebhookExtraDelay = time.Hour }))
	charge := p.charge("key-1", "pm_ok").entry(t)
	r.next()
	p.setDisorder(`"reorder":1`)
	d := p.disputed(charge.ID, "")
	p.setDisorder(`"drop":1`)
	p.becomes(d.ID, "under_review").want(t, http.StatusOK, "")
	p.setDisorder(``)
	p.becomes(d.ID, "won").want(t, http.StatusOK, "")
	first, second := r.next(), r.next()
	if first.event(t).Type != "dispute.won" || second.event(t).Type != "dispute.needs_response" ||
		first.id() == second.id() || second.event(t).Data != d.entry || second.verify(t) != nil {
		t.Errorf("told %s and then %s", first.body, second.body)
	}
	p.door("/_webhooks/"+d.ID+"-1", "").want(t, http.StatusOK, "") // by hand, what was dropped
	if third := r.next().event(t); third.Type != "dispute.under_review" {
		t.Errorf("told %+v", third)
	}
}

func TestADoorRefusesWhatItDoesNotKnow(t *testing.T) {
	t.Parallel()
	p := setup(t, nil)
	charge := p.charge("key-1", "pm_ok").entry(t)
	declined := p.charge("key-2", "pm_declined").entry(t)
	refund := p.refund(charge.ID, "key-3", "", 1).entry(t)
	for _, ask := range []struct {
		path, body string
		status     int
		code       string
	}{
		{"/_refunds", `{}`, 404, "entry_not_found"},
		{"/_refunds", `{"chargeId":"` + refund.ID + `"}`, 404, "entry_not_found"},
		{"/_refunds", `{"chargeId":"` + charge.ID + `","amountCents":-1}`, 400, "invalid_request"},
		{"/_refunds", `{"chargeId":"` + charge.ID + `","inquiry":true}`, 400, "invalid_request"},
		{"/_refunds", `{"chargeId":"` + declined.ID + `"}`, 402, "refund_exceeds_charge"},
		{"/_refunds/" + charge.ID + "/fail", ``, 404, "entry_not_found"},
		{"/_refunds/" + refund.ID + "/fail", `{"status":"won"}`, 400, "invalid_request"},
		{"/_disputes", `{"chargeId":"` + declined.ID + `"}`, 402, "dispute_exceeds_charge"},
		{"/_disputes", `{"chargeId":"` + charge.ID + `","reason":"bad"}`, 400, "invalid_request"},
		{"/_disputes/" + refund.ID, `{"status":"won"}`, 404, "entry_not_found"},
		{"/_disputes/" + refund.ID, `x`, 400, "invalid_request"},
	} {
		if got := p.door(ask.path, ask.body); got.status != ask.status || got.code() != ask.code {
			t.Errorf("%s %s: %d %s", ask.path, ask.body, got.status, got.body)
		}
	}
	p.becomes(p.disputed(charge.ID, "").ID, "").want(t, http.StatusBadRequest, "invalid_request")
	if err := p.psp.Close(); err != nil {
		t.Fatal(err)
	}
	p.door("/_refunds", `{}`).want(t, http.StatusServiceUnavailable, "shutting_down")
}

// A form that is taken is JSON, and the door says no to what is wrong in it.
func FuzzDoorForm(f *testing.F) {
	f.Add("chargeId=ch_1&amountCents=&pending=true", "ch_1")
	f.Add("chargeId=1&status=won", "")
	f.Fuzz(func(t *testing.T, form, id string) {
		body, err := parseDoorForm([]byte(form))
		if refusedOr(t, err) {
			return
		}
		s := &Server{ledger: &ledger{}}
		for _, do := range []func(string, []byte) (any, error){
			s.refundElsewhere, s.failRefund, s.openDispute, s.changeDispute,
		} {
			if _, err := do(id, body); !errors.As(err, new(apiError)) {
				t.Fatalf("%s: %v", body, err)
			}
		}
	})
}

// What is done by hand comes first: the clock of a token finds it, and leaves it alone.
func TestWhatIsDoneByHandIsNotDoneOnceMore(t *testing.T) {
	t.Parallel()
	path := ledgerPath(t)
	p := setup(t, onFile(path))
	charge := p.charge("key-1", "pm_dispute_won").entry(t)
	other := p.charge("key-2", "pm_ok").entry(t)
	refund := p.refund(other.ID, "key-3", "pm_refund_returned", 1000).entry(t)
	p.door("/_refunds/"+refund.ID+"/fail", "").want(t, http.StatusOK, "")
	p.becomes(p.disputed(charge.ID, "").ID, "lost").want(t, http.StatusOK, "")
	before := p.get("/_ledger").body
	p.stop()
	p = setup(t, onFile(path, func(c *Config) { c.LateDelay = 0 }))
	await(t, "nothing is due", func() bool { return p.psp.Due() == 0 })
	if after := p.get("/_ledger").body; after != before {
		t.Errorf("changed to %s", after)
	}
	p.stop()
	appendTo(t, path, `{"entry":{"id":"`+refund.ID+`","object":"refund","account":"acme","status":"succeeded"},"fault":"pm_ok",`+
		`"version":3,"changedAt":"2099-01-01T00:00:00.000000Z"}`+"\n{}\n")
	if err := refusedStart(t, path); !strings.Contains(err.Error(), "does not follow on") {
		t.Errorf("refused with %v", err)
	}
}

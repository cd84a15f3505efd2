package mockpsp

import (
	"net/http"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
)

func (p *running) resend(entryID, body string) result {
	return p.send(p.t.Context(), http.MethodPost, "/_webhooks/"+entryID, body,
		header{"Authorization": "", "Content-Type": ""})
}

func (r result) resent(t *testing.T) resent {
	t.Helper()
	var answer resent
	if err := json.Unmarshal([]byte(r.body), &answer, json.RejectUnknownMembers(true)); err != nil ||
		r.status != http.StatusOK {
		t.Fatalf("answered %d %q: %v", r.status, r.body, err)
	}
	return answer
}

func TestWebhookCanBeSentAgainByHand(t *testing.T) {
	t.Parallel()
	r := newReceiver(t, receive204)
	p := setup(t, toldTo(r))
	id := p.charge("key-1", "pm_ok").entry(t).ID
	first := r.next()
	p.awaitWebhooks(0, 1, 0, 0)
	for body, sends := range map[string]int{"": 1, " ": 1, "{}": 1, `{"disorder":"duplicate"}`: 2} {
		answer := p.resend(id, body).resent(t)
		if answer.Status != 204 || len(answer.Tries) != sends {
			t.Errorf("%s: answered %+v", body, answer)
		}
		for range sends {
			if again := r.next(); again.id() != first.id() || again.body != first.body || again.verify(t) != nil {
				t.Errorf("%s: sent %+v", body, again)
			}
		}
	}
	if view := p.webhooks(); view.Delivered != 1 || view.Pending != 0 || view.Tries[0].Try != 0 {
		t.Errorf("what was sent by hand is counted: %+v", view)
	}
}

func TestForgedAndStaleWebhooksCanBeSentByHand(t *testing.T) {
	t.Parallel()
	r := newReceiver(t, func(a arrival) int {
		if a.verify(t) != nil {
			return http.StatusUnauthorized
		}
		return http.StatusNoContent
	})
	p := setup(t, toldTo(r))
	id := p.charge("key-1", "pm_ok").entry(t).ID
	first := r.next()
	if answer := p.resend(id, `{"disorder":"forge"}`).resent(t); answer.Status != 401 ||
		answer.Tries[0].Disorder != disorderForge {
		t.Errorf("answered %+v", answer)
	}
	oracle, err := standardwebhooks.NewWebhook(DemoWebhookSecret)
	if err != nil {
		t.Fatal(err)
	}
	if forged := r.next(); forged.id() != first.id() ||
		oracle.VerifyIgnoringTimestamp([]byte(forged.body), forged.header) == nil {
		t.Errorf("forged: %+v", forged)
	}
	if answer := p.resend(id, `{"disorder":"stale"}`).resent(t); answer.Status != 401 {
		t.Errorf("answered %+v", answer)
	}
	if stale := r.next(); stale.body != first.body ||
		oracle.VerifyIgnoringTimestamp([]byte(stale.body), stale.header) != nil {
		t.Errorf("stale: %+v", stale)
	}
}

func TestStuckChargeAndRefundCanBeToldByHand(t *testing.T) {
	t.Parallel()
	r := newReceiver(t, receive204)
	p := setup(t, toldTo(r))
	p.charge("key-1", "pm_stuck")
	charge := p.ledger("key-1").Charges[0]
	p.refund(charge.ID, "key-2", "pm_silent_charged", 10)
	for _, id := range []string{charge.ID, p.ledger("key-2").Refunds[0].ID} {
		p.resend(id, "").resent(t)
		if got := r.next().event(t).Data.ID; got != id {
			t.Errorf("told of %s, not of %s", got, id)
		}
	}
}

func TestReceiverThatGivesNoAnswerIsSaidSo(t *testing.T) {
	t.Parallel()
	r := newReceiver(t, func(arrival) int { return 0 })
	p := setup(t, toldTo(r))
	id := p.charge("key-1", "pm_ok").entry(t).ID
	if answer := p.resend(id, "").resent(t); answer.Status != 0 || answer.Tries[0].Error == "" {
		t.Errorf("answered %+v", answer)
	}
}

func TestBadResendIsRefusedAndSendsNothing(t *testing.T) {
	t.Parallel()
	r := newReceiver(t, receive204)
	p := setup(t, toldTo(r, func(c *Config) { c.WebhookDelay = time.Hour }))
	id := p.charge("key-1", "pm_ok").entry(t).ID
	p.resend("ch_none", "").want(t, http.StatusNotFound, "entry_not_found")
	for _, body := range []string{`{"disorder":"drop"}`, `{"disorder":1}`, `{"chaos":"stale"}`, `x`} {
		p.resend(id, body).want(t, http.StatusBadRequest, "invalid_request")
	}
	crossSite := p.send(t.Context(), http.MethodPost, "/_webhooks/"+id, "", header{"Sec-Fetch-Site": "cross-site"})
	if crossSite.status != http.StatusForbidden {
		t.Errorf("another site is answered %d", crossSite.status)
	}
	if view := p.webhooks(); len(view.Tries) != 0 {
		t.Errorf("tries: %+v", view.Tries)
	}
	if err := p.psp.Close(); err != nil {
		t.Fatal(err)
	}
	p.resend(id, "").want(t, http.StatusServiceUnavailable, "shutting_down")
}

func TestCloseCutsAResendShort(t *testing.T) {
	t.Parallel()
	r := newReceiver(t, func(a arrival) int {
		<-a.gone
		return http.StatusOK
	})
	p := setup(t, toldTo(r, func(c *Config) { c.WebhookDelay, c.WebhookTimeout = time.Hour, time.Hour }))
	id := p.charge("key-1", "pm_ok").entry(t).ID
	answered := make(chan result, 1)
	go func() { answered <- p.resend(id, "") }()
	r.next()
	closed := make(chan error, 1)
	go func() { closed <- p.psp.Close() }()
	if err := receive(t, closed); err != nil {
		t.Error(err)
	}
	if got := receive(t, answered).resent(t); got.Status != 0 {
		t.Errorf("answered %+v", got)
	}
}

// The command is run by a shell, and the receiver gets what the PSP itself would send.
func TestPrintedWebhookIsTheOneThatIsSent(t *testing.T) {
	t.Parallel()
	for _, tool := range []string{"sh", "curl"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("needs %s", tool)
		}
	}
	r := newReceiver(t, receive204)
	p := setup(t, toldTo(r))
	charge := p.chargeAs("acme", "key-1", `it's $HOME \u0027`, "pm_ok").entry(t)
	sent := r.next()
	printed := p.get("/_webhooks/" + charge.ID)
	if printed.status != http.StatusOK || !strings.HasPrefix(printed.body, "curl -i 'http://") {
		t.Fatalf("%d %s", printed.status, printed.body)
	}
	if out, err := exec.CommandContext(t.Context(), "sh", "-euc", printed.body).CombinedOutput(); err != nil ||
		!strings.Contains(string(out), "204") {
		t.Fatalf("%v\n%s\n%s", err, printed.body, out)
	}
	if again := r.next(); again.id() != sent.id() || again.body != sent.body || again.verify(t) != nil {
		t.Errorf("sent %+v\nthe PSP sends %+v", again, sent)
	}
}

func TestWebhookThatCannotBePrintedIsRefused(t *testing.T) {
	t.Parallel()
	p := setup(t, nil)
	p.get("/_webhooks/ch_none").want(t, http.StatusNotFound, "entry_not_found")
	p.get("/_webhooks/"+p.charge("key-1", "pm_ok").entry(t).ID).want(t, http.StatusConflict, "webhooks_off")
}

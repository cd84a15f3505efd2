package e2e

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"

	"payonce/internal/config"
)

// The operator's side as a whole: from a payment that nobody can decide about to one that somebody has.

// stuck is a payment that was charged at a PSP that does not answer for it, with its dead letter.
func (w *world) stuck(d *ops) (key string, l deadLetter) {
	w.t.Helper()
	key = freshKey()
	w.pay(key, "pm_stuck").expect(w.t, http.StatusAccepted, "")
	return key, d.find("lookups_exhausted", key)
}

func soon(c *config.Shared) { c.FirstLookup = 0 }

func TestOperatorsWordCompletesWhatThePSPIsSilentAbout(t *testing.T) {
	t.Parallel()
	w := setupOpen(t, shared(soon))
	w.reconcile()
	d := w.openOps()
	key, l := w.stuck(d)
	d.resolve(l, "dismiss").expect(t, http.StatusConflict, "dead_letter_needs_decision")
	d.ask("POST", "/dead-letters/"+l.ID+"/resolve", resolvingKey, decision("executed", l.Version+1)).expect(t,
		http.StatusConflict, "dead_letter_conflict")
	d.resolve(l, "not_executed").expect(t, http.StatusServiceUnavailable, "psp_unavailable")
	w.wantMoves(key, "owner: in_progress > unknown")

	d.resolve(l, "executed").expect(t, http.StatusOK, "")
	d.resolve(l, "executed").expect(t, http.StatusConflict, "dead_letter_conflict")
	w.becomes(key, "completed")
	w.wantMoves(key, "owner: in_progress > unknown", "operator: unknown > completed")
	w.replaysSuccess(key, func() reply { return w.pay(key, "pm_stuck") })
	shown := d.show(l.ID)
	if shown.Status != "resolved" || shown.KeyStatus != "completed" || shown.PaymentStatus != "succeeded" {
		t.Fatalf("dead letter is %+v", shown)
	}
	outcomes := ""
	for _, auditEntry := range shown.Audit {
		outcomes += auditEntry.Action + " " + auditEntry.Outcome + ", "
	}
	if outcomes != "dismiss refused, executed refused, not_executed refused, executed done, executed refused, " {
		t.Fatalf("audited is %s", outcomes)
	}
	if n := len(shown.Timeline); n == 0 || !strings.Contains(shown.Timeline[n-1].Reason, "operator") {
		t.Fatalf("the timeline does not tell: %+v", shown.Timeline)
	}
}

func TestRetryHasThePSPAskedAgain(t *testing.T) {
	if testing.Short() {
		t.Skip("long: it waits for lookups")
	}
	t.Parallel()
	var way way
	w := setupOpen(t, shared(soon), func(o *options) { o.between = way.wrap })
	w.disorder(`"drop":1`)
	w.reconcile(func(c *config.Reconciler) { c.LookupRecheck = never })
	d := w.openOps()
	way.deaf.Store(true)
	key := freshKey()
	w.pay(key, "pm_reset_charged").expect(t, http.StatusAccepted, "")
	l := d.find("lookups_exhausted", key)
	d.resolve(l, "retry").expect(t, http.StatusOK, "")
	next := d.find("lookups_exhausted", key) // the same end is a new dead letter
	if next.ID == l.ID {
		t.Fatal("the dead letter is open still")
	}
	way.deaf.Store(false)
	d.resolve(next, "retry").expect(t, http.StatusOK, "")
	w.becomes(key, "completed")
	w.wantMoves(key, "owner: in_progress > unknown", "lookup: unknown > completed")
	w.replaysSuccess(key, func() reply { return w.pay(key, "pm_reset_charged") })

	// A movement that nobody asked for is judged again, with the same result.
	w.signed("evt_orphan", chargeEvent("succeeded", "ch_orphan", "somebody-elses-key", "invoice-7"))
	orphan := d.find("unknown_movement", "")
	d.resolve(orphan, "not_executed").expect(t, http.StatusConflict, "action_not_applicable")
	d.resolve(orphan, "retry").expect(t, http.StatusOK, "")
	if again := d.find("unknown_movement", ""); again.ID == orphan.ID {
		t.Fatal("the dead letter is open still")
	}
	w.signed("evt_type", `{"type":"payout.paid","data":{"id":"po_1"}}`)
	unmatched := d.find("webhook_unmatched", "")
	d.resolve(unmatched, "dismiss").expect(t, http.StatusOK, "")
	var summary struct{ DeadLetters struct{ Open map[string]int } }
	d.read(d.ask("GET", "/summary", operatorKey, ""), &summary)
	if open := summary.DeadLetters.Open; open["unknown_movement"] != 1 || open["webhook_unmatched"] != 0 ||
		open["lookups_exhausted"] != 0 {
		t.Fatalf("open are %v", open)
	}
}

// The PSP's webhook comes after all lookups have failed. Its key is completed, and the dead letter is closed by itself.
func TestDeadLetterIsClosedByItselfWhenAWebhookAnswersIt(t *testing.T) {
	t.Parallel()
	w := setupOpen(t, shared(soon))
	w.reconcile()
	d := w.openOps()
	key, l := w.stuck(d)
	w.sendWebhook(w.ledger("acme", key).Charges[0].ID, "")
	w.becomes(key, "completed")
	eventually(t, "the end of the dead letter", func() bool { return d.show(l.ID).Status == "resolved" })
	if audit := d.show(l.ID).Audit; len(audit) != 1 || audit[0].Action != "answered" ||
		audit[0].Actor != "reconciler" || audit[0].Outcome != "done" {
		t.Errorf("audited is %+v", audit)
	}
	d.resolve(l, "executed").expect(t, http.StatusConflict, "dead_letter_conflict")
	w.replaysSuccess(key, func() reply { return w.pay(key, "pm_stuck") })
}

// ops is an operator at work, over the operator's own listener.
type ops struct {
	t    testing.TB
	http *http.Client
}

// openOps serves the operator's side of the API. To the document it lives on a port of its own, so the client says that
// one and is connected to ours.
func (w *world) openOps() *ops {
	w.t.Helper()
	server := httptest.NewServer(w.app.Operator)
	w.t.Cleanup(server.Close)
	base := &http.Transport{DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, network, server.Listener.Addr().String())
	}}
	w.t.Cleanup(base.CloseIdleConnections)
	return &ops{t: w.t, http: &http.Client{Transport: checked(w.t, base), Timeout: patience}}
}

// ask sends a request as somebody; "" for nobody.
func (d *ops) ask(method, path, as, body string) reply {
	d.t.Helper()
	r, err := d.try(method, path, as, body)
	if err != nil {
		d.t.Fatalf("%s %s: %v", method, path, err)
	}
	return r
}

func (d *ops) try(method, path, as, body string) (reply, error) {
	req, err := http.NewRequestWithContext(context.Background(), method, "http://localhost:8081/operator"+path,
		strings.NewReader(body))
	if err != nil {
		return reply{}, err
	}
	req.Header.Set("Content-Type", "application/json")
	if as != "" {
		req.Header.Set("Authorization", "Bearer "+as)
	}
	res, err := d.http.Do(req)
	if err != nil {
		return reply{}, err
	}
	defer res.Body.Close()
	raw, err := io.ReadAll(res.Body)
	return reply{status: res.StatusCode, header: res.Header, body: raw}, err
}

// deadLetter is a dead letter as the operator sees it.
type deadLetter struct {
	ID, Kind, Status, Key, PaymentID string
	Version                          int
	KeyStatus, PaymentStatus         string
	Audit                            []struct{ Action, Actor, Outcome, Reason string }
	Timeline                         []struct{ Actor, From, To, Reason string }
}

// find waits for the open dead letter of a kind, about a key if that is given, as the list shows it.
func (d *ops) find(kind, key string) (found deadLetter) {
	d.t.Helper()
	eventually(d.t, "an open dead letter "+kind, func() bool {
		var list struct{ Data []deadLetter }
		d.read(d.ask("GET", "/dead-letters?limit=100", resolvingKey, ""), &list)
		for _, l := range list.Data {
			if l.Kind == kind && (key == "" || l.Key == key) {
				found = l
				return true
			}
		}
		return false
	})
	return found
}

func (d *ops) show(id string) (l deadLetter) {
	d.t.Helper()
	d.read(d.ask("GET", "/dead-letters/"+id, resolvingKey, ""), &l)
	return l
}

func (d *ops) read(r reply, into any) {
	d.t.Helper()
	r.expect(d.t, http.StatusOK, "")
	if err := json.Unmarshal(r.body, into, json.MatchCaseInsensitiveNames(true)); err != nil {
		d.t.Fatalf("%v\n%s", err, r.body)
	}
}

func decision(action string, version int) string {
	return fmt.Sprintf(`{"action":%q,"reason":"the test says so","version":%d}`, action, version)
}

func (d *ops) resolve(l deadLetter, action string) reply {
	d.t.Helper()
	return d.ask("POST", "/dead-letters/"+l.ID+"/resolve", resolvingKey, decision(action, l.Version))
}

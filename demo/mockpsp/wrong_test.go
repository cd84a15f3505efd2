package mockpsp

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/google/go-cmp/cmp"
)

// chargeAs sends a charge of 1000 KRW for an account and a reference.
func (p *running) chargeAs(account, key, reference, method string) result {
	body := strings.Replace(chargeBody(method), "pay_1", reference, 1)
	return p.send(p.t.Context(), http.MethodPost, "/v1/charges", body,
		header{"Idempotency-Key": key, "PSP-Account": account})
}

// twoAccounts has one charge of globex and one of acme, pay_0 under key-0.
func twoAccounts(t *testing.T, change func(*Config)) (p *running, before entry) {
	t.Helper()
	p = setup(t, change)
	p.chargeAs("globex", "key-g", "pay_g", "pm_ok").want(t, http.StatusCreated, "")
	return p, p.chargeAs("acme", "key-0", "pay_0", "pm_ok").entry(t)
}

// One member is wrong, in the answer, the list, the ledger view and the replay alike, and all others are as asked.
func TestEachMemberCanBeWrong(t *testing.T) {
	t.Parallel()
	for f, change := range map[fault]func(e *entry, before entry){
		"pm_wrong_amount":    func(e *entry, _ entry) { e.AmountCents = 1001 },
		"pm_wrong_currency":  func(e *entry, _ entry) { e.Currency = "EUR" },
		"pm_wrong_reference": func(e *entry, _ entry) { e.Reference = "pay_0" },
		"pm_no_reference":    func(e *entry, _ entry) { e.Reference = "" },
		"pm_wrong_key":       func(e *entry, _ entry) { e.IdempotencyKey = "key-0" },
		"pm_wrong_account":   func(e *entry, _ entry) { e.Account = "globex" },
		"pm_wrong_charge":    func(e *entry, before entry) { e.ChargeID = before.ID },
		"pm_wrong_id":        func(*entry, entry) {},
	} {
		t.Run(string(f), func(t *testing.T) {
			t.Parallel()
			p, before := twoAccounts(t, nil)
			first := p.charge("key-1", string(f))
			first.want(t, http.StatusCreated, "")
			charges := p.ledger("").Charges
			held := charges[len(charges)-1]
			want := entry{
				ID: held.ID, Object: ObjectCharge, Account: "acme", IdempotencyKey: "key-1", Reference: "pay_1",
				AmountCents: 1000, Currency: "KRW", PaymentMethod: string(f), Status: "succeeded",
				CreatedAt: held.CreatedAt,
			}
			change(&want, before)
			if diff := cmp.Diff(ledgerView{want, f}, held, cmp.AllowUnexported(ledgerView{})); diff != "" ||
				len(charges) != 3 {
				t.Errorf("%d charges (-want +got):\n%s", len(charges), diff)
			}
			var listed page
			_ = json.Unmarshal([]byte(p.send(t.Context(), http.MethodGet, "/v1/charges", "",
				header{"PSP-Account": want.Account}).body), &listed)
			if !slices.Contains(listed.Data, want) {
				t.Errorf("listed %+v, want %+v", listed.Data, want)
			}
			if f == "pm_wrong_id" {
				want.ID = before.ID
			}
			if diff := cmp.Diff(want, first.entry(t)); diff != "" {
				t.Errorf("answer (-want +got):\n%s", diff)
			}
			if again := p.charge("key-1", string(f)); again.body != first.body || len(p.ledger("").Charges) != 3 {
				t.Errorf("replayed %s", again.body)
			}
		})
	}
}

func TestFirstMovementOfAllCanBeWrongToo(t *testing.T) {
	t.Parallel()
	p := setup(t, nil)
	for _, f := range []fault{"pm_wrong_reference", "pm_wrong_key", "pm_wrong_charge", "pm_wrong_id"} {
		account := "of-" + string(f)
		got := p.chargeAs(account, "key-1", "pay_1", string(f)).entry(t)
		if got.Reference != another && got.IdempotencyKey != another && got.ChargeID != "ch_another" &&
			got.ID != "ch_another" {
			t.Errorf("%s: %+v", f, got)
		}
	}
	if got := setup(t, nil).charge("key-1", "pm_wrong_account").entry(t).Account; got != another {
		t.Errorf("account %q", got)
	}
}

func TestRefundOfAnotherChargeTakesItsMoney(t *testing.T) {
	t.Parallel()
	p, before := twoAccounts(t, nil)
	asked := p.charge("key-1", "pm_ok").entry(t)
	if got := p.refund(asked.ID, "key-2", "pm_wrong_charge", 600).entry(t); got.ChargeID != before.ID ||
		got.Status != "succeeded" {
		t.Errorf("refunded %+v", got)
	}
	p.refund(before.ID, "key-3", "", 401).want(t, http.StatusPaymentRequired, "")
	p.refund(asked.ID, "key-4", "", 1000).want(t, http.StatusCreated, "")
	p.refund(before.ID, "key-5", "pm_wrong_account", 400).want(t, http.StatusCreated, "")
	p.refund(before.ID, "key-6", "pm_wrong_account", 1).want(t, http.StatusPaymentRequired, "")
}

// The two entries of one key, as the ledger has them.
func TestOneKeyCanHaveTwoEntries(t *testing.T) {
	t.Parallel()
	type row struct {
		Amount int64
		Status string
	}
	for f, want := range map[fault][]row{
		"pm_charged_twice":              {{1000, "succeeded"}, {1000, "succeeded"}},
		"pm_decline_after_charge":       {{1000, "succeeded"}, {1000, "declined"}},
		"pm_decline_after_wrong_amount": {{1001, "succeeded"}, {1000, "declined"}},
	} {
		t.Run(string(f), func(t *testing.T) {
			t.Parallel()
			r := newReceiver(t, receive204)
			path := ledgerPath(t)
			p := setup(t, onFile(path, func(c *Config) { c.WebhookURL, c.WebhookDelay = r.server.URL, 0 }))
			first := p.charge("key-1", string(f))
			first.want(t, http.StatusCreated, "")
			listed := p.list("/v1/charges?idempotencyKey=key-1").Data
			var got []row
			for i, held := range p.ledger("key-1").Charges {
				got = append(got, row{held.AmountCents, held.Status})
				if held.Fault != f || held.Reference != "pay_1" || listed[i].ID != held.ID {
					t.Errorf("entry %+v, listed %+v", held, listed[i])
				}
			}
			if diff := cmp.Diff(want, got); diff != "" || first.entry(t).ID != listed[0].ID {
				t.Errorf("answered %s, entries (-want +got):\n%s", first.body, diff)
			}
			await(t, "both webhooks are delivered", func() bool { return p.psp.webhooks.view().Delivered == 2 })
			before := p.get("/_ledger").body
			p.stop()

			p = setup(t, onFile(path))
			if again := p.charge("key-1", string(f)); again.body != first.body || p.get("/_ledger").body != before {
				t.Errorf("after a restart, replayed %s", again.body)
			}
		})
	}
}

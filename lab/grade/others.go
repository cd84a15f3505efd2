package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/google/uuid"

	"payonce/lab/grade/plan"
	"payonce/lab/grade/profile"
	"payonce/lab/invariants"
	"payonce/lab/program"
)

// others does the steps of the merchant's people in the PSP's dashboard, and of banks, and looks at what the server
// makes of them.
func (f *performance) others(ctx context.Context, i int, s plan.Step) {
	charge := f.charged(ctx, i)
	if charge == "" {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.run.NotShown = "the payment was not charged"
		return
	}
	switch s.Kind {
	case plan.RefundElsewhere:
		f.act(ctx, i, "/_refunds", fmt.Sprintf(`{"chargeId":%q,"amountCents":%d}`, charge, f.run.Amounts[i]/2),
			"gives half of the payment back, in its dashboard") //nolint:mnd // half of it
	case plan.ComeBack:
		f.mu.Lock()
		refund := f.done[i]
		f.mu.Unlock()
		f.act(ctx, i, "/_refunds/"+refund+"/fail", "{}", "has the money of the refund back: the bank could not pay it out")
	case plan.Dispute:
		f.act(ctx, i, "/_disputes", fmt.Sprintf(`{"chargeId":%q}`, charge), "opens a dispute about the payment")
	case plan.Shown:
		f.shown(ctx, i, charge)
	case plan.Overdraw:
		f.overdraw(ctx, i)
	}
}

// charged is the PSP's id of the payment's charge.
func (f *performance) charged(ctx context.Context, i int) string {
	ledger, err := f.player.stand.Ledger(ctx)
	if err != nil {
		return ""
	}
	for _, e := range ledger.Charges {
		if e.AmountCents == f.run.Amounts[i] && e.Executed() {
			return e.ID
		}
	}
	return ""
}

func (f *performance) act(ctx context.Context, i int, door, body, text string) {
	id, err := f.player.stand.Act(ctx, door, body)
	f.mu.Lock()
	f.done[i] = id
	if err != nil {
		f.run.NotShown = err.Error()
	}
	f.mu.Unlock()
	f.event("PSP", text)
}

// follow is a request about the payment, as the profile says.
func (f *performance) follow(ctx context.Context, i int, r profile.Request) (status int, body []byte) {
	server := f.player.stand.Next(0)
	if server == nil {
		return 0, nil
	}
	ctx, cancel := context.WithTimeout(ctx, time.Duration(f.player.profile.Timeout))
	defer cancel()
	req, err := r.Build(server.URL, profile.Values{Key: uuid.NewString(), Amount: f.run.Amounts[i],
		Payment: profile.Member(f.lastFinal(i), f.player.profile.Others.Payment),
		Tenant:  f.player.profile.Tenants[f.run.Case.Intents[i].Tenant]})
	if err != nil {
		return 0, nil
	}
	res, err := f.player.client.Do(req.WithContext(ctx))
	if err != nil {
		return 0, nil
	}
	defer res.Body.Close()
	body, err = io.ReadAll(io.LimitReader(res.Body, maxAnswer))
	if err != nil {
		return 0, nil
	}
	return res.StatusCode, body
}

// shown waits until the server shows of the payment what the PSP's ledger has of it.
func (f *performance) shown(ctx context.Context, i int, charge string) {
	p := f.player.profile
	ctx, cancel := context.WithTimeout(ctx, time.Duration(p.EndsWithin))
	defer cancel()
	why, status, body := "the payment was never shown", 0, []byte(nil)
	for wait := againAfter; ctx.Err() == nil; wait = min(2*wait, againCap) {
		ledger, err := f.player.stand.Ledger(ctx)
		status, body = f.follow(ctx, i, p.Others.Read)
		if err == nil && status == http.StatusOK {
			there := [2]int64{moved(ledger.Refunds, charge), moved(ledger.Disputes, charge)}
			here := [2]int64{number(body, p.Others.Returned), number(body, p.Others.Disputed)}
			if here == there {
				f.event("server", fmt.Sprintf("shows %s as returned, %s as disputed", money(here[0]), money(here[1])))
				return
			}
			why = fmt.Sprintf("shown as returned: %s, as disputed: %s; at the PSP it is %s, and %s", money(here[0]),
				money(here[1]), money(there[0]), money(there[1]))
		}
		if status == http.StatusNotFound || status == http.StatusMethodNotAllowed {
			f.mu.Lock()
			f.run.NotShown = fmt.Sprintf("the server shows no payment: %s is answered %d", p.Others.Read.Path, status)
			f.mu.Unlock()
			return
		}
		program.Wait(ctx, wait)
	}
	f.unfollowed(i, why)
}

// overdraw asks for a refund of the whole payment, of which a dispute holds all. What is said to be a success is wrong.
func (f *performance) overdraw(ctx context.Context, i int) {
	status, _ := f.follow(ctx, i, f.player.profile.Others.Refund)
	f.event("client", fmt.Sprintf("asks for a refund of the whole payment: status %d", status))
	if status >= http.StatusOK && status < http.StatusMultipleChoices {
		f.unfollowed(i, fmt.Sprintf("a refund of what a dispute holds was answered %d", status))
	}
}

func (f *performance) unfollowed(i int, why string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.run.Unfollowed[i] == "" {
		f.run.Unfollowed[i] = why
	}
}

// moved is what the entries have taken from a charge, as they are now.
func moved(entries []invariants.Entry, charge string) (sum int64) {
	for _, e := range entries {
		if e.ChargeID == charge && (e.Executed() || e.Status == "needs_response") {
			sum += e.AmountCents
		}
	}
	return sum
}

// number is a member of an answer that is an amount. One that is absent is nothing.
func number(body []byte, path string) (n int64) {
	_ = json.Unmarshal([]byte(profile.Member(body, path)), &n)
	return n
}

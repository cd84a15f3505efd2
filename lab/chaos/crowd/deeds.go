package crowd

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"payonce/internal/payment"
	"payonce/lab/chaos/plan"
	"payonce/lab/program"
)

const (
	deedEvery = 350 * time.Millisecond // also how long they wait for a client that refunds at the same time
	deedsMost = 2000                   // in a run
)

// ActElsewhere is the merchants' people in the dashboard, and banks, until ctx ends: they give back what Payonce has
// charged, in part and whole, they dispute it, and what was given back may come back. Payonce did not ask for any of
// that, and it does not bear its mark. Yet it changes its payments.
func (c *Crowd) ActElsewhere(ctx context.Context) {
	for n := 0; n < deedsMost && program.Wait(ctx, deedEvery); n++ {
		c.act(ctx, c.o.Plan.Deed(n))
	}
}

func (c *Crowd) act(ctx context.Context, d plan.Deed) {
	switch d.Kind {
	case plan.RefundElsewhere:
		c.refundElsewhere(ctx, d)
	case plan.Dispute:
		c.dispute(ctx, d)
	case plan.ComeBack:
		c.comeBack(ctx, d)
	case plan.Decide:
		c.decideDispute(ctx, d)
	}
}

// victim chooses what others change, if there is anything, and says by what: a payment that a client is just about to
// refund, one that a client knows of, or the charge that the PSP has made last, of which Payonce may not know yet.
func (c *Crowd) victim(ctx context.Context, d plan.Deed) (of paid, by string) {
	switch d.Pick % 3 {
	case 0:
		limit, cancel := context.WithTimeout(ctx, deedEvery)
		defer cancel()
		select {
		case of = <-c.refunding:
		case <-limit.Done():
		}
		return of, "while a client refunds"
	case 1:
		of, _ = c.known[d.Pick/3%uint64(len(c.known))].pick(d.Pick)
		return of, "of a known payment"
	}
	return c.newestCharge(ctx, plan.Tenants()[d.Pick/3%uint64(len(plan.Tenants()))]), "of the newest charge"
}

// newestCharge is the last of a tenant's that the PSP has made for Payonce, or nothing.
func (c *Crowd) newestCharge(ctx context.Context, tenant string) paid {
	ledger, err := c.ledger(ctx, url.Values{"account": {c.account(tenant)}})
	if err != nil {
		return paid{}
	}
	for _, e := range slices.Backward(ledger.Charges) {
		if e.Status == "succeeded" && strings.HasPrefix(e.Reference, "pay_") {
			return paid{tenant: tenant, ChargeID: e.ID, Amount: e.AmountCents, Currency: e.Currency}
		}
	}
	return paid{}
}

func (c *Crowd) refundElsewhere(ctx context.Context, d plan.Deed) {
	of, by := c.victim(ctx, d)
	c.atOnce(d.Times, func(int) {
		if !c.change(ctx, "/_refunds", of, d, "pending") {
			return
		}
		c.o.Tally.One("others", "refund")
		c.o.Tally.One("outside refund", by)
		c.o.Tally.One("outside refund", map[bool]string{true: "whole", false: "part"}[d.Share == 1])
		if d.Later {
			c.o.Tally.One("outside refund", "on its way")
		}
		if d.Times > 1 {
			c.o.Tally.One("outside refund", "twice")
		}
	})
}

func (c *Crowd) dispute(ctx context.Context, d plan.Deed) {
	of, _ := c.victim(ctx, d)
	if c.change(ctx, "/_disputes", of, d, "inquiry") {
		c.o.Tally.One("others", map[bool]string{true: "inquiry", false: "dispute"}[d.Later])
	}
}

// change asks for a refund or a dispute of a charge. Clients will ask for a refund of it, too.
func (c *Crowd) change(ctx context.Context, door string, of paid, d plan.Deed, later string) bool {
	if of.ChargeID == "" || strings.HasPrefix(of.ChargeID, payment.OperatorPSPID) {
		return false
	}
	asked := map[string]any{"chargeId": of.ChargeID, later: d.Later}
	if d.Share < 1 {
		asked["amountCents"] = 1 + int64(d.Share*float64(of.Amount))
	}
	done := c.atDoor(ctx, door, asked)
	if done && of.ID != "" {
		c.returned.keep(of)
	}
	return done
}

// comeBack has the money of a refund come back, ours and those of others by turns. It leaves alone those of a fault
// after which the ledger does not tell which refund is the one that was asked for.
func (c *Crowd) comeBack(ctx context.Context, d plan.Deed) {
	ledger, err := c.ledger(ctx, nil)
	if err != nil {
		return
	}
	odd := append(plan.Odd(), "pm_wrong_amount", "pm_forgotten_key")
	given := slices.DeleteFunc(ledger.Refunds, func(e entry) bool {
		return e.Status != "succeeded" || slices.Contains(odd, e.Fault) || (e.Reference != "") != d.Won
	})
	if len(given) == 0 {
		return
	}
	e := given[d.Pick%uint64(len(given))]
	if c.atDoor(ctx, "/_refunds/"+url.PathEscape(e.ID)+"/fail", struct{}{}) {
		c.o.Tally.One("others", map[bool]string{true: "came back of ours", false: "came back of theirs"}[d.Won])
	}
}

// nextOf are the two ways that a dispute can go.
var nextOf = map[string]map[bool]string{
	"inquiry":        {true: "closed", false: "needs_response"},
	"needs_response": {true: "under_review", false: "under_review"},
	"under_review":   {true: "won", false: "lost"},
}

// decideDispute has the bank and the merchant take the next step of a dispute. Two steps right after another give the
// webhooks a chance to come in the wrong order.
func (c *Crowd) decideDispute(ctx context.Context, d plan.Deed) {
	ledger, err := c.ledger(ctx, nil)
	if err != nil {
		return
	}
	open := slices.DeleteFunc(ledger.Disputes, func(e entry) bool {
		return nextOf[e.Status] == nil || (e.Status == "inquiry") != d.Later
	})
	if len(open) == 0 {
		return
	}
	e := open[d.Pick%uint64(len(open))]
	for range d.Times {
		next := nextOf[e.Status][d.Won]
		if next == "" || !c.atDoor(ctx, "/_disputes/"+url.PathEscape(e.ID), map[string]string{"status": next}) {
			return
		}
		c.o.Tally.One("others", "dispute "+next)
		e.Status = next
	}
}

// atDoor does what nobody asks the PSP's API for, and reports whether it is done as far as the answer tells.
func (c *Crowd) atDoor(ctx context.Context, path string, asked any) bool {
	raw, err := json.Marshal(asked)
	if err != nil {
		c.complain("others", fmt.Sprintf("write %v: %v", asked, err))
		return false
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), requestPatience)
	defer cancel()
	status, err := c.ask(ctx, http.MethodPost, "http://"+c.o.PSP+path, string(raw),
		map[string]string{"Content-Type": "application/json"}, nil)
	return err == nil && status == http.StatusOK
}

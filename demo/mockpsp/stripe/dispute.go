package stripe

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"payonce/demo/mockpsp"
)

// The statuses of a dispute. The first three are those of an inquiry, which takes no money.
const (
	warningNeedsResponse = "warning_needs_response"
	warningUnderReview   = "warning_under_review"
	warningClosed        = "warning_closed"
	needsResponse        = "needs_response"
	underReview          = "under_review"
	won                  = "won"
	lost                 = "lost"
)

// changes are the statuses that may follow on another one, each with the events that tell of it.
var changes = map[string]map[string][]string{
	warningNeedsResponse: {warningUnderReview: disputeUpdated, warningClosed: disputeClosed,
		needsResponse: disputeTaken},
	warningUnderReview: {warningClosed: disputeClosed, needsResponse: disputeTaken},
	needsResponse:      {underReview: disputeUpdated, lost: disputeClosed},
	underReview:        {won: disputeWon, lost: disputeClosed},
}

var (
	disputeUpdated = []string{"charge.dispute.updated"}
	disputeClosed  = []string{"charge.dispute.closed"}
	disputeTaken   = []string{"charge.dispute.updated", "charge.dispute.funds_withdrawn"}
	disputeWon     = []string{"charge.dispute.closed", "charge.dispute.funds_reinstated"}
)

// evidenceTime is how long the merchant may answer.
const evidenceTime = 7 * 24 * time.Hour

// dispute is one version of a Dispute.
type dispute struct {
	ID         string            `json:"id"`
	Account    string            `json:"account"`
	Intent     string            `json:"intent"`
	Charge     string            `json:"charge"`
	Amount     int64             `json:"amount"`
	Currency   string            `json:"currency"`
	Reason     string            `json:"reason"`
	Status     string            `json:"status"`
	Metadata   map[string]string `json:"metadata,omitempty"`
	Evidence   string            `json:"evidence,omitempty"`
	Sent       int64             `json:"sent,omitzero"` // how often evidence was submitted
	Created    int64             `json:"created"`
	Withdrawn  int64             `json:"withdrawn,omitzero"`  // when the money was taken
	Reinstated int64             `json:"reinstated,omitzero"` // when it came back
	Due        *due              `json:"due,omitempty"`
}

// held is what the dispute keeps from the charge.
func (d *dispute) held() int64 {
	if slices.Contains([]string{needsResponse, underReview, lost}, d.Status) {
		return d.Amount
	}
	return 0
}

// transactions are the movements in the balance.
func (d *dispute) transactions() (all []*transaction) {
	if d.Withdrawn != 0 {
		all = append(all, &transaction{transactionID(d.ID), adjustment, -d.Amount, disputeFee, d.Currency, d.Withdrawn,
			d.ID, ""})
	}
	if d.Reinstated != 0 {
		all = append(all, &transaction{transactionID(d.ID) + "_back", adjustment, d.Amount, 0, d.Currency, d.Reinstated,
			d.ID, ""})
	}
	return all
}

// date gives a dispute the times of what has happened to it.
func (d *dispute) date(now int64) {
	if d.Created == 0 {
		d.Created = now
	}
	if d.held() > 0 && d.Withdrawn == 0 {
		d.Withdrawn = now
	}
	if d.Status == won && d.Reinstated == 0 {
		d.Reinstated = now
	}
}

func (d *dispute) dueBy() time.Time { return time.Unix(d.Created, 0).Add(evidenceTime).UTC() }

// shown is the dispute as the API shows it.
func (d *dispute) shown() object {
	return object{
		"id": d.ID, "object": "dispute", "amount": d.Amount, "balance_transactions": shownAll(d.transactions()),
		"charge": d.Charge, "created": d.Created, "currency": d.Currency, "enhanced_eligibility_types": []string{},
		"evidence": object{"uncategorized_text": orNull(d.Evidence)},
		"evidence_details": object{"due_by": d.dueBy().Unix(), "has_evidence": d.Evidence != "", "past_due": false,
			"submission_count": d.Sent},
		"is_charge_refundable": d.held() == 0, "livemode": false, "metadata": shownMetadata(d.Metadata),
		"payment_intent": d.Intent, "reason": d.Reason, "status": d.Status,
	}
}

// movementOfDispute is how the ledger names a dispute.
func movementOfDispute(d *dispute) *mockpsp.Movement {
	status := d.Status
	switch status {
	case warningNeedsResponse, warningUnderReview:
		status = mockpsp.StatusInquiry
	case warningClosed:
		status = mockpsp.StatusClosed
	}
	return &mockpsp.Movement{
		ID: d.ID, Object: mockpsp.ObjectDispute, Account: d.Account, ChargeID: d.Intent, AmountCents: d.Amount,
		Currency: strings.ToUpper(d.Currency), Reason: d.Reason, Status: status,
		EvidenceDueBy: d.dueBy().Format(time.RFC3339),
	}
}

// openDispute returns the work of a new dispute about a charge: without an amount about all that the charge has left.
// The caller holds the lock of the intent.
func (s *Server) openDispute(about *intent, made *dispute) (*work, error) {
	of := s.store.chargeOf(about.Account, about.Charge)
	if of == nil || of.Status != succeeded {
		return nil, invalid("payment_intent", "This PaymentIntent does not have a successful charge to dispute.")
	}
	charged := *of
	left := charged.Amount - charged.Refunded - charged.Held
	if made.Amount == 0 {
		made.Amount = left
	}
	if made.Amount < 1 || made.Amount > left {
		return nil, exceedsCharge()
	}
	made.ID, made.Account, made.Intent = newID("du_"), about.Account, about.ID
	made.Charge, made.Currency = of.ID, of.Currency
	charged.Held += made.held()
	charged.Disputed = true
	w := &work{change: change{Charge: &charged, Dispute: made}}
	w.tell(made.Account, "charge.dispute.created")
	if made.held() > 0 {
		w.tell(made.Account, "charge.dispute.funds_withdrawn")
	}
	w.result = succeedWith(made.shown)
	return w, nil
}

func exceedsCharge() apiError {
	return invalidCode("amount_too_large", "amount", "The charge does not have so much left.")
}

// changeDispute returns the work of a dispute's next version, with another status. The caller holds the lock of the
// intent.
func (s *Server) changeDispute(of *dispute, status string) (*work, error) {
	events, legal := changes[of.Status][status]
	if !legal {
		return nil, invalid("status", "A dispute that is "+of.Status+" does not become "+status+".")
	}
	next, charged := *of, *s.store.chargeOf(of.Account, of.Charge)
	next.Status, next.Due = status, nil
	charged.Held += next.held() - of.held()
	if charged.Held+charged.Refunded > charged.Amount {
		return nil, exceedsCharge()
	}
	w := &work{change: change{Charge: &charged, Dispute: &next}}
	w.tell(next.Account, events...)
	w.result = succeedWith(next.shown)
	return w, nil
}

func (s *Server) findDispute(account, id string) (*dispute, error) {
	of := s.store.disputeOf(account, id)
	if of == nil {
		return nil, noSuch("dispute", "id", id)
	}
	return of, nil
}

// withDispute does something to the newest version of a dispute, one request at a time.
func (s *Server) withDispute(account, id string, do func(*dispute) (reply, error)) (reply, error) {
	of, err := s.findDispute(account, id)
	if err != nil {
		return reply{}, err
	}
	found := s.store.intentSlot(account, of.Intent)
	found.changing.Lock()
	defer found.changing.Unlock()
	return do(s.store.disputeOf(account, id))
}

func (s *Server) getDispute(c *call) (reply, error) {
	id := c.r.PathValue("id")
	of, err := s.findDispute(c.account, id)
	if err != nil {
		return reply{}, err
	}
	return s.ok(c, of.shown())
}

// The evidence with which one of Stripe's test disputes ends: docs.stripe.com/testing#evidence.
const (
	winningEvidence = "winning_evidence"
	losingEvidence  = "losing_evidence"
)

// updateDispute takes evidence and, unless it is only staged, brings it to the bank. Metadata alone brings nothing.
func (s *Server) updateDispute(c *call) (func() (reply, error), error) {
	id, p := c.r.PathValue("id"), c.params
	if _, err := s.findDispute(c.account, id); err != nil {
		return nil, err
	}
	return func() (reply, error) {
		return s.withDispute(c.account, id, func(of *dispute) (reply, error) {
			next := *of
			evidence, submit := p.text("evidence[uncategorized_text]"), p.text("submit")
			next.Evidence = cmp.Or(evidence, of.Evidence)
			if next.Metadata = shownMetadata(of.Metadata); len(p.metadata()) > 0 {
				for name, value := range p.metadata() {
					next.Metadata[name] = value
				}
			}
			w := &work{change: change{Dispute: &next}}
			w.tell(next.Account, disputeUpdated...)
			if submit == "true" && next.Evidence != "" || submit != "false" && evidence != "" {
				status := underReview
				if of.Status == warningNeedsResponse {
					status = warningUnderReview
				}
				changed, err := s.changeDispute(&next, status)
				if err != nil {
					refused := invalid("", "This dispute takes no evidence any more.")
					return s.commit(c.asked, &work{result: failWith(refused)})
				}
				w = changed
				w.Dispute.Sent++
				s.decideLater(c.asked, w.Dispute)
			}
			w.result = succeedWith(w.Dispute.shown)
			return s.commit(c.asked, w)
		})
	}, nil
}

// decideLater has the bank decide by the evidence.
func (s *Server) decideLater(by asked, d *dispute) {
	for evidence, what := range map[string]dueKind{winningEvidence: dueWon, losingEvidence: dueLost} {
		if d.Evidence == evidence {
			d.Due = s.dueLater(s.psp.Config().LateDelay, what, fault{}, by)
		}
	}
}

// closeDispute gives a dispute up.
func (s *Server) closeDispute(c *call) (func() (reply, error), error) {
	id := c.r.PathValue("id")
	if _, err := s.findDispute(c.account, id); err != nil {
		return nil, err
	}
	return func() (reply, error) {
		return s.withDispute(c.account, id, func(of *dispute) (reply, error) {
			w, err := s.changeDispute(of, lost)
			if err != nil {
				return s.commit(c.asked, &work{result: failWith(invalid("", "This dispute is already closed."))})
			}
			return s.commit(c.asked, w)
		})
	}, nil
}

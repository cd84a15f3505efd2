package stripe

import "net/http"

func ok(object any) (reply, error) { return reply{status: http.StatusOK, body: render(object)}, nil }

func (s *Server) getIntent(c *call) (reply, error) {
	found, err := s.findIntent(c)
	if err != nil {
		return reply{}, err
	}
	current := s.store.newestIntent(found)
	if current.Stuck {
		return reply{}, serverError()
	}
	return ok(s.showIntent(current, c.expands("latest_charge")))
}

func (s *Server) showIntent(i *intent, expanded bool) any {
	if !expanded || i.Charge == "" {
		return i.view(nil)
	}
	return i.view(s.store.chargeOf(i.Account, i.Charge))
}

func (s *Server) listIntents(c *call) (reply, error) {
	l, err := c.params.listing()
	if err != nil {
		return reply{}, err
	}
	expanded := c.expands("data.latest_charge")
	if err := c.params.rest("customer"); err != nil {
		return reply{}, err
	}
	var found []*intent
	var more bool
	s.store.read(c.account, func(b *book) {
		found, more, err = pageOf(b.intents, l, "payment_intent", func(i *intent) int64 { return i.Created },
			func(i *intent) bool { return !i.Stuck })
	})
	if err != nil {
		return reply{}, err
	}
	return answerPage(c, found, more, func(i *intent) any { return s.showIntent(i, expanded) }), nil
}

func (s *Server) getCharge(c *call) (reply, error) {
	id := c.r.PathValue("id")
	found := s.store.chargeOf(c.account, id)
	if found == nil {
		return reply{}, noSuch("charge", "id", id)
	}
	if found.Stuck {
		return reply{}, serverError()
	}
	return ok(s.showCharge(found, c.expands("balance_transaction")))
}

func (s *Server) showCharge(of *charge, expanded bool) any {
	if !expanded || of.Status != succeeded {
		return of.view(nil)
	}
	var booked *transaction
	s.store.read(of.Account, func(b *book) { booked = b.transactions.byID[transactionID(of.ID)].newest })
	return of.view(booked)
}

// listCharges leaves a stuck charge out, or one of them would end all scans for good. But the list of one intent fails:
// a reader would take a list without the charge for proof.
func (s *Server) listCharges(c *call) (reply, error) {
	l, err := c.params.listing()
	if err != nil {
		return reply{}, err
	}
	intentID := c.params.text("payment_intent")
	expanded := c.expands("data.balance_transaction")
	if err := c.params.rest("customer", "transfer_group"); err != nil {
		return reply{}, err
	}
	var found []*charge
	var more bool
	stuck := false
	s.store.read(c.account, func(b *book) {
		found, more, err = pageOf(b.charges, l, "charge", func(of *charge) int64 { return of.Created },
			func(of *charge) bool {
				asked := intentID == "" || of.Intent == intentID
				stuck = stuck || asked && of.Stuck
				return asked && !of.Stuck
			})
	})
	switch {
	case err != nil:
		return reply{}, err
	case stuck && intentID != "":
		return reply{}, serverError()
	}
	return answerPage(c, found, more, func(of *charge) any { return s.showCharge(of, expanded) }), nil
}

func (s *Server) getRefund(c *call) (reply, error) {
	id := c.r.PathValue("id")
	found := s.store.refundOf(c.account, id)
	if found == nil {
		return reply{}, noSuch("refund", "id", id)
	}
	if found.Stuck {
		return reply{}, serverError()
	}
	return ok(found.view())
}

func (s *Server) listRefunds(c *call) (reply, error) {
	l, err := c.params.listing()
	if err != nil {
		return reply{}, err
	}
	intentID, chargeID := c.params.text("payment_intent"), c.params.text("charge")
	if err := c.params.rest(); err != nil {
		return reply{}, err
	}
	var found []*refund
	var more, stuck bool
	s.store.read(c.account, func(b *book) {
		found, more, err = pageOf(b.refunds, l, "refund", func(r *refund) int64 { return r.Created },
			func(r *refund) bool {
				asked := (intentID == "" || r.Intent == intentID) && (chargeID == "" || r.Charge == chargeID)
				stuck = stuck || asked && r.Stuck
				return asked && !r.Stuck
			})
	})
	switch {
	case err != nil:
		return reply{}, err
	case stuck && intentID+chargeID != "":
		// Without the refund, the list would say that there is none of this charge.
		return reply{}, serverError()
	}
	return answerPage(c, found, more, func(r *refund) any { return r.view() }), nil
}

func (s *Server) getEvent(c *call) (reply, error) {
	id := c.r.PathValue("id")
	var found *event
	s.store.read(c.account, func(b *book) {
		if known := b.events.byID[id]; known != nil {
			found = known.newest
		}
	})
	if found == nil {
		return reply{}, noSuch("event", "id", id)
	}
	return ok(found.view())
}

func (s *Server) listEvents(c *call) (reply, error) {
	l, err := c.params.listing()
	if err != nil {
		return reply{}, err
	}
	types := c.params.texts("types")
	if kind := c.params.text("type"); kind != "" {
		types = append(types, kind)
	}
	if err := c.params.rest("delivery_success"); err != nil {
		return reply{}, err
	}
	var found []*event
	var more bool
	s.store.read(c.account, func(b *book) {
		found, more, err = pageOf(b.events, l, "event", func(e *event) int64 { return e.Created },
			func(e *event) bool { return matchesType(e.Type, types) })
	})
	if err != nil {
		return reply{}, err
	}
	return answerPage(c, found, more, func(e *event) any { return e.view() }), nil
}

func (s *Server) getTransaction(c *call) (reply, error) {
	id := c.r.PathValue("id")
	var found *transaction
	s.store.read(c.account, func(b *book) {
		if known := b.transactions.byID[id]; known != nil {
			found = known.newest
		}
	})
	if found == nil {
		return reply{}, noSuch("balance transaction", "id", id)
	}
	return ok(s.showTransaction(c.account, found, c.expands("source")))
}

// showTransaction may show the whole charge or refund. A stuck one is among them: another system makes this list.
func (s *Server) showTransaction(account string, t *transaction, expanded bool) any {
	if !expanded {
		return t.view(nil)
	}
	if source := s.store.chargeOf(account, t.source); source != nil {
		return t.view(source.view(nil))
	}
	return t.view(s.store.refundOf(account, t.source).view())
}

func (s *Server) listTransactions(c *call) (reply, error) {
	l, err := c.params.listing()
	if err != nil {
		return reply{}, err
	}
	kind, source, currency := c.params.text("type"), c.params.text("source"), c.params.text("currency")
	expanded := c.expands("data.source")
	if err := c.params.rest("payout"); err != nil {
		return reply{}, err
	}
	var found []*transaction
	var more bool
	s.store.read(c.account, func(b *book) {
		found, more, err = pageOf(b.transactions, l, "balance transaction",
			func(t *transaction) int64 { return t.created },
			func(t *transaction) bool {
				return (kind == "" || t.kind == kind) && (source == "" || t.source == source) &&
					(currency == "" || t.currency == currency)
			})
	})
	if err != nil {
		return reply{}, err
	}
	show := func(t *transaction) any { return s.showTransaction(c.account, t, expanded) }
	return answerPage(c, found, more, show), nil
}

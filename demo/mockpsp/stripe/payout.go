package stripe

import (
	"maps"
	"slices"

	"payonce/demo/mockpsp"
)

// payout pays the transactions of a balance to the bank. It is an automatic one: of others, Stripe does not know what
// they have paid.
type payout struct {
	ID       string   `json:"id"`
	Account  string   `json:"account"`
	Amount   int64    `json:"amount"`
	Currency string   `json:"currency"`
	Created  int64    `json:"created"`
	Paid     []string `json:"paid"` // ids of transactions
}

func (p *payout) shown() object {
	return object{
		"id": p.ID, "object": "payout", "amount": p.Amount, "arrival_date": p.Created, "automatic": true,
		"balance_transaction": transactionID(p.ID), "created": p.Created, "currency": p.Currency, "livemode": false,
		"metadata": object{}, "method": "standard", "reconciliation_status": "completed", "status": "paid",
		"type": "bank_account",
	}
}

// PayOut implements [mockpsp.Doors]: one payout for each currency whose balance is positive.
func (s *Server) PayOut(account string) (any, error) {
	s.paying.Lock()
	defer s.paying.Unlock()
	unpaid := map[string]*payout{}
	s.store.read(account, func(b *book) {
		for _, t := range b.transactions.all {
			if t.newest.payout != "" {
				continue
			}
			p := unpaid[t.newest.currency]
			if p == nil {
				p = &payout{ID: newID("po_"), Account: account, Currency: t.newest.currency}
				unpaid[p.Currency] = p
			}
			p.Amount += t.newest.amount - t.newest.fee
			p.Paid = append(p.Paid, t.newest.id)
		}
	})
	paid := []object{}
	for _, currency := range slices.Sorted(maps.Keys(unpaid)) {
		if p := unpaid[currency]; p.Amount > 0 {
			w := &work{change: change{Payout: p}, fault: fault{token: methodOK}}
			if _, err := s.commit(asked{}, w); err != nil {
				return nil, err
			}
			paid = append(paid, p.shown())
		}
	}
	return paid, nil
}

var _ mockpsp.Doors = (*Server)(nil)

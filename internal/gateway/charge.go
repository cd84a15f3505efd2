package gateway

import (
	"context"
	"net/url"
)

// Charge is a request to take money. AmountMinor counts the currency's minor unit.
type Charge struct {
	Account       string // the tenant's own account at the PSP
	Key           string // sent as Idempotency-Key
	Reference     string // our payment id
	AmountMinor   int64
	Currency      string
	PaymentMethod string
}

// Refund is a request to give money back.
type Refund struct {
	Account     string
	Key         string
	Reference   string // our refund id
	ChargeID    string // the PSP's id of the charge
	AmountMinor int64
	Currency    string
	Reason      string
}

// Charge sends ch once.
func (c *Client) Charge(ctx context.Context, ch Charge) Outcome {
	body := struct {
		AmountCents   int64  `json:"amountCents"`
		Currency      string `json:"currency"`
		PaymentMethod string `json:"paymentMethod"`
		Reference     string `json:"reference"`
	}{ch.AmountMinor, ch.Currency, ch.PaymentMethod, ch.Reference}
	return c.send(ctx, ch.Account, ch.Key, chargesPath, body, ch.judgeReply)
}

func (ch Charge) wanted() terms {
	return terms{
		Account: ch.Account, IdempotencyKey: ch.Key, Reference: ch.Reference,
		AmountCents: ch.AmountMinor, Currency: ch.Currency,
	}
}

// Refund sends r once.
func (c *Client) Refund(ctx context.Context, r Refund) Outcome {
	body := struct {
		AmountCents int64  `json:"amountCents"`
		Currency    string `json:"currency"`
		Reference   string `json:"reference"`
		Reason      string `json:"reason,omitzero"`
	}{r.AmountMinor, r.Currency, r.Reference, r.Reason}
	return c.send(ctx, r.Account, r.Key, chargesPath+"/"+url.PathEscape(r.ChargeID)+"/refunds", body, r.wanted().judge)
}

func (r Refund) wanted() terms {
	return terms{
		Account: r.Account, IdempotencyKey: r.Key, Reference: r.Reference, ChargeID: r.ChargeID,
		AmountCents: r.AmountMinor, Currency: r.Currency,
	}
}

package native

import (
	"context"
	"net/url"
	"regexp"

	"payonce/internal/gateway"
)

const chargesPath = "/v1/charges"

// tokenForm is the form of the PSP's payment methods.
var tokenForm = regexp.MustCompile(`^pm_[a-z0-9_]{1,61}$`)

// refuses says why the PSP can never take a charge. It takes any refund.
func refuses(r gateway.Request) *gateway.Unacceptable {
	if ch, is := r.(gateway.Charge); is && !tokenForm.MatchString(ch.PaymentMethod) {
		return &gateway.Unacceptable{Member: gateway.TokenMember,
			Detail: "must be a PSP token: pm_ and up to 61 lower-case letters, digits or underscores"}
	}
	return nil
}

// Charge sends ch once.
func (c *Client) Charge(ctx context.Context, ch gateway.Charge) gateway.Outcome {
	body := &struct {
		AmountCents   int64  `json:"amountCents"`
		Currency      string `json:"currency"`
		PaymentMethod string `json:"paymentMethod"`
		Reference     string `json:"reference"`
	}{ch.AmountMinor, ch.Currency, ch.PaymentMethod, ch.Reference}
	return judgeCharge(ch, c.Send(ctx, ch.Account, c.post(ch.Account, ch.Key, chargesPath, body)))
}

// Refund sends r once.
func (c *Client) Refund(ctx context.Context, r gateway.Refund) gateway.Outcome {
	body := &struct {
		AmountCents int64  `json:"amountCents"`
		Currency    string `json:"currency"`
		Reference   string `json:"reference"`
		Reason      string `json:"reason,omitzero"`
	}{r.AmountMinor, r.Currency, r.Reference, r.Reason}
	path := chargesPath + "/" + url.PathEscape(r.ChargeID) + "/refunds"
	return judge(r.Wanted(), c.Send(ctx, r.Account, c.post(r.Account, r.Key, path, body)))
}

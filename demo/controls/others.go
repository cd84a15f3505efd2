package controls

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"time"
)

// deed is something that others do to a payment: the merchant's people at the PSP, the payer's bank, or the PSP.
type deed struct{ Name, Label, Means string }

func deeds() []deed {
	return []deed{
		{"refund", "Refund in the PSP's dashboard", "Somebody gives 3.00 USD back, and does not ask Payonce."},
		{"fail-refund", "Fail the last refund", "Its money comes back: the payer's account is closed."},
		{"dispute", "Open a dispute", "The payer's bank takes 5.00 USD until the dispute is decided."},
		{"win", "Win", "The money of the last dispute is given back."},
		{"lose", "Lose", "The money of the last dispute is gone."},
		{"pay-out", "Pay out", "The PSP pays the whole balance to the merchant's bank. The settlement file has it: reconciler statement --date today reads it."},
	}
}

// postOthers does what others do to the payment in the picture, and leads to its page.
func (s *Controls) postOthers(w http.ResponseWriter, r *http.Request) {
	key, all := r.PostFormValue("key"), deeds()
	i := slices.IndexFunc(all, func(d deed) bool { return d.Name == r.PostFormValue("deed") })
	if i < 0 {
		http.Error(w, "there is no such deed", http.StatusBadRequest)
		return
	}
	paymentID, err := s.do(r.Context(), all[i].Name, key)
	if err != nil {
		s.told.note(all[i].Label, "not done: "+err.Error())
		s.back(w, r, key, atGuide)
		return
	}
	s.told.note(all[i].Label, "done")
	http.Redirect(w, r, "/console/payments/"+url.PathEscape(paymentID), http.StatusSeeOther)
}

// do returns the id of the payment. Payonce hears of the deed by a webhook, so do waits until the payment shows it.
func (s *Controls) do(ctx context.Context, name, key string) (paymentID string, err error) {
	asked := url.Values{"account": {s.config.Account}, "idempotencyKey": {key}}
	ledger, err := s.ledgerOf(ctx, asked)
	if err != nil {
		return "", err
	}
	i := slices.IndexFunc(ledger, charge.moved)
	if key == "" || i < 0 {
		return "", errors.New("the PSP has not charged this key")
	}
	about := ledger[i]
	asked = url.Values{"account": {s.config.Account}, "chargeId": {about.ID}}
	has, err := readPSP[changes](ctx, s, "/_ledger?"+asked.Encode())
	if err != nil {
		return "", err
	}
	doors, err := doorsOf(name, s.config.Account, about.ID, has)
	if err != nil {
		return "", err
	}
	look := func(ctx context.Context) (string, error) { return s.shownAs(ctx, about.Reference) }
	before, err := look(ctx)
	if err != nil {
		return "", err
	}
	for _, d := range doors {
		if _, err := s.askPSP(ctx, http.MethodPost, d.path, d.body); err != nil {
			return "", err
		}
		if name != "pay-out" { // That changes no payment.
			before = waitForChange(ctx, look, before)
		}
	}
	return about.Reference, nil
}

// changes are the refunds and disputes of a charge, oldest first.
type changes struct {
	Refunds  []charge `json:"refunds"`
	Disputes []charge `json:"disputes"`
}

// door is one of the mock PSP's doors, with what is asked for there.
type door struct{ path, body string }

// doorsOf are the doors of a deed, in order.
func doorsOf(name, account, chargeID string, has changes) ([]door, error) {
	switch name {
	case "refund":
		return []door{{"/_refunds", fmt.Sprintf(`{"chargeId":%q,"amountCents":300}`, chargeID)}}, nil
	case "dispute":
		return []door{{"/_disputes", fmt.Sprintf(`{"chargeId":%q,"amountCents":500}`, chargeID)}}, nil
	case "pay-out":
		return []door{{"/_payouts", fmt.Sprintf(`{"account":%q}`, account)}}, nil
	case "fail-refund":
		if len(has.Refunds) == 0 {
			return nil, errors.New("nothing has been refunded")
		}
		return []door{{"/_refunds/" + has.Refunds[len(has.Refunds)-1].ID + "/fail", "{}"}}, nil
	}
	if len(has.Disputes) == 0 {
		return nil, errors.New("there is no dispute")
	}
	last := has.Disputes[len(has.Disputes)-1]
	at := "/_disputes/" + last.ID
	switch {
	case name == "lose":
		return []door{{at, `{"status":"lost"}`}}, nil
	case last.Status == "needs_response": // The bank decides when it has the merchant's evidence.
		return []door{{at, `{"status":"under_review"}`}, {at, `{"status":"won"}`}}, nil
	}
	return []door{{at, `{"status":"won"}`}}, nil
}

const (
	// changeWithin is how long a page waits for the webhook. With webhooks off, the next scan tells of the deed.
	changeWithin = 5 * time.Second
	changeEvery  = 100 * time.Millisecond
)

// waitForChange waits until the API shows a payment in another way, and returns how it does.
func waitForChange(ctx context.Context, look func(context.Context) (string, error), before string) string {
	ctx, end := context.WithTimeout(ctx, changeWithin)
	defer end()
	again := time.NewTicker(changeEvery)
	defer again.Stop()
	for {
		if now, err := look(ctx); err == nil && now != before {
			return now
		}
		select {
		case <-again.C:
		case <-ctx.Done():
			return before
		}
	}
}

// shownAs is a payment as the API shows it.
func (s *Controls) shownAs(ctx context.Context, paymentID string) (string, error) {
	at := s.config.PublicURL + "/payments/" + url.PathEscape(paymentID)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, at, nil)
	if err != nil {
		return "", fmt.Errorf("ask the API: %w", err)
	}
	req.Header.Set("Authorization", "Bearer "+s.config.APIKey)
	res, err := s.client.Do(req)
	if err != nil {
		return "", fmt.Errorf("ask the API: %w", err)
	}
	defer res.Body.Close()
	raw, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer))
	if err != nil {
		return "", fmt.Errorf("ask the API: %w", err)
	}
	if res.StatusCode != http.StatusOK {
		return "", fmt.Errorf("the API answered %d", res.StatusCode)
	}
	return string(raw), nil
}

package invariants

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/go-json-experiment/json"

	"payonce/internal/payments"
	"payonce/lab/history"
)

// sheet is a payment or a refund as the API shows it, of both what there is.
type sheet struct {
	PaymentID   string `json:"paymentId"`
	RefundID    string `json:"refundId"`
	Status      string `json:"status"`
	AmountCents int64  `json:"amountCents"`
	Currency    string `json:"currency"`
	PSPChargeID string `json:"pspChargeId"`
	PSPRefundID string `json:"pspRefundId"`
	DeclineCode string `json:"declineCode"`
	Refunded    int64  `json:"amountRefundedCents"`
}

// refusalSheet is the problem document of a refusal, of which the status is a number.
type refusalSheet struct {
	PaymentID   string `json:"paymentId"`
	RefundID    string `json:"refundId"`
	DeclineCode string `json:"declineCode"`
}

// shows is the row as a sheet.
func (m *movementRow) shows() sheet {
	s := sheet{Status: m.Status, AmountCents: m.Amount, Currency: m.Currency, DeclineCode: m.Decline, Refunded: m.Refunded}
	if m.PaymentID != nil {
		s.PaymentID, s.RefundID, s.PSPRefundID = payments.PaymentID(*m.PaymentID).String(), m.String(), m.PSPID
	} else {
		s.PaymentID, s.PSPChargeID = m.String(), m.PSPID
	}
	return s
}

// differs holds a body against the row.
func (m *movementRow) differs(body []byte) string {
	want := m.shows()
	if m.Status == string(payments.Refused) {
		// Where the PSP has a name for a refusal, it is none of a client's business.
		want.PSPChargeID, want.PSPRefundID = "", ""
	}
	return want.differs(body)
}

func (s sheet) differs(body []byte) string {
	var got sheet
	if err := json.Unmarshal(body, &got); err != nil {
		return "the answer cannot be read: " + err.Error()
	}
	if s.Status == string(payments.Refused) {
		got.PSPChargeID, got.PSPRefundID = "", ""
	}
	if got != s {
		return fmt.Sprintf("the answer says %+v, the row %+v", got, s)
	}
	return ""
}

// answersFit is the part of I3 that looks into the stored answers: each says what its payment or refund says.
func answersFit(w world) []Violation {
	var found []Violation
	for name, k := range w.books.keys {
		m := w.books.subjects[k.Subject]
		if m == nil || k.ResponseStatus == nil {
			continue
		}
		if differs := w.books.storedDiffers(k, m); differs != "" {
			found = append(found, Violation{"I3", name.String(), fmt.Sprintf("the stored answer is not about %s as it is: %s", m, differs)})
		}
	}
	return found
}

func (b *books) storedDiffers(k *keyRow, m *movementRow) string {
	status, then := int(*k.ResponseStatus), m.shows()
	then.Refunded = 0 // it was written before any refund of it
	switch {
	case status == http.StatusPaymentRequired && m.Status == string(payments.Refused):
		want := refusalSheet{then.PaymentID, then.RefundID, m.Decline}
		var got refusalSheet
		if err := json.Unmarshal(k.ResponseBody, &got); err != nil || got != want {
			return fmt.Sprintf("%+v instead of %+v (%v)", got, want, err)
		}
		return ""
	case status != http.StatusCreated || m.Status != string(payments.Success):
		return fmt.Sprintf("status %d of what is %s", status, m.Status)
	}
	var told sheet
	if json.Unmarshal(k.ResponseBody, &told) == nil && strings.HasPrefix(told.PSPChargeID+told.PSPRefundID, payments.OperatorPSPID) && b.ruled(m) {
		then.PSPChargeID, then.PSPRefundID = told.PSPChargeID, told.PSPRefundID // the PSP's own name for it came later
	}
	return then.differs(k.ResponseBody)
}

// asked is the part of I4 that begins with the client: what it asked for is what there is. The rest is between the row and the PSP.
func asked(w world, operations []history.Operation) []Violation {
	var found []Violation
	for _, o := range operations {
		accepted := o.Status == http.StatusAccepted && (o.Route == history.PaymentsRoute || o.Route == history.RefundsRoute)
		if !isFinal(o) && !accepted {
			continue
		}
		k := w.books.keys[nameOf(o)]
		if k == nil || w.books.subjects[k.Subject] == nil {
			continue // which is found elsewhere
		}
		m := w.books.subjects[k.Subject]
		if differs := m.differsFromAsked(o.Body); differs != "" {
			found = append(found, Violation{"I4", nameOf(o).String(), fmt.Sprintf("client %d was answered %d about %s: %s", o.Client, o.Status, m, differs)})
		}
	}
	return found
}

func (m *movementRow) differsFromAsked(body []byte) string {
	var order struct {
		AmountCents int64  `json:"amountCents"`
		Currency    string `json:"currency"`
	}
	if err := json.Unmarshal(body, &order); err != nil {
		return "the request cannot be read: " + err.Error()
	}
	if m.PaymentID != nil {
		order.Currency = m.Currency // that of its payment, which totals looks at
		if order.AmountCents == 0 {
			order.AmountCents = m.Amount // all that was left
		}
	}
	if order.AmountCents != m.Amount || order.Currency != m.Currency {
		return fmt.Sprintf("%d %s were asked for, and it is of %d %s", order.AmountCents, order.Currency, m.Amount, m.Currency)
	}
	return ""
}

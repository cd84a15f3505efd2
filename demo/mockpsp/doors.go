package mockpsp

import (
	"bytes"
	"cmp"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// The doors to what others do at a provider: the merchant's people in the dashboard, customers, and banks. They need no
// secret.

// Doors do to the objects of another dialect what is asked for at a door. Each returns the object as its dialect shows
// it. An error for the caller is made by [Refuse].
type Doors interface {
	RefundElsewhere(account, charge string, amountCents int64, isPending bool) (any, error)
	OpenDispute(account, charge string, amountCents int64, reason string, isInquiry bool) (any, error)
	// Change gives a refund or a dispute another status, by our names.
	Change(account, id, status string) (any, error)
	// PayOut pays what the account's balance has.
	PayOut(account string) (any, error)
}

// OnDoor is called before the server serves.
func (s *Server) OnDoor(of Doors) { s.doors = of }

// Refuse is an error that the caller of a door may read.
func Refuse(status int, code, message string) error { return apiError{status, code, message} }

func noSuchEntry() apiError {
	return apiError{http.StatusNotFound, "entry_not_found",
		"there is no such charge, refund or dispute; GET /_ledger lists them all"}
}

// door wraps what is common to the doors. The body is JSON, with any Content-Type, or a form of the page: then the page
// is the answer.
func (s *Server) door(do func(id string, body []byte) (any, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		body, err := readBody(w, r)
		body = bytes.TrimSpace(body)
		isForm := r.Header.Get("Content-Type") == "application/x-www-form-urlencoded" &&
			!bytes.HasPrefix(body, []byte("{"))
		switch {
		case err == nil && isForm:
			body, err = parseDoorForm(body)
		case len(body) == 0:
			body = []byte("{}")
		}
		var shown any
		if err == nil {
			shown, err = s.enterDoor(r.PathValue("id"), body, do)
		}
		refused, isRefused := errors.AsType[apiError](err)
		switch {
		case isForm && isRefused:
			s.renderPage(w, r, refused.status, s.rateFields(), refused.message)
		case isForm && err == nil:
			http.Redirect(w, r, "/", http.StatusSeeOther)
		case err != nil:
			s.refuse(err).Deliver(w)
		default:
			jsonReply(http.StatusOK, shown).Deliver(w)
		}
	}
}

func (s *Server) enterDoor(id string, body []byte, do func(string, []byte) (any, error)) (any, error) {
	leave, err := s.Enter()
	if err != nil {
		return nil, err
	}
	defer leave()
	return do(id, body)
}

// parseDoorForm returns the fields of a form as the JSON that the door takes. An empty field is left out.
func parseDoorForm(body []byte) ([]byte, error) {
	fields, err := url.ParseQuery(string(body))
	if err != nil || !utf8.Valid(body) {
		return nil, invalid("the body is neither JSON nor a form")
	}
	in := map[string]jsontext.Value{}
	for name := range fields {
		value := fields.Get(name)
		number, err := strconv.ParseInt(value, 10, 64)
		switch {
		case value == "":
		case err == nil:
			in[name] = Render(number)
		case value == "true":
			in[name] = Render(true)
		default:
			in[name] = Render(value)
		}
	}
	return Render(in), nil
}

// refundElsewhere gives money back that nobody has asked the API for.
func (s *Server) refundElsewhere(_ string, body []byte) (any, error) {
	var in struct {
		ChargeID    string `json:"chargeId"`
		AmountCents int64  `json:"amountCents"` // 0 is all that is left
		Pending     bool   `json:"pending"`
	}
	if err := parseStrictly(body, &in); err != nil {
		return nil, err
	}
	charge, err := s.chargeAt(in.ChargeID, in.AmountCents)
	if err != nil {
		return nil, err
	}
	if charge.dialect {
		return s.doors.RefundElsewhere(charge.Entry.Account, in.ChargeID, in.AmountCents, in.Pending)
	}
	draft := draftAbout(charge, ObjectRefund, fault(s.DrawElsewhere()))
	draft.Entry.AmountCents, draft.Entry.Status = in.AmountCents, StatusSucceeded
	if in.Pending {
		draft.Entry.Status = StatusPending
	}
	return s.put(draft)
}

func (s *Server) openDispute(_ string, body []byte) (any, error) {
	var in struct {
		ChargeID    string `json:"chargeId"`
		AmountCents int64  `json:"amountCents"` // 0 is all that is left
		Reason      string `json:"reason"`
		Inquiry     bool   `json:"inquiry"`
	}
	if err := parseStrictly(body, &in); err != nil {
		return nil, err
	}
	charge, err := s.chargeAt(in.ChargeID, in.AmountCents)
	if err != nil {
		return nil, err
	}
	reason := cmp.Or(in.Reason, "fraudulent")
	if !slices.Contains(disputeReasons, reason) {
		return nil, invalid("reason is none of those of a dispute, such as fraudulent")
	}
	if charge.dialect {
		return s.doors.OpenDispute(charge.Entry.Account, in.ChargeID, in.AmountCents, reason, in.Inquiry)
	}
	draft := disputeOf(charge, StatusNeedsResponse, fault(s.DrawElsewhere()))
	draft.Entry.AmountCents, draft.Entry.Reason = in.AmountCents, reason
	if in.Inquiry {
		draft.Entry.Status = StatusInquiry
	}
	return s.put(draft)
}

// disputeReasons are the usual ones: those of Stripe (docs.stripe.com/api/disputes/object).
var disputeReasons = []string{
	"bank_cannot_process", "check_returned", "credit_not_processed", "customer_initiated", "debit_not_authorized",
	"duplicate", "fraudulent", "general", "incorrect_account_details", "insufficient_funds", "noncompliant",
	"product_not_received", "product_unacceptable", "subscription_canceled", "unrecognized",
}

// disputeOf returns the draft of a dispute about all that the charge has left.
func disputeOf(charge *record, status string, by fault) *record {
	draft := draftAbout(charge, ObjectDispute, by)
	draft.Entry.Status, draft.Entry.Reason = status, "fraudulent"
	return draft
}

func draftAbout(charge *record, object string, by fault) *record {
	e := charge.Entry
	return &record{Fault: by,
		Entry: entry{Object: object, Account: e.Account, ChargeID: e.ID, Currency: e.Currency}}
}

// chargeAt returns the charge that a door is asked about.
func (s *Server) chargeAt(id string, amountCents int64) (*record, error) {
	charge := s.ledger.findAnywhere(id)
	switch {
	case amountCents < 0 || amountCents > maxAmountCents:
		return nil, invalid("amountCents must be a positive integer, or left out for all that the charge has left")
	case charge == nil || charge.Entry.Object != ObjectCharge || charge.dialect && s.doors == nil:
		return nil, noSuchEntry()
	}
	return charge, nil
}

func (s *Server) failRefund(id string, body []byte) (any, error) {
	if err := parseStrictly(body, &struct{}{}); err != nil {
		return nil, err
	}
	return s.change(ObjectRefund, id, StatusFailed)
}

func (s *Server) changeDispute(id string, body []byte) (any, error) {
	var in struct {
		Status string `json:"status"`
	}
	if err := parseStrictly(body, &in); err != nil {
		return nil, err
	}
	return s.change(ObjectDispute, id, in.Status)
}

func (s *Server) change(object, id, status string) (any, error) {
	found := s.ledger.findAnywhere(id)
	switch {
	case found == nil || found.Entry.Object != object || found.dialect && s.doors == nil:
		return nil, noSuchEntry()
	case status == "":
		return nil, invalid("status is required")
	case found.dialect:
		return s.doors.Change(found.Entry.Account, id, status)
	}
	return s.put(found.changed(status))
}

// put writes what was asked for at a door. Its call ends here: nobody waits for the answer who may hear of it twice.
func (s *Server) put(draft *record) (any, error) {
	if err := s.ledger.write(draft); err != nil {
		return nil, err
	}
	s.expect(draft)()
	return ledgerView{draft.Entry, draft.Fault}, nil
}

package stripe

import (
	"cmp"
	"errors"
	"net/http"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"payonce/demo/mockpsp"
)

// What others do to the objects of this dialect: see [mockpsp.Doors].

// RefundElsewhere implements [mockpsp.Doors]. The refund has no metadata and no reason.
func (s *Server) RefundElsewhere(account, charge string, amountCents int64, isPending bool) (any, error) {
	wanted := &refund{ID: newID("re_"), Account: account, Intent: charge, Amount: amountCents}
	found := s.store.intentSlot(account, charge)
	of := s.store.chargeOf(account, s.store.newestIntent(found).Charge)
	if refused, isRefused := refuseRefund(of, wanted); isRefused {
		return atDoor(reply{}, refused)
	}
	f, _ := faultOf(s.psp.DrawElsewhere())
	f.debit = isPending
	return atDoor(s.refundCharge(asked{}, found, wanted, f))
}

// OpenDispute implements [mockpsp.Doors].
func (s *Server) OpenDispute(account, charge string, amountCents int64, reason string, isInquiry bool) (any, error) {
	found := s.store.intentSlot(account, charge)
	found.changing.Lock()
	defer found.changing.Unlock()
	made := &dispute{Amount: amountCents, Reason: reason, Status: needsResponse}
	if isInquiry {
		made.Status = warningNeedsResponse
	}
	w, err := s.openDispute(s.store.newestIntent(found), made)
	if err != nil {
		return atDoor(reply{}, err)
	}
	w.fault, _ = faultOf(s.psp.DrawElsewhere())
	return atDoor(s.commit(asked{}, w))
}

// Change implements [mockpsp.Doors].
func (s *Server) Change(account, id, status string) (any, error) {
	if of := s.store.refundOf(account, id); of != nil {
		return s.failRefund(of)
	}
	return atDoor(s.withDispute(account, id, func(of *dispute) (reply, error) {
		if strings.HasPrefix(of.Status, "warning_") && status != needsResponse {
			status = "warning_" + status
		}
		w, err := s.changeDispute(of, status)
		if err != nil {
			return reply{}, err
		}
		return s.commit(asked{}, w)
	}))
}

// failRefund has a refund come back.
func (s *Server) failRefund(of *refund) (any, error) {
	found := s.store.intentSlot(of.Account, of.Intent)
	found.changing.Lock()
	defer found.changing.Unlock()
	newest := s.store.refundOf(of.Account, of.ID)
	if newest.Status != succeeded {
		return nil, mockpsp.Refuse(http.StatusConflict, "illegal_change",
			"a refund that is "+newest.Status+" does not become failed")
	}
	return atDoor(s.endRefund(newest, dueRefundBack, methodOK, ""))
}

// atDoor is the answer at a door: the object, or why there is none.
func atDoor(answered reply, err error) (any, error) {
	refused, isRefused := errors.AsType[apiError](err)
	switch {
	case isRefused:
		return nil, mockpsp.Refuse(refused.status, cmp.Or(refused.code, "illegal_change"), refused.message)
	case err != nil:
		return nil, err
	case answered.Status != http.StatusOK:
		return nil, mockpsp.Refuse(answered.Status, "refused", string(answered.Body))
	}
	return jsontext.Value(answered.Body), nil
}

package mockpsp

import (
	"bufio"
	"net/http"

	"github.com/go-json-experiment/json"
)

// ledgerView is an entry as GET /_ledger shows it: the truth, with the fault that was acted out.
type ledgerView struct {
	entry
	Fault fault `json:"fault"`
}

// getLedger streams what was really charged and refunded, oldest first, stuck charges included. It needs no secret
// and sees all accounts: it is the examiner's door, not the provider's.
func (s *Server) getLedger(w http.ResponseWriter, r *http.Request) {
	account, key := r.FormValue("account"), r.FormValue("idempotencyKey")
	records := s.ledger.snapshot()
	w.Header().Set("Content-Type", "application/json")
	out := bufio.NewWriter(w)
	_, _ = out.WriteString(`{"charges":[`)
	writeViews(out, records, objectCharge, account, key)
	_, _ = out.WriteString(`],"refunds":[`)
	writeViews(out, records, objectRefund, account, key)
	_, _ = out.WriteString(`]}`)
	_ = out.Flush() // the reader may have gone
}

func writeViews(out *bufio.Writer, records []*record, object, account, key string) {
	separator := ""
	for _, r := range records {
		if !r.shownFor(object, account, key) {
			continue
		}
		_, _ = out.WriteString(separator)
		if err := json.MarshalWrite(out, ledgerView{r.Entry, r.Fault}); err != nil {
			return // the reader has gone; bufio keeps the error
		}
		separator = ","
	}
}

// shownFor applies the filters of the views, where empty means all.
func (r *record) shownFor(object, account, key string) bool {
	return (object == "" || r.Entry.Object == object) &&
		(account == "" || r.Entry.Account == account) &&
		(key == "" || r.Entry.IdempotencyKey == key)
}

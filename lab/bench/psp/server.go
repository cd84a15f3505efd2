package psp

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// maxBody bounds a charge, in bytes.
const maxBody = 16 << 10

// server is the ledger behind HTTP.
type server struct {
	ledger *ledger
	delay  time.Duration // that each charge takes
}

func (s *server) routes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/charges", s.postCharge)
	mux.HandleFunc("GET /v1/charges", s.lookUp)
	mux.HandleFunc("GET /v1/refunds", noRefunds)
	mux.HandleFunc("POST /_preload", s.preload)
	mux.HandleFunc("DELETE /_charges", s.clear)
	return mux
}

func (s *server) postCharge(w http.ResponseWriter, r *http.Request) {
	ref := keyRef{r.Header.Get("PSP-Account"), r.Header.Get("Idempotency-Key")}
	var a asked
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err == nil {
		err = json.Unmarshal(body, &a)
	}
	if err != nil || ref.account == "" || ref.key == "" {
		refuse(w, http.StatusBadRequest, "not a charge with PSP-Account and Idempotency-Key")
		return
	}
	if !s.pause(r) {
		return
	}
	e, err := s.ledger.charge(ref, a)
	switch {
	case errors.Is(err, errFull):
		refuse(w, http.StatusInsufficientStorage, err.Error())
	case errors.Is(err, errMismatch):
		refuse(w, http.StatusUnprocessableEntity, err.Error())
	case err != nil:
		refuse(w, http.StatusBadRequest, err.Error())
	case e.declined():
		answer(w, http.StatusPaymentRequired, e.rendered)
	default:
		answer(w, http.StatusCreated, e.rendered)
	}
}

// pause takes the time that a charge takes, and reports whether somebody still waits for it.
func (s *server) pause(r *http.Request) bool {
	if s.delay <= 0 {
		return true
	}
	timer := time.NewTimer(s.delay)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-r.Context().Done():
		return false
	}
}

// lookUp lists the charge of a key, or none. Without a key the list is empty: a scan of this ledger has nothing to say.
func (s *server) lookUp(w http.ResponseWriter, r *http.Request) {
	account, key := r.Header.Get("PSP-Account"), r.URL.Query().Get("idempotencyKey")
	if account == "" {
		refuse(w, http.StatusBadRequest, "no PSP-Account")
		return
	}
	e, _ := s.ledger.find(keyRef{account, key})
	list := make([]byte, 0, len(e.rendered)+len(`{"data":[],"hasMore":false}`))
	list = append(list, `{"data":[`...)
	list = append(list, e.rendered...)
	list = append(list, `],"hasMore":false}`...)
	answer(w, http.StatusOK, list)
}

// noRefunds has nothing for a scan, and no opinion on a key: "not found" would be taken for a proof.
func noRefunds(w http.ResponseWriter, r *http.Request) {
	if r.URL.Query().Has("idempotencyKey") {
		refuse(w, http.StatusNotImplemented, "there are no refunds here")
		return
	}
	answer(w, http.StatusOK, []byte(`{"data":[],"hasMore":false}`))
}

// preload takes charges as they are in the answers, one JSON value after another; those that are there already stay as
// they are. Only account, idempotencyKey, reference, amountCents, currency and paymentMethod count.
func (s *server) preload(w http.ResponseWriter, r *http.Request) {
	lines := jsontext.NewDecoder(r.Body)
	for n := 0; ; n++ {
		var c charge
		err := json.UnmarshalDecode(lines, &c)
		if errors.Is(err, io.EOF) {
			answer(w, http.StatusOK, fmt.Appendf(nil, `{"loaded":%d}`, n))
			return
		}
		if err == nil && (c.Account == "" || c.IdempotencyKey == "") {
			err = errors.New("no account or no idempotencyKey")
		}
		if err == nil {
			_, err = s.ledger.charge(keyRef{c.Account, c.IdempotencyKey},
				asked{c.AmountCents, c.Currency, c.PaymentMethod, c.Reference})
		}
		if err != nil {
			refuse(w, http.StatusBadRequest, fmt.Sprintf("charge %d: %v", n+1, err))
			return
		}
	}
}

func (s *server) clear(w http.ResponseWriter, _ *http.Request) {
	s.ledger.clear()
	w.WriteHeader(http.StatusNoContent)
}

func refuse(w http.ResponseWriter, status int, message string) {
	answer(w, status, fmt.Appendf(nil, `{"error":{"message":%q}}`, message))
}

func answer(w http.ResponseWriter, status int, body []byte) {
	w.Header()["Content-Type"] = []string{"application/json"}
	w.Header()["Content-Length"] = []string{strconv.Itoa(len(body))}
	w.WriteHeader(status)
	_, _ = w.Write(body)
}

package crowd

import (
	"sync"

	"github.com/go-json-experiment/json"
)

// maxKnown bounds what a client remembers: the latest.
const maxKnown = 300

// paid is a payment that a client was told has succeeded.
type paid struct {
	tenant, key string
	ID          string `json:"paymentId"`
	Amount      int64  `json:"amountCents"`
	Currency    string `json:"currency"`
	ChargeID    string `json:"pspChargeId"`
}

// known is what a client has learned. Safe for concurrent use.
type known struct {
	mu   sync.Mutex
	paid []paid
}

func (k *known) add(r request, a answer) {
	p := paid{tenant: r.tenant, key: r.key}
	if json.Unmarshal(a.body, &p) != nil {
		return // lab/history says what is wrong with it
	}
	k.keep(p)
}

func (k *known) keep(p paid) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.paid) == maxKnown {
		k.paid = append(k.paid[:0], k.paid[1:]...)
	}
	k.paid = append(k.paid, p)
}

// pick takes one of them.
func (k *known) pick(by uint64) (paid, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.paid) == 0 {
		return paid{}, false
	}
	return k.paid[by%uint64(len(k.paid))], true
}

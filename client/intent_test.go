package client

import (
	"testing"
	"testing/synctest"
)

// JSON has no such bytes. An ID would be read back as another one after a crash, and the intent would get a second key.
func TestIntentIsUTF8(t *testing.T) {
	t.Parallel()
	const odd = "order-\xff"
	for name, change := range map[string]func(*Intent){
		"ID":             func(i *Intent) { i.ID = odd },
		"customer":       func(i *Intent) { i.CustomerID = odd },
		"currency":       func(i *Intent) { i.Currency = odd },
		"payment method": func(i *Intent) { i.PaymentMethod = odd },
		"reference":      func(i *Intent) { i.Reference = odd },
		"description":    func(i *Intent) { i.Description = odd },
		"metadata name":  func(i *Intent) { i.Metadata = map[string]string{odd: "x"} },
		"metadata value": func(i *Intent) { i.Metadata = map[string]string{"x": odd} },
	} {
		synctest.Test(t, func(t *testing.T) {
			b := setup(t, reply{status: 201})
			intent := order
			change(&intent)
			if _, err := b.client.Pay(t.Context(), intent); err == nil || b.attempts(t) != 0 {
				t.Errorf("%s: %v after %d attempts", name, err, len(b.seen))
			}
		})
	}
}

func TestJournalTakesOnlyWhatItCanReadBack(t *testing.T) {
	t.Parallel()
	path := written(t)
	j := openJournal(t, path)
	key := record("three")
	key.Key = "key-\xff"
	for _, r := range []Record{record("order-\xff"), key} {
		if _, err := j.Create(t.Context(), r); err == nil {
			t.Errorf("%q was taken with the key %q", r.Intent, r.Key)
		}
	}
	if _, err := j.Create(t.Context(), record("order-\ufffd")); err != nil {
		t.Error(err)
	}
	_ = j.Close()
	openJournal(t, path)
}

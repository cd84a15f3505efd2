package cardnumber

import (
	"crypto/rand"
	"testing"

	"github.com/google/uuid"
)

func TestCardNumbersAreFound(t *testing.T) {
	t.Parallel()
	for _, s := range []string{
		"4242424242424242", "card 4242 4242 4242 4242 please", "4242-4242-4242-4242", "378282246310005",
		"3782 822463 10005", "x4111111111111111y", "4222222222222", "6304 0000 0000 0000", "4111 1111 1111 1111 12/27", "4111-1111-1111-1111 123",
		"order 5 4111 1111 1111 1111", "4111.1111.1111.1111", "6304 0000 0000 0000 000",
		"3056 930902 5904", "0001 0000 0000 0000 008",
	} {
		if !In(s) {
			t.Errorf("In(%q) = false, want a find", s)
		}
	}
}

func TestOtherDigitsAreLeftAlone(t *testing.T) {
	t.Parallel()
	for _, s := range []string{
		"", "4242424242424241", "424242424242", "42424242424242424242", "order 4242", "2026-11-20 15:42:00",
		"4242 4242 4242", "4242  4242  4242  4242", "+41 44 668 18 00",
		"0001 0000 0000 00000009", "0001 0000 0000 0000 0009", // no card is grouped like that
	} {
		if In(s) {
			t.Errorf("In(%q) = true, want none", s)
		}
	}
}

func TestRandomUUIDsAreNoCards(t *testing.T) {
	t.Parallel()
	for range 20_000 {
		id, err := uuid.NewRandomFromReader(rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		if In(id.String()) {
			t.Fatalf("In(%q) = true: clients with UUID keys would be refused at random", id)
		}
	}
}
